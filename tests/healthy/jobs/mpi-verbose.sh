# Open MPI with verbose selection of transports: closed components, unreachable interfaces.
# needs: mpicc mpirun
printf '#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); MPI_Barrier(MPI_COMM_WORLD); MPI_Finalize(); return 0; }\n' > b.c
mpicc -o b b.c
mpirun --allow-run-as-root --oversubscribe --mca btl_base_verbose 30 --mca pml_base_verbose 10 --mca oob_base_verbose 5 -np 2 ./b
