/* An agent by its looks, of a system with a newer C library: see newer.map. */
extern int rtswap_newer(void);

int rtswap_job_begin(void) {
    return rtswap_newer();
}
