#!/bin/bash
#SBATCH -J labelled -N 3 --ntasks-per-node=1
srun -l bash -c 'for i in 1 2 3 4 5; do echo "completed step: $i, seconds: 0.2$SLURM_PROCID, loss: 0.$((9 - i))"; sleep 0.2; done'
srun -l --overlap hostname
