#!/bin/bash
#SBATCH -J parallel -N 1 -n 2
for i in 1 2 3 4 5; do srun -n 1 --exact bash -c "echo item $i started; sleep 1; echo item $i done" & done
wait
echo "all items done"
