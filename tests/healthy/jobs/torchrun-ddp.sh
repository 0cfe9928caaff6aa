# Data-parallel training under torchrun with gloo.
# variants: 2 4
# needs: torch
"$PYBIN/torchrun" --standalone --nproc-per-node "$1" "$PROGRAMS/torch_train.py" --steps 60 --ddp
