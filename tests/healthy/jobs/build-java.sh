# javac lint warnings, a logged and handled exception with its stack trace, an orderly end.
# needs: javac java
cat > Job.java <<'J'
import java.util.*;
import java.util.logging.*;
public class Job {
    static final Logger LOG = Logger.getLogger("job");
    static int read(String text) { return Integer.parseInt(text); }
    public static void main(String[] args) throws Exception {
        List raw = new ArrayList(); raw.add("12"); raw.add("x"); raw.add("30");
        int failed = 0, sum = 0;
        for (Object o : raw) {
            try { sum += read((String) o); }
            catch (NumberFormatException e) { failed++; LOG.log(Level.WARNING, "record skipped", e); }
        }
        Thread worker = new Thread(() -> { throw new IllegalStateException("worker gave up, restarted"); }, "worker-1");
        worker.setUncaughtExceptionHandler((t, e) -> LOG.info(t.getName() + ": " + e.getMessage()));
        worker.start(); worker.join();
        System.out.println("sum " + sum + ", records failed " + failed + ", exit 0");
    }
}
J
javac -Xlint:all Job.java
java -Xmx64m Job
