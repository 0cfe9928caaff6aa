# Stage-in and stage-out with statistics, a vanished source and a second pass.
# needs: rsync
mkdir -p data out && for i in $(seq 1 40); do head -c 2000 /dev/urandom > "data/error_$i.bin"; done
rsync -av --stats data/ out/
rsync -av --delete --itemize-changes data/ out/
rsync -av data/ missing-one out/ || echo "rsync returned $? (some files could not be transferred); they are optional"
du -sh out
