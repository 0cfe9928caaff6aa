# A Dask cluster on this node: workers start, one task is repeated, everything is closed.
# needs: python
"$PY" "$PROGRAMS/dask_cluster.py"
