# A scikit-learn search in which some fits fail and are scored as NaN.
# needs: python
# blind: scikit-learn prints the tracebacks of the failed fits, which cannot be told from fatal ones
"$PY" "$PROGRAMS/failed_fits.py"
