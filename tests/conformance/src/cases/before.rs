//! What functions say before cuInit, as NVIDIA's library (550.163.01) says it: some look at their arguments first.

use std::ffi::c_void;

use anyhow::{Result, ensure};

use crate::case::Body::Bare;
use crate::case::Case;
use crate::cuda::{Status, exported};

pub(super) const CASES: &[Case] = &[
    Case::relied(
        "before/null-arguments",
        "programs and tools call before cuInit and tell drivers apart by the code",
        Bare(null_arguments),
    ),
    Case::relied(
        "before/outputs-are-zeroed",
        "a program that looks at the output of a failed allocation finds none",
        Bare(outputs),
    ),
];

/// Functions with nothing but zeros as arguments, by what they say.
const SAID: [(Status, &[&str]); 3] = [
    (
        Status::NOT_INITIALIZED,
        &[
            "cuDeviceGet",
            "cuDeviceGetCount",
            "cuDevicePrimaryCtxRetain",
            "cuDevicePrimaryCtxRelease",
            "cuCtxCreate_v2",
            "cuCtxSynchronize",
            "cuMemAlloc_v2",
            "cuMemAllocPitch_v2",
            "cuMemHostAlloc",
            "cuMemFree_v2",
            "cuMemCreate",
            "cuMemMap",
            "cuMemAddressReserve",
            "cuMemExportToShareableHandle",
            "cuMemPoolCreate",
            "cuMemPoolSetAccess",
            "cuMemAllocAsync",
            "cuArrayCreate_v2",
            "cuEventCreate",
            "cuModuleLoadData",
            "cuGraphCreate",
            "cuGraphGetEdges",
            "cuGraphGetEdges_v2",
            "cuGraphNodeGetDependencies_v2",
            "cuPointerGetAttribute",
            "cuStreamSynchronize",
        ],
    ),
    (
        Status::INVALID_VALUE,
        &[
            "cuDeviceGetAttribute",
            "cuCtxDestroy_v2",
            "cuCtxGetFlags",
            "cuMemAllocManaged",
            "cuStreamCreate",
            "cuStreamGetFlags",
            "cuStreamIsCapturing",
            "cuLaunchKernelEx",
            "cuIpcGetMemHandle",
            "cuGraphAddEmptyNode",
            "cuGraphAddDependencies",
        ],
    ),
    (
        Status::INVALID_HANDLE,
        &[
            "cuStreamDestroy_v2",
            "cuEventDestroy_v2",
            "cuEventQuery",
            "cuEventSynchronize",
            "cuArrayGetDescriptor_v2",
        ],
    ),
];

type Call = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> Status;

/// Calls a function with these words, then zeros; none where the driver lacks it.
fn call(name: &str, words: [usize; 3]) -> Option<Status> {
    let address = exported(name);
    let [first, second, third] = words;
    (!address.is_null()).then(|| {
        // SAFETY: a driver's function with no more than eight arguments, all of them words.
        let function: Call = unsafe { std::mem::transmute::<*mut c_void, Call>(address) };
        // SAFETY: the words are null, which the driver refuses, or places with room for its results.
        unsafe { function(first, second, third, 0, 0, 0, 0, 0) }
    })
}

fn null_arguments() -> Result<String> {
    let mut asked = 0;
    for (wanted, names) in SAID {
        for name in names {
            let Some(status) = call(name, [0; 3]) else {
                continue;
            };
            // Words, as the driver's own name for a code is not to be had before cuInit.
            ensure!(
                status == wanted,
                "{name}: {} and not {}",
                status.0,
                wanted.0
            );
            asked += 1;
        }
    }
    ensure!(asked > 30, "only {asked} functions");
    Ok(format!("{asked} functions"))
}

fn outputs() -> Result<String> {
    const FILL: u64 = u64::MAX;
    // How many of the first arguments are outputs of 64 bits.
    let functions = [
        ("cuMemAlloc_v2", 1),
        ("cuMemAllocPitch_v2", 2),
        ("cuMemAllocManaged", 1),
        ("cuMemHostAlloc", 1),
        ("cuMemAllocHost_v2", 1),
        ("cuMemAllocAsync", 1),
        ("cuMemGetInfo_v2", 2),
        ("cuMemGetAddressRange_v2", 2),
        ("cuDeviceTotalMem_v2", 1),
        ("cuModuleGetGlobal_v2", 2),
        ("cuMemHostGetDevicePointer_v2", 1),
    ];
    let mut asked = 0;
    for (name, count) in functions {
        let mut outputs = [FILL; 3];
        let words = std::array::from_fn(|number| {
            if number < count {
                (&raw mut outputs[number]) as usize
            } else {
                1
            }
        });
        let Some(status) = call(name, words) else {
            continue;
        };
        ensure!(status == Status::NOT_INITIALIZED, "{name}: {}", status.0);
        ensure!(
            outputs[..count].iter().all(|output| *output == 0),
            "{name} left {outputs:x?}"
        );
        asked += 1;
    }
    Ok(format!("{asked} functions"))
}
