# nvcc with ptxas statistics; the words ptxas, error and fatal are all harmless here.
# needs: nvcc
cat > k.cu <<'C'
#include <cstdio>
__global__ void fatal_error_kernel(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x, unused; if (i < n) x[i] *= 2; }
int main() { printf("compiled; cudaGetErrorString is not called, no kernel is launched\n"); return 0; }
C
nvcc -Xptxas -v --resource-usage -arch=sm_90 -o k k.cu
./k
