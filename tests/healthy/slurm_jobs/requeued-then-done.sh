#!/bin/bash
#SBATCH -J again -N 1 --requeue --open-mode=append
echo "start, restart count ${SLURM_RESTART_COUNT:-0}"
if [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then scontrol requeue "$SLURM_JOB_ID"; sleep 60; fi
srun bash -c 'echo second start, all done'
