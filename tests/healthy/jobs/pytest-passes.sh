# pytest with expected failures; the captured logs of passed tests are shown.
# needs: python
cp "$PROGRAMS/suite_that_passes.py" test_suite.py
"$PY" -m pytest -p no:cacheprovider -rA -v test_suite.py
