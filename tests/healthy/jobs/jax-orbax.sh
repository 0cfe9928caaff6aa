# Checkpoints with orbax, saved in the background and restored by a second run.
# needs: orbax
"$PY" "$PROGRAMS/jax_train.py" --steps 30 --checkpoints ckpt --checkpoint-every 10
"$PY" "$PROGRAMS/jax_train.py" --steps 60 --checkpoints ckpt --checkpoint-every 10
