/* A shared library whose constructor calls the function at the address that DOORS_CONSTRUCTOR names. */
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void) {
    const char *address = getenv("DOORS_CONSTRUCTOR");
    if (address) ((void (*)(void))strtoul(address, NULL, 16))();
}
