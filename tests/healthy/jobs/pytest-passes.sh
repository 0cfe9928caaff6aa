# pytest with expected failures and parameters named after errors.
# needs: python
cp "$PROGRAMS/suite_that_passes.py" test_suite.py
"$PY" -m pytest -p no:cacheprovider -v test_suite.py
