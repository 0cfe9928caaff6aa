#!/bin/bash
#SBATCH -J geometry -N 1 -n 1
srun -n 1 --ntasks-per-node=4 hostname
srun --input=none -n 1 -c 1 --cpu-bind=verbose,cores bash -c 'echo bound'
srun --mem-bind=verbose -n 1 true
