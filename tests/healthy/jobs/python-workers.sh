# Process pools and subprocesses: a worker is terminated on purpose, a task is repeated, warnings at the end.
# needs: python
"$PY" -X dev -W default "$PROGRAMS/worker_pool.py"
