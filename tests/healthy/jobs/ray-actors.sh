# Ray actors that train, with the prefix (Trainer pid=...) on each line.
# needs: ray
"$PY" "$PROGRAMS/ray_actors.py"
