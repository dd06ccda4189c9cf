//! What the arguments of a driver function say of the work, by their types alone: on which stream
//! it is put, and which GPUs it may touch.

use core::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rtswap_agent_core::agent::Agent;
use rtswap_agent_core::cancel::put_off;
use rtswap_agent_core::cuda::{
    CUDA_LAUNCH_PARAMS, CUDA_MEMSET_NODE_PARAMS, CUctx_st, CUdeviceptr, CUgraph_st, CUgraphExec,
    CUgraphExec_st, CUgraphNode, CUgraphNode_st, CUlaunchConfig, CUstream, CUstream_st, Context,
    Memcpy2D, Memcpy3D, Memcpy3DPeer, given,
};
use rtswap_agent_core::enter::Clue;
use rtswap_agent_core::gate::is_inside;
use rtswap_agent_core::mapped::{End, is_of_unknown_kind};

/// An argument of a driver function.
pub(super) trait Argument: Copy {
    /// The stream, if it is one or names one.
    #[inline]
    fn stream(self) -> Option<CUstream> {
        None
    }

    /// Tells what it says of the GPUs.
    ///
    /// # Safety
    /// It is valid for the driver's function.
    unsafe fn clues(self, tell: &mut dyn FnMut(Clue)) {
        let _ = tell;
    }

    /// Whether the driver must not see it, and would refuse it without rtswap.
    ///
    /// # Safety
    /// The argument is valid for the driver's function.
    #[inline]
    unsafe fn is_refused(self, agent: &Agent) -> bool {
        let _ = agent;
        false
    }
}

impl Argument for c_int {}
impl Argument for c_uint {}
impl Argument for c_uchar {}
impl Argument for c_ushort {}
impl Argument for usize {}

/// An address, or a number that is none: then it lies in no GPU's memory.
impl Argument for CUdeviceptr {
    unsafe fn clues(self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Address(self));
    }
}

/// What an argument points to.
pub(super) trait Pointee: Sized {
    #[inline]
    fn stream(at: *const Self) -> Option<CUstream> {
        let _ = at;
        None
    }

    /// # Safety
    /// `at` is valid for the driver's function, and not null.
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        let _ = (at, tell);
    }

    /// # Safety
    /// `at` is null, or valid for the driver's function.
    #[inline]
    unsafe fn is_refused(at: *const Self, agent: &Agent) -> bool {
        let _ = (at, agent);
        false
    }
}

impl<T: Pointee> Argument for *mut T {
    #[inline]
    fn stream(self) -> Option<CUstream> {
        T::stream(self.cast_const())
    }

    unsafe fn clues(self, tell: &mut dyn FnMut(Clue)) {
        // SAFETY: by the caller's promise.
        unsafe { self.cast_const().clues(tell) };
    }
}

impl<T: Pointee> Argument for *const T {
    #[inline]
    fn stream(self) -> Option<CUstream> {
        T::stream(self)
    }

    unsafe fn clues(self, tell: &mut dyn FnMut(Clue)) {
        if !self.is_null() {
            // SAFETY: by the caller's promise, and not null.
            unsafe { T::clues(self, tell) };
        }
    }

    #[inline]
    unsafe fn is_refused(self, agent: &Agent) -> bool {
        // SAFETY: by the caller's promise.
        unsafe { T::is_refused(self, agent) }
    }
}

impl Pointee for c_void {}
impl Pointee for *mut c_void {}
impl Pointee for usize {}
impl Pointee for c_uint {}
impl Pointee for CUgraphNode {}
impl Pointee for CUgraphNode_st {}

impl Pointee for CUstream_st {
    #[inline]
    fn stream(at: *const Self) -> Option<CUstream> {
        Some(at.cast_mut())
    }
}

impl Pointee for CUctx_st {
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Context(Context(at.addr())));
    }
}

/// A list of addresses whose length is another argument.
impl Pointee for CUdeviceptr {
    unsafe fn clues(_: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Every);
    }
}

/// Its nodes may work on any GPU.
impl Pointee for CUgraph_st {
    unsafe fn clues(_: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Every);
    }
}

/// As the graph that it was instantiated from.
impl Pointee for CUgraphExec_st {
    unsafe fn clues(_: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Every);
    }
}

impl Pointee for CUgraphExec {}

impl Pointee for CUDA_MEMSET_NODE_PARAMS {
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        // SAFETY: by the caller's promise.
        tell(Clue::Address(unsafe { (*at).dst }));
    }
}

/// A list of launches on several GPUs.
impl Pointee for CUDA_LAUNCH_PARAMS {
    unsafe fn clues(_: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Every);
    }
}

impl Pointee for CUlaunchConfig {
    #[inline]
    fn stream(at: *const Self) -> Option<CUstream> {
        // SAFETY: null, or the configuration that the driver is about to read.
        unsafe { given(at) }.map(|config| config.hStream)
    }
}

impl Pointee for Memcpy2D {
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        // SAFETY: the copy that the driver is about to read.
        if let Some(copy) = unsafe { given(at) } {
            tell(Clue::Address(copy.src.device));
            tell(Clue::Address(copy.dst.device));
        }
    }

    #[inline]
    unsafe fn is_refused(at: *const Self, agent: &Agent) -> bool {
        // SAFETY: null, or the copy that the driver is about to read.
        unsafe { given(at) }.is_some_and(|copy| refuses(agent, copy.ends()))
    }
}

impl Pointee for Memcpy3D {
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        // SAFETY: the copy that the driver is about to read.
        let Some(copy) = (unsafe { given(at) }) else {
            return;
        };
        for end in [&copy.src, &copy.dst] {
            tell(Clue::Address(end.device));
            tell(Clue::Context(Context(end.context)));
        }
    }

    #[inline]
    unsafe fn is_refused(at: *const Self, agent: &Agent) -> bool {
        // SAFETY: null, or the copy that the driver is about to read.
        unsafe { given(at) }.is_some_and(|copy| refuses(agent, copy.ends()))
    }
}

/// Driver 580.159 refuses kind 0 here for mapped memory too.
impl Pointee for Memcpy3DPeer {
    unsafe fn clues(at: *const Self, tell: &mut dyn FnMut(Clue)) {
        // SAFETY: by the caller's promise; the layout is the same.
        unsafe { <Memcpy3D as Pointee>::clues(at.cast(), tell) };
    }
}

#[inline]
fn refuses(agent: &Agent, ends: [End; 2]) -> bool {
    is_of_unknown_kind(ends) && refuses_unknown(agent, ends)
}

#[cold]
fn refuses_unknown(agent: &Agent, ends: [End; 2]) -> bool {
    // There nothing may be asked.
    if is_inside() {
        return false;
    }
    let cancellation = put_off();
    let refused = catch_unwind(AssertUnwindSafe(|| agent.refuses(ends)));
    cancellation.restore();
    refused.unwrap_or(true)
}
