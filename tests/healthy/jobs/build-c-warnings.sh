# A parallel build with warnings, files and functions named after errors, and an ignored failure of make clean.
# needs: gcc make
cat > error.c <<'C'
#include <stdio.h>
int error_count; int fatal(int code) { int unused; if (code = 3) error_count++; return error_count; }
C
cat > timeout.c <<'C'
#include <stdio.h>
#include <string.h>
int on_timeout(char *s) { char killed[4]; strncpy(killed, s, 9); printf("%d\n", killed); return 0; }
C
cat > main.c <<'C'
#include <stdio.h>
int fatal(int); int on_timeout(char *);
int main(void) { printf("errors: %d, failed: 0\n", fatal(0)); return 0; }
C
cat > Makefile <<'M'
CFLAGS = -O2 -Wall -Wextra
all: app
app: main.o error.o timeout.o
	$(CC) -o $@ $^
clean:
	-rm app core.12345
	-false
M
make clean
make -j2 V=1
./app
make -n all
