#!/bin/bash
#SBATCH -J array --array=0-3%2 -n 2
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: max_failures=3 timeout=60"
srun -l -n 2 bash -c 'echo "part $SLURM_PROCID: killed 0, failed 0"; sleep 0.2'
