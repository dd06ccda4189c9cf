//! The driver's functions that are probed, and the programs of the object that belong on each.
//!
//! Attach to all that a library exports; what it lacks is left out (older drivers lack some). The program on
//! the return goes first: a call whose return is not watched would be taken for one that hangs. Where two symbols
//! are one address, attach to one of them: the programs would run twice.
//!
//! Two ways to attach. From Linux 6.6: [`ENTER_ANY`] on all entries by one link and [`LEAVE_ANY`] on all returns
//! by another (`uprobe_multi`), all programs loaded for that attach type, and each function's own programs in
//! [`PROGRAMS`](crate::maps::PROGRAMS) under the place's cookie. Before: each program on each place by a perf
//! event, which ends only after the kernel has waited for every CPU, so let many go from many threads at once.

/// A function of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The symbol that the library exports.
    pub symbol: &'static str,
    /// The program (uprobe) on its entry.
    pub entry: &'static str,
    /// The program (uretprobe) on its return.
    pub exit: &'static str,
}

const fn on(symbol: &'static str, entry: &'static str, exit: &'static str) -> Function {
    Function {
        symbol,
        entry,
        exit,
    }
}

/// The program (uprobe) for all entries, that passes on by cookie.
pub const ENTER_ANY: &str = "enter_any";
/// The program (uretprobe) for all returns, that passes on by cookie.
pub const LEAVE_ANY: &str = "leave_any";

/// All that are probed, those that count bytes first. A driver's first forms (of CUDA 2 and 3, without a suffix) are
/// functions of their own: they do not call the later ones.
pub const FUNCTIONS: &[Function] = &[
    on("cuMemAlloc_v2", "enter_plain", "leave_alloc"),
    on("cuMemAlloc", "enter_plain_v1", "leave_alloc"),
    on("cuMemAllocPitch_v2", "enter_pitched", "leave_alloc"),
    on("cuMemAllocPitch", "enter_pitched_v1", "leave_alloc"),
    on("cuMemAllocManaged", "enter_managed", "leave_alloc"),
    on("cuMemAllocAsync", "enter_ordered", "leave_alloc"),
    on("cuMemAllocAsync_ptsz", "enter_ordered", "leave_alloc"),
    on("cuMemAllocFromPoolAsync", "enter_from_pool", "leave_alloc"),
    on(
        "cuMemAllocFromPoolAsync_ptsz",
        "enter_from_pool",
        "leave_alloc",
    ),
    on("cuArrayCreate_v2", "enter_array", "leave_array"),
    on("cuArrayCreate", "enter_array_v1", "leave_array"),
    on("cuArray3DCreate_v2", "enter_array_3d", "leave_array"),
    on("cuArray3DCreate", "enter_array_3d_v1", "leave_array"),
    on("cuMipmappedArrayCreate", "enter_mipmapped", "leave_array"),
    on("cuMemFree_v2", "enter_free", "leave_free"),
    on("cuMemFree", "enter_free_v1", "leave_free"),
    on("cuMemFreeAsync", "enter_free", "leave_free"),
    on("cuMemFreeAsync_ptsz", "enter_free", "leave_free"),
    on("cuArrayDestroy", "enter_free", "leave_free"),
    on("cuMipmappedArrayDestroy", "enter_free", "leave_free"),
    on("cuMemCreate", "enter_create", "leave_create"),
    on(
        "cuMemImportFromShareableHandle",
        "enter_import",
        "leave_create",
    ),
    on(
        "cuMemRetainAllocationHandle",
        "enter_retain",
        "leave_retain",
    ),
    on("cuMemRelease", "enter_release", "leave_release"),
    on("cuMemMap", "enter_map", "leave_map"),
    on("cuMemUnmap", "enter_unmap", "leave_unmap"),
    on("cuCtxCreate_v2", "enter_context", "leave_context"),
    on("cuCtxCreate", "enter_context", "leave_context"),
    on("cuCtxCreate_v3", "enter_context_v3", "leave_context"),
    on("cuCtxCreate_v4", "enter_context_v4", "leave_context"),
    on("cuCtxDestroy_v2", "enter_destroy", "leave_destroy"),
    on("cuCtxDestroy", "enter_destroy", "leave_destroy"),
    on("cuDevicePrimaryCtxRetain", "enter_primary", "leave_context"),
    on(
        "cuDevicePrimaryCtxRelease_v2",
        "enter_primary_release",
        "leave_destroy",
    ),
    on(
        "cuDevicePrimaryCtxRelease",
        "enter_primary_release",
        "leave_destroy",
    ),
    on(
        "cuDevicePrimaryCtxReset_v2",
        "enter_primary_reset",
        "leave_destroy",
    ),
    on(
        "cuDevicePrimaryCtxReset",
        "enter_primary_reset",
        "leave_destroy",
    ),
    on("cuCtxSetCurrent", "enter_set", "leave_current"),
    on("cuCtxPushCurrent_v2", "enter_push", "leave_current"),
    on("cuCtxPushCurrent", "enter_push", "leave_current"),
    on("cuCtxPopCurrent_v2", "enter_pop", "leave_current"),
    on("cuCtxPopCurrent", "enter_pop", "leave_current"),
    on("cuMemPoolCreate", "enter_pool", "leave_pool"),
    on("cuDeviceGetDefaultMemPool", "enter_pool_of", "leave_pool"),
    on("cuDeviceGetMemPool", "enter_pool_of", "leave_pool"),
    on("cuMemGetDefaultMemPool", "enter_pool_at", "leave_pool"),
    on("cuMemGetMemPool", "enter_pool_at", "leave_pool"),
    on("cuDeviceGetUuid", "enter_uuid", "leave_uuid"),
    on("cuDeviceGetUuid_v2", "enter_uuid", "leave_uuid"),
    on("cuGetProcAddress", "enter_address", "leave_address"),
    on("cuGetProcAddress_v2", "enter_address", "leave_address"),
];

/// A tracepoint and the program on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tracepoint {
    /// As tracefs has it: `events/CATEGORY/NAME`.
    pub category: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
}

/// The ends of processes. Attach them before any function.
pub const TRACEPOINTS: &[Tracepoint] = &[
    Tracepoint {
        category: "sched",
        name: "sched_process_exit",
        program: "process_exits",
    },
    Tracepoint {
        category: "sched",
        name: "sched_process_exec",
        program: "process_executes",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_is_probed_twice() {
        for (number, function) in FUNCTIONS.iter().enumerate() {
            let later = &FUNCTIONS[number + 1..];
            assert!(later.iter().all(|other| other.symbol != function.symbol));
        }
    }
}
