# A Fortran solver; at the end gfortran notes signalling floating-point exceptions, which is not an error.
# needs: gfortran
cat > heat.f90 <<'F'
program heat
  implicit none
  integer, parameter :: n = 64
  integer :: i, j, it, unused
  real(8) :: u(n, n), v(n, n), err
  real(4) :: tiny_value
  u = 0d0; u(1, :) = 100d0; tiny_value = 1e-38
  do it = 1, 400
    v = u
    do j = 2, n - 1
      do i = 2, n - 1
        v(i, j) = 0.25d0 * (u(i-1, j) + u(i+1, j) + u(i, j-1) + u(i, j+1))
      end do
    end do
    err = maxval(abs(v - u)); u = v
    if (mod(it, 20) == 0) write (*, '(a, i5, a, es12.4)') ' iteration ', it, '  max error = ', err
  end do
  tiny_value = tiny_value / 1e5
  print *, 'killed cells: 0, failed iterations: 0', tiny_value
  stop 0
end program
F
gfortran -O1 -Wall -Wextra -fcheck=all -o heat heat.f90
./heat
