#!/bin/bash
#SBATCH -J plain -N 1
echo "job $SLURM_JOB_ID on $(hostname)"; date; ulimit -a | head -5
for i in 1 2 3; do echo "step $i of 3: 0 errors"; sleep 0.3; done
