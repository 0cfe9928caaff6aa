# Helpers are stopped on purpose: bash reports Terminated and Killed, as it does for victims of the OOM killer.
# blind: the shell's "PID Killed" line is the same for an OOM kill; only the exit status tells
sleep 300 & monitor=$!
sleep 301 & tail_log=$!
echo "running the main program"
for i in 1 2 3; do echo "chunk $i of 3"; sleep 0.1; done
kill "$monitor"; wait "$monitor" || true
kill -9 "$tail_log"; wait "$tail_log" || true
echo "all chunks done"
