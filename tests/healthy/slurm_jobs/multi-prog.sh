#!/bin/bash
#SBATCH -J multiprog -N 1 -n 3
printf '0 echo master: done\n1-2 echo worker %%t: no errors\n' > prog.conf
srun -l --multi-prog prog.conf
