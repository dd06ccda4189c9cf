//! Primary contexts after a reset, and memory that is freed without a context.

use crate::stage::{call, isolated, made, ok, place, primary};

const MIB: usize = 1 << 20;

fn free_bytes() -> usize {
    let (mut free, mut total) = (0_usize, 0_usize);
    ok("cuMemGetInfo_v2", &[place(&mut free), place(&mut total)]);
    free
}

#[test]
fn a_retained_context_works_after_a_reset() {
    let name = "primary::a_retained_context_works_after_a_reset";
    isolated(name, &[], || {
        let context = primary();
        let before = free_bytes();
        let at = made("cuMemAlloc_v2", &[8 * MIB]);
        let stream = made("cuStreamCreate", &[0]);
        ok("cuMemsetD8Async", &[at, 1, MIB, stream]);
        ok("cuDevicePrimaryCtxReset_v2", &[0]);
        // All that was in it is gone, itself is not.
        assert_eq!(free_bytes(), before);
        assert_eq!(call("cuMemFree_v2", &[at]), 1);
        assert_eq!(call("cuStreamSynchronize", &[stream]), 400);
        assert_eq!(made("cuCtxGetCurrent", &[]), context);
        let at = made("cuMemAlloc_v2", &[MIB]);
        ok("cuMemsetD8_v2", &[at, 1, MIB]);
        // The thread's own default stream, whose first use came before, too.
        ok("cuStreamSynchronize_ptsz", &[0]);
        ok("cuDevicePrimaryCtxReset", &[0]);
        ok("cuStreamSynchronize_ptsz", &[0]);
        ok("cuDevicePrimaryCtxRelease_v2", &[0]);
        assert_eq!(call("cuDevicePrimaryCtxRelease", &[0]), 201);
        assert_ne!(call("cuMemAlloc_v2", &[place(&mut [0_u64]), MIB]), 0);
    });
}

#[test]
fn memory_is_freed_without_a_current_context() {
    let name = "primary::memory_is_freed_without_a_current_context";
    isolated(name, &[], || {
        let context = primary();
        let before = free_bytes();
        let plain = made("cuMemAlloc_v2", &[4 * MIB]);
        let pooled = made("cuMemAllocAsync", &[4 * MIB, 0]);
        ok("cuCtxSynchronize", &[]);
        ok("cuCtxSetCurrent", &[0]);
        ok("cuMemFree_v2", &[plain]);
        ok("cuMemFree_v2", &[pooled]);
        assert_eq!(call("cuMemFree_v2", &[plain]), 1);
        ok("cuMemFree_v2", &[0]);
        ok("cuCtxSetCurrent", &[context]);
        ok("cuCtxSynchronize", &[]);
        assert_eq!(free_bytes(), before);
    });
}
