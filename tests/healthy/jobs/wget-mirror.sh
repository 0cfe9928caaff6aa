# wget against a server on loopback: 404s and a broken link in a mirror.
# needs: wget python
mkdir -p www && cd www && echo '<a href="a.html">a</a> <a href="gone.html">x</a>' > index.html && echo ok > a.html && cd ..
"$PY" -m http.server 18924 --bind 127.0.0.1 --directory www & server=$!
sleep 1
wget -r -nv -t 2 http://127.0.0.1:18924/ || echo "some links are broken (exit $?), kept the rest"
wget -c http://127.0.0.1:18924/a.html
kill "$server"; wait "$server" || true
echo done
