# Built and run with the address and undefined-behaviour sanitizers; one recoverable runtime error is printed.
# needs: gcc
cat > a.c <<'C'
#include <stdio.h>
#include <limits.h>
int main(int argc, char **argv) { int x = INT_MAX; x += argc; printf("wrapped to %d\n", x); return 0; }
C
gcc -g -fsanitize=address,undefined -o a a.c
./a
