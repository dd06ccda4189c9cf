//! The program's own virtual memory management, and memory shared between processes.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::swapped(
        "vmm",
        "plain",
        "cuMemCreate, cuMemAddressReserve, cuMemMap, cuMemSetAccess, cuMemUnmap, cuMemRelease",
    ),
    Probe::swapped(
        "vmm",
        "segments",
        "segments whose handles are released at once",
    ),
    Probe::swapped(
        "vmm",
        "moved",
        "a handle mapped elsewhere while its bytes are out",
    ),
    Probe::swapped("vmm", "twice", "a handle mapped at two addresses"),
    Probe::swapped(
        "vmm",
        "retained",
        "cuMemRetainAllocationHandle, cuMemGetAllocationPropertiesFromHandle",
    ),
    Probe::counted(
        "vmm",
        "exported",
        "cuMemExportToShareableHandle, cuMemImportFromShareableHandle",
        "another process may map it",
    ),
    Probe::answers("vmm", "access", "cuMemGetAccess"),
    Probe::swapped("vmm", "unmapped", "cuMemCreate without a mapping"),
    Probe::counted(
        "vmm",
        "host",
        "cuMemCreate in the host, cuMemSetAccess for the program",
        "nothing of it is on a GPU: 0 bytes are counted",
    ),
    Probe::same("vmm", "wrong", "what the driver refuses"),
    Probe::counted(
        "ipc",
        "memory",
        "cuIpcGetMemHandle, cuIpcOpenMemHandle_v2, cuIpcCloseMemHandle",
        "another process maps it",
    ),
];
