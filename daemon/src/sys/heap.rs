//! What the allocator keeps of what was freed.

use libc::c_int;

/// Blocks of at least so many bytes are pages of their own, and go back to the kernel when they are freed.
const LARGE: c_int = 1 << 20;

/// The bytes at the end of each thread's heap that are kept once they are free.
const KEPT: c_int = 2 << 20;

/// Fixes how much free memory is kept. Otherwise glibc keeps twice the largest block that was ever freed, up
/// to 64 MiB for each thread, and [`trim`] leaves the end of a heap alone unless it is the first thread's.
pub fn keep_little() {
    for (what, bytes) in [
        (libc::M_MMAP_THRESHOLD, LARGE),
        (libc::M_TRIM_THRESHOLD, KEPT),
    ] {
        // SAFETY: a plain call: it sets a number of the allocator's, and refuses one that does not fit.
        unsafe { libc::mallopt(what, bytes) };
    }
}

/// Gives free memory back to the kernel, also what lies between blocks in use. Takes about 1 ms for 10 MiB.
pub fn trim() {
    // SAFETY: a plain call: the allocator gives back what is free, under its own locks.
    unsafe { libc::malloc_trim(0) };
}
