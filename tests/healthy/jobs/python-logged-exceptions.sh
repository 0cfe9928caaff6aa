# Errors are caught and logged with their tracebacks; the program goes on and ends well.
# needs: python
# blind: a traceback that was logged and survived cannot be told from a fatal one by its text
"$PY" "$PROGRAMS/logged_exceptions.py"
