# No destroy_process_group at the end: PyTorch warns, the job is fine.
# needs: torch
OMP_NUM_THREADS=1 "$PYBIN/torchrun" --standalone --nproc-per-node 2 --redirects 0 --tee 3 "$PROGRAMS/torch_train.py" --steps 40 --ddp --leave-group-open
