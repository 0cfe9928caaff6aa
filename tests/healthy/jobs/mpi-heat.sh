# Open MPI ranks on one node with the messages it prints in containers.
# variants: 2 4
# needs: mpicc mpirun
cat > heat.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv); int r, n; MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Comm_size(MPI_COMM_WORLD, &n);
  static double buf[1 << 16]; char host[256]; int len; MPI_Get_processor_name(host, &len);
  printf("rank %d of %d on %s\n", r, n, host); fflush(stdout);
  for (int it = 1; it <= 40; it++) {
    MPI_Sendrecv_replace(buf, 1 << 16, MPI_DOUBLE, (r + 1) % n, 0, (r + n - 1) % n, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double e = 1.0 / (it * (r + 1)), m; MPI_Allreduce(&e, &m, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (r == 0 && it % 10 == 0) { printf("iteration %d max error %.5f\n", it, m); fflush(stdout); }
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rc = MPI_Send(buf, 1, MPI_DOUBLE, n + 5, 0, MPI_COMM_WORLD);
  if (r == 0) { char t[MPI_MAX_ERROR_STRING]; MPI_Error_string(rc, t, &len); printf("checked: %s\n", t); }
  MPI_Finalize(); return 0;
}
C
mpicc -O1 -o heat heat.c
mpirun --allow-run-as-root --oversubscribe --tag-output -np "$1" ./heat
mpirun --allow-run-as-root --oversubscribe --report-bindings --mca btl_base_warn_component_unused 1 -np "$1" ./heat
