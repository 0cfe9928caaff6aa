# Offline help of a database client and its version: words such as ABORT, ROLLBACK, PREPARE.
# needs: psql
psql --version; psql --help=commands | head -n 40
psql -h 127.0.0.1 -p 1 -c 'select 1' || echo "no database on this node, results stay in files"
