# An OpenMP program with affinity messages.
# needs: gcc
cat > omp.c <<'C'
#include <omp.h>
#include <stdio.h>
int main(void) {
  double s = 0;
  #pragma omp parallel for reduction(+:s)
  for (int i = 1; i < 5000000; i++) s += 1.0 / i;
  printf("threads %d sum %.6f errors 0\n", omp_get_max_threads(), s); return 0;
}
C
gcc -O2 -fopenmp -o omp omp.c
OMP_DISPLAY_ENV=true OMP_NUM_THREADS=2 ./omp
GOMP_CPU_AFFINITY=0 OMP_NUM_THREADS=4 ./omp
