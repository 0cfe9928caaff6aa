# A retry loop with back-off whose first attempts fail on purpose.
# needs: bc
attempt=0
until [ $attempt -ge 5 ]; do
    attempt=$((attempt + 1))
    if [ $attempt -lt 3 ]; then
        echo "$(date '+%Y-%m-%d %H:%M:%S') ERROR attempt $attempt failed: connection timed out; retrying in $(echo "0.1 * $attempt" | bc) s" >&2
        sleep "$(echo "0.1 * $attempt" | bc)"
    else
        echo "$(date '+%Y-%m-%d %H:%M:%S') INFO attempt $attempt succeeded"
        break
    fi
done
echo "scale=20; 4*a(1)" | bc -l
