# Numerical warnings of numpy, scipy, pandas and scikit-learn; NaN in the data, none in the result.
# needs: python
"$PY" -W always "$PROGRAMS/numeric_warnings.py"
