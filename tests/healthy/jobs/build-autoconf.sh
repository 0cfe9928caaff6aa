# configure prints dozens of "no" and some "error" words; config.log is shown at the end.
# needs: autoconf gcc make
cat > configure.ac <<'C'
AC_INIT([solver], [1.0])
AC_PROG_CC
AC_CHECK_HEADERS([cuda.h mpi.h infiniband/verbs.h fatal_error.h])
AC_CHECK_FUNCS([strerror perror abort_on_timeout])
AC_CHECK_LIB([nccl], [ncclCommInitRank])
AC_CHECK_LIB([ibverbs], [ibv_reg_mr])
AC_CONFIG_FILES([Makefile])
AC_OUTPUT
C
printf 'all:\n\t@echo nothing to do\ncheck:\n\t@echo "PASS: 3  FAIL: 0  XFAIL: 1  ERROR: 0"\n' > Makefile.in
autoconf && ./configure && make && make check
grep -c . config.log && grep -i -m 12 'error' config.log
