# Memcheck's reports: HEAP SUMMARY, ERROR SUMMARY, leaks.
# needs: gcc valgrind
cat > leak.c <<'C'
#include <stdlib.h>
#include <stdio.h>
int main(void) { char *p = malloc(100); p[0] = 1; printf("in use\n"); p = malloc(10); free(p); return 0; }
C
gcc -g -o leak leak.c
valgrind --leak-check=full --show-leak-kinds=all ./leak
