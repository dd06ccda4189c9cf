// A library that calls itself the driver: it hands out addresses that nobody has, of any size.
static unsigned long long next = 0x700000000000ULL;

__attribute__((noinline)) int cuMemAlloc_v2(unsigned long long *address, unsigned long size) {
    next += 512;
    if (address)
        *address = next;
    return size == 1 ? 2 : 0;
}

__attribute__((noinline)) int cuMemFree_v2(unsigned long long address) {
    return address == 1 ? 1 : 0;
}
