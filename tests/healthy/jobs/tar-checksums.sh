# tar strips slashes and notes a file that changes as it is read; checksums say OK and one is repaired.
# needs: tar
mkdir -p d && for i in 1 2 3 4 5; do seq 1 2000 > d/part$i; done
tar cvzf a.tgz "$PWD/d"
( for i in $(seq 1 400); do echo "line $i" >> d/growing; done ) & tar cf b.tar d || true; wait
tar tzvf a.tgz | head -n 3
sha256sum d/part* > sums && echo x >> d/part3
sha256sum -c sums || { seq 1 2000 > d/part3; sha256sum -c sums; }
gzip -tv a.tgz && cmp d/part1 d/part2 && echo "FAILED files: 0"
