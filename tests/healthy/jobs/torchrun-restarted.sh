# A worker fails in its first life; torchrun restarts the group and training completes.
# needs: torch
# blind: the log of the first life holds a real failure; that the second life repaired it shows in the exit status
OMP_NUM_THREADS=1 "$PYBIN/torchrun" --standalone --nproc-per-node 2 --max-restarts 3 "$PROGRAMS/torch_train.py" --steps 30 --ddp --fail-first-life
