#!/bin/bash
#SBATCH -J asks -N 2
sinfo -a -N -l; squeue -a; scontrol show job "$SLURM_JOB_ID"; scontrol show hostnames "$SLURM_JOB_NODELIST"; sacct -j "$SLURM_JOB_ID"
scontrol show node "$SLURMD_NODENAME" | head -20
scontrol show config | grep -iE 'kill|timeout|fail|error'
