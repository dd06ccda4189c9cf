//! What a hooked function writes other than by the program's kernels, said by what follows
//! `writes` in its row of a `hooks!` table.

use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::Agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::cuda::{
    CUdeviceptr, CUgraphExec, GraphExec, Memcpy2D, Memcpy3D, Memcpy3DPeer, given,
};
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
        Writes::rows(at, pitch, count, size, height)
    }
}

macro_rules! described {
    ($($copy:ty),+) => {
        $(impl Destination for *const $copy {
            unsafe fn writes(self) -> Writes {
                // SAFETY: null, or the copy that the driver is about to read.
                unsafe { given(self) }.map_or(Writes::Nothing, Writes::from)
            }
        })+
    };
}

described!(Memcpy2D, Memcpy3D, Memcpy3DPeer);

/// A launch of it: what its nodes write.
pub(super) struct Launched(pub(super) CUgraphExec);

impl Destination for Launched {
    unsafe fn writes(self) -> Writes {
        Writes::Graph(GraphExec(self.0.addr()))
    }
}

/// A change of it.
pub(super) struct Changed(pub(super) CUgraphExec);

impl Destination for Changed {
    unsafe fn writes(self) -> Writes {
        Writes::Changed(GraphExec(self.0.addr()))
    }
}

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
