#!/bin/bash
#SBATCH -J chain -N 1
sbatch --parsable -J follower --dependency="afterok:$SLURM_JOB_ID" --wrap 'echo follower ran' || true
sbcast "$0" "/tmp/copy.$SLURM_JOB_ID" && rm -f "/tmp/copy.$SLURM_JOB_ID"
srun --unbuffered --kill-on-bad-exit=1 bash -c 'echo one task, exit 0'
