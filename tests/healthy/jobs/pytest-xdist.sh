# The same suite on two worker processes.
# needs: python
cp "$PROGRAMS/suite_that_passes.py" test_suite.py
"$PY" -m pytest -p no:cacheprovider -n 2 -q test_suite.py
