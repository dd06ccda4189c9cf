//! What becomes of each name that a driver exports: it is hooked by the agent, deliberately not hooked, or nothing that
//! rtswap must see. tests/hooks compares the tables with cudarc's declarations, `cargo xtask driver` with the exports of real
//! drivers and with NVIDIA's own declarations of the newest one.

mod excluded;
mod inert;
mod newer;
mod stub_only;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use object::{Object, ObjectSymbol};

pub use excluded::EXCLUDED;
pub use inert::INERT;
pub use newer::NEWER;
pub use stub_only::STUB_ONLY;

/// Reasons, and the functions that each holds for.
pub type Reasons = &'static [(&'static str, &'static [&'static str])];

/// All functions of a table.
pub fn functions(table: Reasons) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|(_, names)| *names).copied()
}

/// Exported by drivers, and in no version of the header that cudarc's declarations are made from: `cargo xtask driver` finds
/// most in drivers of Debian, and all that are newer in what cuda-bindings declares.
pub const UNDECLARED: &[&str] = &[
    "cuCheckpointOperationComplete",
    "cuCheckpointProcessCheckpoint",
    "cuCheckpointProcessGetRestoreThreadId",
    "cuCheckpointProcessGetState",
    "cuCheckpointProcessLock",
    "cuCheckpointProcessRestore",
    "cuCheckpointProcessUnlock",
    "cuDeviceGetNvSciSyncAttributes",
    "cuEGLApiInit",
    "cuEGLStreamConsumerAcquireFrame",
    "cuEGLStreamConsumerConnect",
    "cuEGLStreamConsumerConnectWithFlags",
    "cuEGLStreamConsumerDisconnect",
    "cuEGLStreamConsumerReleaseFrame",
    "cuEGLStreamProducerConnect",
    "cuEGLStreamProducerDisconnect",
    "cuEGLStreamProducerPresentFrame",
    "cuEGLStreamProducerReturnFrame",
    "cuEventCreateFromEGLSync",
    "cuFabricCpyBatchAsync",
    "cuFabricCpyBatchAsync_ptsz",
    "cuGLCtxCreate",
    "cuGLCtxCreate_v2",
    "cuGLGetDevices",
    "cuGLGetDevices_v2",
    "cuGLInit",
    "cuGLMapBufferObject",
    "cuGLMapBufferObjectAsync",
    "cuGLMapBufferObjectAsync_v2",
    "cuGLMapBufferObjectAsync_v2_ptsz",
    "cuGLMapBufferObject_v2",
    "cuGLMapBufferObject_v2_ptds",
    "cuGLRegisterBufferObject",
    "cuGLSetBufferObjectMapFlags",
    "cuGLUnmapBufferObject",
    "cuGLUnmapBufferObjectAsync",
    "cuGLUnregisterBufferObject",
    "cuGraphicsEGLRegisterImage",
    "cuGraphicsGLRegisterBuffer",
    "cuGraphicsGLRegisterImage",
    "cuGraphicsResourceGetMappedEglFrame",
    "cuGraphicsVDPAURegisterOutputSurface",
    "cuGraphicsVDPAURegisterVideoSurface",
    "cuMemGetAttribute",
    "cuMemGetAttribute_v2",
    "cuTensorMapSetAllocationClass",
    "cuVDPAUCtxCreate",
    "cuVDPAUCtxCreate_v2",
    "cuVDPAUGetDevice",
];

/// The driver's names that the agent's library at `path` exports: its hooks.
pub fn hooked(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    let file = object::File::parse(&*bytes)?;
    let names: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(object::ObjectSymbol::is_definition)
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| is_driver_name(name))
        .map(str::to_owned)
        .collect();
    let file = path.display();
    ensure!(names.contains("cuLaunchKernel"), "{file} exports no hooks");
    Ok(names)
}

fn is_driver_name(name: &str) -> bool {
    name.strip_prefix("cu")
        .and_then(|rest| rest.chars().next())
        .is_some_and(char::is_uppercase)
}
