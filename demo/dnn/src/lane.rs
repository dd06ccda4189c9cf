//! A stream of copies between pinned host memory and the GPU in one direction.

use std::collections::VecDeque;
use std::ffi::c_void;

use cudarc::driver::{DriverError, result, sys};

use crate::failure::{Doing, Failure};
use crate::gpu::{Gpu, Memory};
use crate::reference;

/// As much pinned on the host as there is on the GPU.
struct Piece<'gpu> {
    device: Memory<'gpu>,
    host: *mut u32,
    seed: u32,
    is_copied: bool,
}

impl Piece<'_> {
    /// The host's part. No copy of the piece is under way.
    fn words(&mut self) -> &mut [u32] {
        // SAFETY: the memory has as many words, begins at a page, and was zeroed when it was made. The
        // piece is borrowed as long as the reference lives, and no copy is under way.
        unsafe { std::slice::from_raw_parts_mut(self.host, self.device.words() as usize) }
    }
}

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the host to the GPU.
    In,
    /// From the GPU to the host.
    Out,
}

/// Copies of one direction, in their order.
pub(crate) struct Lane<'gpu> {
    way: Way,
    stream: sys::CUstream,
    pieces: Vec<Piece<'gpu>>,
    /// The piece that is copied next.
    next: usize,
    /// What was asked for and has not been seen to end: when, and its bytes.
    queued: VecDeque<(sys::CUevent, u64)>,
}

impl<'gpu> Lane<'gpu> {
    /// A lane over pieces of so many words, each filled with a pattern of its own where copies come from.
    pub(crate) fn new(gpu: &'gpu Gpu, way: Way, words: &[u64], seed: u32) -> Result<Self, Failure> {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .doing(|| "opening a stream".into())?;
        let mut lane = Self {
            way,
            stream,
            pieces: Vec::new(),
            next: 0,
            queued: VecDeque::new(),
        };
        for (at, words) in words.iter().enumerate() {
            let device = gpu.allocate(*words, "copies")?;
            // SAFETY: a context is current on this thread as long as `gpu` lives.
            let host = unsafe { result::malloc_host((words * 4) as usize, 0) }
                .doing(|| format!("pinning {} bytes of host memory", words * 4))?;
            let host: *mut u32 = host.cast();
            // SAFETY: so many words were just allocated there.
            unsafe { host.write_bytes(0, (*words).try_into().expect("it fits in memory")) };
            let mut piece = Piece {
                device,
                host,
                seed: reference::layer_seed(seed, at),
                is_copied: false,
            };
            match way {
                Way::In => {
                    let seed = piece.seed;
                    reference::fill(piece.words(), seed);
                }
                Way::Out => gpu.fill(&piece.device, piece.seed)?,
            }
            lane.pieces.push(piece);
        }
        gpu.synchronize()?;
        Ok(lane)
    }

    /// Asks for copies until so many have not ended.
    pub(crate) fn fill_queue(&mut self, depth: usize) -> Result<(), Failure> {
        while self.queued.len() < depth {
            let at = self.next;
            self.next = (at + 1) % self.pieces.len();
            self.pieces[at].is_copied = true;
            let piece = &self.pieces[at];
            self.copy(piece, self.way).doing(|| "copying".into())?;
            let event = self.mark().doing(|| "marking a copy".into())?;
            self.queued.push_back((event, piece.device.words() * 4));
        }
        Ok(())
    }

    /// The bytes of the copies that have ended since the last call.
    pub(crate) fn ended(&mut self) -> Result<u64, Failure> {
        let mut bytes = 0;
        while let Some((event, copied)) = self.queued.front().copied() {
            // SAFETY: the event is this lane's own, and destroyed once below.
            match unsafe { result::event::query(event) } {
                Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => break,
                other => other.doing(|| "looking after a copy".into())?,
            }
            self.queued.pop_front();
            // SAFETY: it has completed, and nobody else has it.
            unsafe { result::event::destroy(event) }.doing(|| "ending an event".into())?;
            bytes += copied;
        }
        Ok(bytes)
    }

    /// After all copies have ended: how many words of the pieces did not arrive as they were sent.
    pub(crate) fn wrong_words(&mut self) -> Result<u64, Failure> {
        self.synchronize()?;
        let mut wrong = 0;
        for at in 0..self.pieces.len() {
            if !self.pieces[at].is_copied {
                continue;
            }
            if self.way == Way::In {
                self.pieces[at].words().fill(0);
                let copied = self.copy(&self.pieces[at], Way::Out);
                copied.doing(|| "copying back".into())?;
                self.synchronize()?;
            }
            let seed = self.pieces[at].seed;
            wrong += reference::differing(self.pieces[at].words(), seed);
        }
        Ok(wrong)
    }

    fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.doing(|| "waiting for copies".into())
    }

    fn copy(&self, piece: &Piece<'_>, way: Way) -> Result<(), DriverError> {
        let (device, bytes) = (piece.device.address(), (piece.device.words() * 4) as usize);
        let host: *mut c_void = piece.host.cast();
        // SAFETY: both have `bytes` bytes, which stay until this lane's stream was waited for (`drop`). No reference to
        // the host's exists meanwhile: `words` is called only while no copy is under way.
        unsafe {
            match way {
                Way::In => sys::cuMemcpyHtoDAsync_v2(device, host, bytes, self.stream),
                Way::Out => sys::cuMemcpyDtoHAsync_v2(host, device, bytes, self.stream),
            }
        }
        .result()
    }

    fn mark(&self) -> Result<sys::CUevent, DriverError> {
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        // SAFETY: the event was just made, and the stream lives as long as `self`.
        unsafe { result::event::record(event, self.stream)? };
        Ok(event)
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // The process is at its end: a failure here has nobody left to tell.
        let _ = self.synchronize();
        for (event, _) in self.queued.drain(..) {
            // SAFETY: it is this lane's own and destroyed once.
            let _ = unsafe { result::event::destroy(event) };
        }
        for piece in &self.pieces {
            // SAFETY: the memory comes from `malloc_host`, is freed once, and no copy of it is under way.
            let _ = unsafe { result::free_host(piece.host.cast()) };
        }
        // SAFETY: the stream is this lane's own, has nothing left to do and is destroyed once.
        let _ = unsafe { result::stream::destroy(self.stream) };
    }
}
