# CMake probes that fail by design, a test that is expected to fail, and a summary with "0 tests failed".
# needs: cmake g++
mkdir -p src build && cd src
cat > CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.10)
project(heat CXX C)
include(CheckIncludeFileCXX)
include(CheckCXXSourceCompiles)
include(CheckFunctionExists)
check_include_file_cxx("cuda_runtime.h" HAVE_CUDA)
check_include_file_cxx("hip/hip_runtime.h" HAVE_HIP)
check_cxx_source_compiles("int main() { return __builtin_no_such(); }" HAVE_NO_SUCH)
check_function_exists(strlcpy HAVE_STRLCPY)
find_package(Doxygen)
find_package(MPI)
find_package(OpenMP)
find_package(BLAS)
message(WARNING "BLAS not found or not usable; using the slow fallback")
message(STATUS "Could NOT find NCCL (missing: NCCL_LIBRARY)")
enable_testing()
add_executable(heat heat.cpp)
add_test(NAME converges COMMAND heat 1)
add_test(NAME diverges COMMAND heat 0)
set_tests_properties(diverges PROPERTIES WILL_FAIL TRUE)
add_test(NAME error_message COMMAND heat 2)
set_tests_properties(error_message PROPERTIES PASS_REGULAR_EXPRESSION "fatal error")
C
cat > heat.cpp <<'C'
#include <cstdio>
#include <cstdlib>
int main(int argc, char **argv) {
  int mode = argc > 1 ? atoi(argv[1]) : 1, unused = 0;
  if (mode == 0) { std::fprintf(stderr, "error: residual grew, aborted\n"); return 3; }
  if (mode == 2) { std::printf("fatal error: this message is what the test wants\n"); return 0; }
  std::printf("residual 1.2e-9\n");
}
C
cd ../build
cmake ../src -DCMAKE_CXX_FLAGS=-Wall
make VERBOSE=1
ctest -V
ctest
