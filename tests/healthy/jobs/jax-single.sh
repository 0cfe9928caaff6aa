# JAX on one CPU printing MaxText's step lines.
# needs: jax
"$PY" "$PROGRAMS/jax_train.py" --steps 60
