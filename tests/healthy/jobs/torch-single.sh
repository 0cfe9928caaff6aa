# One process, data loader workers, a scheduler warning.
# needs: torch
OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/torch_train.py" --steps 80 --loader-workers 2
