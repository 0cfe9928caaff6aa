# The usual preamble of a batch script: limits, environment, disks, tools that are not there.
hostname; date; ulimit -a
env | sort | sed -n '/^SLURM/p;/^NCCL/p'
export NCCL_DEBUG=WARN NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_BLOCKING_WAIT=0 NCCL_TIMEOUT=1800 XLA_FLAGS=--xla_dump_to=/tmp/fatal
env | grep -E 'NCCL|XLA'
df -h . /dev/shm; free -m; lscpu | head -n 20
nvidia-smi || rocm-smi || echo "no GPU tools on this node"
which srun mpirun python3 || true
cat /etc/os-release | head -n 3
tput bold || true; stty size || true; mesg n || true
perl -e 'print "perl ok\n"'
LC_ALL=xx_YY.UTF-8 perl -e 'print "perl ok\n"'
LC_ALL=xx_YY.UTF-8 bash -c 'echo bash ok'
echo ready
