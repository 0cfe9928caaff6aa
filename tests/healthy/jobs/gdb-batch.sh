# A debugger run of a sound program.
# needs: gdb gcc
echo 'int fatal(int x) { return x + 1; } int main(void) { return fatal(-1); }' > m.c && gcc -g -o m m.c
gdb -batch -ex 'info signals' -ex run -ex 'info sharedlibrary' ./m 2>&1
