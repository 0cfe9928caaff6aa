# A pipeline whose log lines are full of failure words: counters, names, handled errors, retried time-outs.
# needs: python
"$PY" "$PROGRAMS/noisy_pipeline.py"
