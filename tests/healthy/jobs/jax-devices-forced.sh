# Eight virtual CPU devices; donated buffers that were not usable; sharding notes.
# needs: jax
XLA_FLAGS=--xla_force_host_platform_device_count=8 "$PY" "$PROGRAMS/jax_train.py" --steps 30 --sharded
