# Two runs in one job: the second resumes from the first one's checkpoint.
# needs: torch
OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/torch_train.py" --steps 30 --checkpoint-every 10
OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/torch_train.py" --steps 60 --checkpoint-every 10 --resume
