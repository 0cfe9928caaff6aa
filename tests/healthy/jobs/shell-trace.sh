# bash -x shows every command, also the branches about failure, traps and time-outs.
set -x
trap 'echo "signal received, cleaning up" >&2' TERM USR1
on_error() { echo "ERROR: command failed with exit code $1"; }
if ! timeout 1 sleep 5; then echo "time-out of the probe, using the default"; fi
for n in 1 2 3; do
    if [ -e "/nonexistent/$n.err" ]; then on_error 1; fi
done
kill -USR1 $$
msg='Traceback (most recent call last):'
case "$msg" in *Traceback*) echo "filtered one known message" ;; esac
ls /nonexistent/scratch || mkdir -p scratch
cat missing.cfg 2>/dev/null || echo "no config file, defaults are used"
test -d /proc/driver/nvidia || echo "no NVIDIA driver here: CPU build"
set +x
echo finished
