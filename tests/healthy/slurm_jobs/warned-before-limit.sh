#!/bin/bash
#SBATCH -J warned -N 1 -t 1 --signal=B:USR1@50
trap 'echo "signal USR1: the time limit is near, writing a checkpoint"; touch checkpoint' USR1
(for i in $(seq 1 14); do echo "iteration $i"; sleep 1; done) & wait $!; wait
echo "finished before the time limit"
