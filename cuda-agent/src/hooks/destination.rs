//! What a hooked function writes other than by the program's kernels, said by what follows
//! `writes` in its row of a `hooks!` table.

use core::ffi::{c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::Agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::cuda::{CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUdeviceptr};
use rtswap_agent_core::memory::hints;
use rtswap_agent_core::writes::Writes;

/// What is written, as far as a hooked function's arguments tell.
pub(super) trait Destination {
    /// False where it is never memory that has addresses.
    const ADDRESSED: bool = true;

    /// # Safety
    /// It comes from arguments that are valid for the driver's function.
    unsafe fn writes(self) -> Writes;
}

/// A row that does not say.
pub(super) struct Anything;

impl Destination for Anything {
    unsafe fn writes(self) -> Writes {
        Writes::Anything
    }
}

/// Nothing but what kernels write, or arrays.
impl Destination for () {
    const ADDRESSED: bool = false;

    unsafe fn writes(self) -> Writes {
        Writes::Nothing
    }
}

/// So many bytes.
impl Destination for (CUdeviceptr, usize) {
    unsafe fn writes(self) -> Writes {
        let (at, bytes) = (self.0, self.1 as u64);
        Writes::Range { at, bytes }
    }
}

/// The same by an address that the host may use, which one of the GPU's can be as well.
impl Destination for (*mut c_void, usize) {
    unsafe fn writes(self) -> Writes {
        let (at, bytes) = (self.0.addr() as u64, self.1 as u64);
        Writes::Range { at, bytes }
    }
}

/// So many values, of so many bytes.
impl Destination for (CUdeviceptr, usize, usize) {
    unsafe fn writes(self) -> Writes {
        let (at, count, size) = self;
        let bytes = count.saturating_mul(size) as u64;
        Writes::Range { at, bytes }
    }
}

/// Rows: their distance, their values' count and bytes, their number.
impl Destination for (CUdeviceptr, usize, usize, usize, usize) {
    unsafe fn writes(self) -> Writes {
        let (at, pitch, count, size, height) = self;
        let before = pitch.saturating_mul(height.saturating_sub(1));
        let bytes = before.saturating_add(count.saturating_mul(size)) as u64;
        Writes::Range { at, bytes }
    }
}

/// What a described copy writes: from the first address of its destination on up to its last byte.
/// `kind` is a CUmemorytype, whatever the program put there.
fn described(kind: c_uint, host: *mut c_void, device: CUdeviceptr, bytes: usize) -> Writes {
    let bytes = bytes as u64;
    let range = |at| Writes::Range { at, bytes };
    match kind {
        HOST => range(host.addr() as u64),
        DEVICE | UNIFIED => range(device),
        ARRAY => Writes::Nothing,
        _ => Writes::Anything,
    }
}

/// How many bytes from the first address on a copy may reach: where it begins in each direction, how
/// far it goes, and the bytes of a step.
fn reach(directions: &[(usize, usize, usize)]) -> usize {
    let last = directions.iter().fold(0usize, |sum, (from, count, step)| {
        let steps = from.saturating_add(count.saturating_sub(1));
        sum.saturating_add(steps.saturating_mul(*step))
    });
    last.saturating_add(1)
}

/// CUmemorytype.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const UNIFIED: c_uint = 4;

impl Destination for *const CUDA_MEMCPY2D {
    unsafe fn writes(self) -> Writes {
        // SAFETY: null, or the copy that the driver is about to read.
        let Some(it) = (unsafe { self.as_ref() }) else {
            return Writes::Nothing;
        };
        // SAFETY: as above; a number to the driver, which may be none of the enumeration's.
        let kind = unsafe { (&raw const it.dstMemoryType).cast::<c_uint>().read() };
        // Where no pitch is given rows follow each other.
        let pitch = it.dstPitch.max(it.WidthInBytes);
        let bytes = reach(&[
            (it.dstXInBytes, it.WidthInBytes, 1),
            (it.dstY, it.Height, pitch),
        ]);
        described(kind, it.dstHost, it.dstDevice, bytes)
    }
}

macro_rules! deep_copies {
    ($($copy:ty),+) => {
        $(impl Destination for *const $copy {
            unsafe fn writes(self) -> Writes {
                // SAFETY: null, or the copy that the driver is about to read.
                let Some(it) = (unsafe { self.as_ref() }) else {
                    return Writes::Nothing;
                };
                // SAFETY: as above; a number to the driver, which may be none of the enumeration's.
                let kind = unsafe { (&raw const it.dstMemoryType).cast::<c_uint>().read() };
                let pitch = it.dstPitch.max(it.WidthInBytes);
                let layer = it.dstHeight.max(it.dstY.saturating_add(it.Height));
                let layer = layer.saturating_mul(pitch);
                let bytes = reach(&[
                    (it.dstXInBytes, it.WidthInBytes, 1),
                    (it.dstY, it.Height, pitch),
                    (it.dstZ, it.Depth, layer),
                ]);
                described(kind, it.dstHost, it.dstDevice, bytes)
            }
        })+
    };
}

deep_copies!(CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER);

/// Notes what the call that was entered is about to write, where somebody asks. False if the agent
/// failed within.
///
/// # Safety
/// The destination comes from arguments that are valid for the driver's function.
#[inline]
pub(super) unsafe fn note<D: Destination>(agent: &Agent, destination: D) -> bool {
    if !D::ADDRESSED || !hints::any() {
        return true;
    }
    // SAFETY: by the caller's promise.
    note_writes(agent, unsafe { destination.writes() })
}

#[cold]
fn note_writes(agent: &Agent, writes: Writes) -> bool {
    let cancellation = put_off();
    let noted = catch_unwind(AssertUnwindSafe(|| agent.note_writes(writes)));
    cancellation.restore();
    noted.is_ok()
}
