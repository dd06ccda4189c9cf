//! The ways to come by a driver function.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::swapped("lookup", "linked", "a program linked against libcuda"),
    Probe::swapped("lookup", "handle", "dlopen of libcuda.so.1, dlsym"),
    Probe::swapped("lookup", "other_name", "dlopen of libcuda.so, dlsym"),
    Probe::swapped("lookup", "global_handle", "dlopen of NULL, dlsym"),
    Probe::swapped("lookup", "next", "dlsym of RTLD_NEXT by the program"),
    Probe::swapped("lookup", "default", "dlsym of RTLD_DEFAULT"),
    Probe::same("lookup", "dlvsym", "dlvsym"),
    Probe::swapped("lookup", "early", "looked up before cuInit"),
    Probe::swapped(
        "lookup",
        "library",
        "a library linked against libcuda, its dlsym of RTLD_NEXT, RTLD_DEFAULT and a handle",
    ),
    Probe::swapped(
        "lookup",
        "deepbind",
        "the same library, loaded with RTLD_DEEPBIND",
    ),
    Probe::swapped(
        "lookup",
        "deepbind_lazy",
        "the same with RTLD_LAZY: each function is bound at its first call",
    ),
    Probe::swapped(
        "lookup",
        "deepbind_again",
        "the same, in the place of a library that was closed since the last look-up",
    ),
    Probe::swapped(
        "lookup",
        "deepbind_meanwhile",
        "the same, while another thread looks up and waits for the loader",
    ),
    Probe::swapped(
        "lookup",
        "deepbind_early",
        "the same, looked up before there is a daemon",
    ),
    Probe::swapped(
        "lookup",
        "deepbind_threads",
        "four threads that load, look up and close such libraries again and again",
    ),
    Probe::swapped("lookup", "procaddr", "cuGetProcAddress"),
    Probe::swapped("lookup", "procaddr_v2", "cuGetProcAddress_v2"),
    Probe::swapped(
        "lookup",
        "procaddr_chain",
        "cuGetProcAddress by cuGetProcAddress",
    ),
    Probe::swapped(
        "lookup",
        "procaddr_forms",
        "every version and flag gives the form of that version",
    ),
    Probe::same(
        "lookup",
        "procaddr_wrong",
        "unknown names, versions that are too old, wrong flags, NULL",
    ),
    Probe::same("lookup", "export_table", "cuGetExportTable"),
    Probe::swapped(
        "wrapper",
        "own_name",
        "a program with a cuMemAlloc_v2 of its own, which calls the driver's",
    ),
    Probe::inert(
        "lookup",
        "namespace",
        "dlmopen",
        "another namespace has a driver of its own and takes no preloaded library",
    ),
];
