# pytest shows what passed tests logged, tracebacks included.
# needs: python
# blind: the traceback that a passed test logged looks like any other
cp "$PROGRAMS/suite_that_passes.py" test_suite.py
"$PY" -m pytest -p no:cacheprovider -rA test_suite.py
