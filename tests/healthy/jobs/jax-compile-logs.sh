# JAX with compilation and cache logging on: "Finished XLA compilation", cache misses, explanations.
# needs: jax
export JAX_LOG_COMPILES=1 JAX_EXPLAIN_CACHE_MISSES=1 JAX_DEBUG_LOG_MODULES=jax._src.compiler,jax._src.xla_bridge TF_CPP_MIN_LOG_LEVEL=0
"$PY" "$PROGRAMS/jax_train.py" --steps 25 --reshape-at 12 2>&1 | cut -c1-400
