# Ray actors that train, with the prefix (Trainer pid=...) on each line.
# needs: ray
RAY_DEDUP_LOGS=0 "$PY" "$PROGRAMS/ray_actors.py"
