# The server is late: connection refused twice, then served; a 404 is expected.
# needs: curl python
"$PY" - <<'P' &
import http.server, time, functools
time.sleep(2.5)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 18923), http.server.SimpleHTTPRequestHandler)
server.timeout = 10
for _ in range(3):
    server.handle_request()
P
echo '{"status": "error", "message": "none"}' > status.json
curl -sS -m 1 http://127.0.0.1:18923/status.json || echo "not up yet, waiting"
curl -S --retry 8 --retry-delay 1 --retry-connrefused http://127.0.0.1:18923/status.json
curl -f -sS http://127.0.0.1:18923/missing.json || echo "no missing.json on the server, using defaults"
curl -v -s -o /dev/null http://127.0.0.1:18923/status.json
wait
