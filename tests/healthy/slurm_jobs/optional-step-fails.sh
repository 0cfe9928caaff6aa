#!/bin/bash
#SBATCH -J optional -N 2
# blind: srun reports the failed task of a step that the script could do without
srun -l bash -c '[ "$SLURM_PROCID" = 1 ] && exit 3; sleep 0.5' || echo "optional check failed with $?, going on"
srun -l bash -c 'echo "rank $SLURM_PROCID: training part done"'
