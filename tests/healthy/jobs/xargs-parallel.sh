# Work items in parallel; some fail, are listed and repeated.
# needs: xargs
cat > item.sh <<'S'
n=$1; try=$2
if [ "$try" = 1 ] && [ $((n % 7)) = 0 ]; then echo "item $n: failed with exit code 1, will be repeated" >&2; echo "$n" >> again; exit 1; fi
echo "item $n done"
S
seq 1 30 | xargs -P 2 -I{} sh item.sh {} 1 || echo "some items have to be repeated: $(sort -n again | tr '\n' ' ')"
sort -n again | xargs -I{} sh item.sh {} 2
echo "0 items failed"
