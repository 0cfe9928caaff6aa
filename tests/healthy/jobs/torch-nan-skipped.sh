# Mixed-precision style training in which steps with overflow are skipped.
# needs: torch
OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/torch_train.py" --steps 60 --overflow-every 17
