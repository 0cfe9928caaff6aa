# One task of a job array: a parameter from a table, a result file.
# variants: 0 1 2 3
export SLURM_ARRAY_JOB_ID=4100 SLURM_ARRAY_TASK_ID=$1 SLURM_ARRAY_TASK_COUNT=4
echo "array $SLURM_ARRAY_JOB_ID task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT on $(hostname)"
beta=$(echo "0.1 0.2 0.4 0.8" | cut -d' ' -f$((SLURM_ARRAY_TASK_ID + 1)))
echo "beta=$beta error_tolerance=1e-6 max_failures=3 kill_on_bad_exit=0 timeout=3600"
if [ -e result-$1.txt ]; then echo "result exists, nothing to do"; exit 0; fi
awk -v b="$beta" 'BEGIN { x = 1; for (i = 1; i <= 200; i++) { x = x - b * (x - 0.5) * 0.1; if (i % 40 == 0) printf "iter %d error %.6f\n", i, (x > 0.5 ? x - 0.5 : 0.5 - x) } print "converged, failures 0" }' | tee result-$1.txt
