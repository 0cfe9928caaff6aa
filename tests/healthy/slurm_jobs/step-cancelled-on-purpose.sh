#!/bin/bash
#SBATCH -J helper -N 1 -n 2
# blind: a step that was stopped on purpose prints what a cancelled one prints
srun -n 1 --exact sleep 300 & helper=$!
sleep 1
srun -n 1 --exact bash -c 'echo main part; sleep 1; echo main part done'
scancel "$SLURM_JOB_ID.0"
wait "$helper" || echo "the monitor was stopped, as planned"
