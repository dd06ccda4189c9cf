/* Loads a module with 200 MiB of variables, says `loaded`, and stays until a line is read. It allocates nothing. */
#include "cuda.h"

int main(void) {
    (void)probe_kernel("axpy", PROBE_PTX ".visible .global .align 4 .b8 table[209715200];\n");
    printf("loaded\n");
    fflush(stdout);
    return getchar() == EOF;
}
