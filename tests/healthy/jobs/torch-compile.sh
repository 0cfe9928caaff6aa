# torch.compile with its graph-break, recompilation and autotuning logs.
# needs: torch g++
TORCH_LOGS="graph_breaks,recompiles,+dynamo" OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/torch_compiled.py" 2>&1 | cut -c1-300 | head -n 400
