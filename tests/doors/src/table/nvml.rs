//! What NVIDIA's management library says of a GPU's memory: the same as cuMemGetInfo.

use super::Probe;

pub(super) const PROBES: &[Probe] = &[
    Probe::answers(
        "nvml",
        "handle",
        "nvmlDeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo_v2: dlopen of libnvidia-ml.so.1, dlsym",
    ),
    Probe::answers("nvml", "default", "dlsym of RTLD_DEFAULT"),
    Probe::answers("nvml", "next", "dlsym of RTLD_NEXT by the program"),
    Probe::answers(
        "nvml",
        "again",
        "nvmlInit before cuInit, and again after nvmlShutdown",
    ),
    Probe::answers(
        "nvml",
        "absent",
        "a weak reference in a process that loads NVML later",
    ),
    Probe::same(
        "nvml",
        "strangers",
        "errors, and a GPU that rtswapd does not manage",
    )
    .on_two_gpus(),
    Probe::answers("nvml_linked", "program", "a program linked against NVML"),
    Probe::answers("nvml_linked", "library", "a library linked against NVML"),
    Probe::answers(
        "nvml_linked",
        "deepbind",
        "the same library, loaded with RTLD_DEEPBIND",
    ),
];
