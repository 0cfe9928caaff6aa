# A job that reports about other jobs: states, signals and reasons of failures that are not its own.
cat <<'T'
JobID           JobName      State ExitCode   NNodes    Elapsed
------------ ---------- ---------- -------- -------- ----------
4711              train     FAILED      1:0        8   02:11:09
4711.batch        batch     FAILED      1:0        1   02:11:09
4712              train  NODE_FAIL      0:0       16   11:00:40
4713               eval OUT_OF_ME+    0:125        1   00:10:02
4714              train CANCELLED+     0:15        8   1-04:00:00
4715              train    TIMEOUT      0:0        8   2-00:00:11
4716              train  COMPLETED      0:0        8   1-20:01:02
T
awk 'BEGIN { n["FAILED"]=1; n["NODE_FAIL"]=1; for (s in n) printf "%-12s %d\n", s, n[s] | "sort"; close("sort"); print "jobs that failed last week: 4 of 6" }'
