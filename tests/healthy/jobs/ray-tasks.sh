# A Ray cluster on this node: retried tasks, restarted actor, workers that exit.
# needs: ray
# blind: Ray shows the tracebacks of failed tries although the retry succeeded
export RAY_DEDUP_LOGS=0
"$PY" "$PROGRAMS/ray_tasks.py"
