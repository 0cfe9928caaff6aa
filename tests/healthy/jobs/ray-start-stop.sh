# ray start and ray stop with their advice to the user.
# needs: ray
"$PYBIN/ray" start --head --port=6399 --num-cpus=2 --include-dashboard=false --disable-usage-stats
"$PYBIN/ray" status --address 127.0.0.1:6399
"$PYBIN/ray" stop --force
