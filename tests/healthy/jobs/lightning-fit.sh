# Lightning with carriage-return progress bars, a sanity check and its notes on GPUs and workers.
# needs: lightning
"$PY" "$PROGRAMS/lightning_fit.py"
