# Help pages and error lists: every failure word there is, none of it about this job.
# needs: rsync curl git python
rsync --help | head -n 60
curl --help all | grep -iE 'fail|error|time|retry|kill'
git help -a | grep -iE 'abort|fail|bisect|fsck' || true
kill -l
"$PY" -c 'import errno, os; [print(n, errno.errorcode[n], os.strerror(n)) for n in sorted(errno.errorcode)]'
"$PY" -c 'import http; [print(int(s), s.phrase) for s in http.HTTPStatus]'
"$PY" -m pytest --help | head -n 20
"$PY" -c 'import signal; [print(s, int(s)) for s in signal.Signals]'
