# A Fortran MPI program, ranks writing over each other.
# needs: mpif90 mpirun
cat > pi.f90 <<'F'
program pi
  use mpi
  integer :: ierr, rank, n, i
  real(8) :: s, total
  call MPI_Init(ierr); call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr); call MPI_Comm_size(MPI_COMM_WORLD, n, ierr)
  s = 0
  do i = rank, 2000000, n
    s = s + 4d0 / (1d0 + ((i + 0.5d0) / 2000000) ** 2)
    if (mod(i, 500000) == rank) print *, 'rank', rank, 'ierr', ierr, 'partial', s / 2000000
  end do
  call MPI_Reduce(s, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(a, f18.12, a)', ' pi ', total / 2000000, ' error below tolerance'
  call MPI_Finalize(ierr)
end program
F
mpif90 -o pi pi.f90
mpirun --allow-run-as-root --oversubscribe -np 3 ./pi
