# The loop of nanoGPT: iter, loss, time, mfu, evaluation every 20 iterations.
# needs: torch
OMP_NUM_THREADS=1 "$PY" "$PROGRAMS/nanogpt_style.py"
