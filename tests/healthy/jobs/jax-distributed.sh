# jax.distributed on this node: coordinator, heartbeats, orderly shutdown, absl log lines.
# variants: 2 4
# needs: jax
export JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_MAX_VLOG_LEVEL=0
for rank in $(seq 0 $(($1 - 1))); do
    "$PY" "$PROGRAMS/jax_train.py" --steps 40 --processes "$1" --rank "$rank" --port 29621 2>&1 | sed -u "s/^/$rank: /" &
done
wait
