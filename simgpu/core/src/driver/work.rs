//! What streams carry out, and doing it on the engines.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use super::fence::Fence;
use super::kernel::Launch;
use super::process::Process;
use super::space::{Access, Segment};
use crate::clock::{now_ns, wait_roughly_until, wait_until};
use crate::config::GRANULE;
use crate::machine::EngineKind;
use crate::{Error, Result};

const GIB: f64 = (1u64 << 30) as f64;

/// One end of a copy.
#[derive(Debug)]
pub(crate) enum Side {
    Host(usize),
    Device(u64),
    /// Host bytes that were taken when the copy was asked for.
    Staged(Box<[u8]>),
}

/// A call into the program when the stream gets there.
#[derive(Debug, Clone, Copy)]
pub enum HostCall {
    /// cuLaunchHostFunc.
    Function(unsafe extern "C" fn(*mut c_void), usize),
    /// cuStreamAddCallback: stream handle, code of the context's error, data.
    Callback(
        unsafe extern "C" fn(*mut c_void, u32, *mut c_void),
        usize,
        usize,
    ),
}

pub(crate) enum Work {
    Copy {
        dst: Side,
        src: Side,
        len: usize,
    },
    /// `pattern` repeated, its width a power of two up to 4.
    Set {
        dst: u64,
        pattern: u32,
        width: usize,
        count: usize,
    },
    Launch(Launch),
    HostCall(HostCall),
    /// Something of the driver's own.
    Call(Box<dyn FnOnce() + Send>),
    /// Nothing but its place in the order.
    Marker,
}

/// A piece of work with its place in the order.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) after: Vec<Arc<Fence>>,
    pub(crate) done: Arc<Fence>,
    pub(crate) submitted_ns: u64,
}

/// Carries work out for one context.
pub(crate) struct Executor {
    pub(crate) process: Arc<Process>,
    pub(crate) gpu: usize,
    /// Code of the error that broke the context; 0 is none.
    broken: AtomicU32,
}

impl Executor {
    pub(crate) fn new(process: Arc<Process>, gpu: usize) -> Self {
        Self {
            process,
            gpu,
            broken: AtomicU32::new(0),
        }
    }

    /// Fails once the context is broken: such an error stays.
    pub(crate) fn check(&self) -> Result<()> {
        Error::from_code(self.broken.load(Acquire)).map_or(Ok(()), Err)
    }

    /// Waits for what the job comes after, then does it.
    pub(crate) fn run(&self, job: Job) {
        let ends = job.after.iter().map(|fence| fence.wait());
        let ready_ns = ends.fold(job.submitted_ns, u64::max);
        let outcome = match job.work {
            Work::HostCall(call) => Ok(self.call_host(call, ready_ns)),
            Work::Marker => Ok(ready_ns),
            Work::Call(call) => {
                call();
                Ok(now_ns().max(ready_ns))
            }
            _ if self.check().is_err() => Ok(ready_ns),
            Work::Copy { dst, src, len } => self.copy(&dst, &src, len, ready_ns),
            Work::Set {
                dst,
                pattern,
                width,
                count,
            } => self.set(dst, pattern, width, count, ready_ns),
            Work::Launch(launch) => self.launch(&launch, ready_ns),
        };
        let end_ns = outcome.unwrap_or_else(|error| {
            // The first error is the one that counts.
            let _ = self
                .broken
                .compare_exchange(0, error as u32, AcqRel, Acquire);
            now_ns()
        });
        job.done.signal(end_ns);
    }

    fn call_host(&self, call: HostCall, ready_ns: u64) -> u64 {
        match call {
            HostCall::Function(function, data) => {
                if self.check().is_ok() {
                    // SAFETY: the program gave the function to be called with this.
                    unsafe { function(ptr::with_exposed_provenance_mut(data)) };
                }
            }
            HostCall::Callback(function, stream, data) => {
                let code = self.broken.load(Acquire);
                let stream = ptr::with_exposed_provenance_mut(stream);
                // SAFETY: as above.
                unsafe { function(stream, code, ptr::with_exposed_provenance_mut(data)) };
            }
        }
        now_ns().max(ready_ns)
    }

    /// Copies granule by granule: an engine goes round among those who want it.
    fn copy(&self, dst: &Side, src: &Side, len: usize, mut ready_ns: u64) -> Result<u64> {
        let machine = &self.process.machine;
        let costs = machine.gpu(self.gpu);
        let counters = self.process.counters(self.gpu);
        let (engine, gib_per_s, counter) = match (dst, src) {
            (Side::Device(_), Side::Device(_)) => {
                // Each byte is read and written.
                (
                    EngineKind::Compute,
                    costs.compute_gib_per_s / 2.0,
                    &counters.d2d_bytes,
                )
            }
            (Side::Device(_), _) => (
                EngineKind::HostToDevice,
                costs.h2d_gib_per_s,
                &counters.h2d_bytes,
            ),
            (_, Side::Device(_)) => (
                EngineKind::DeviceToHost,
                costs.d2h_gib_per_s,
                &counters.d2h_bytes,
            ),
            _ => {
                self.move_bytes(dst, src, 0, len)?;
                return Ok(now_ns().max(ready_ns));
            }
        };
        let mut latency_ns = costs.copy_us * 1e3;
        let mut at = 0;
        while at < len {
            let piece = (len - at).min(GRANULE as usize);
            let duration_ns = latency_ns + transfer_ns(piece as u64, gib_per_s);
            latency_ns = 0.0;
            let span = machine.reserve(self.gpu, engine, ready_ns, duration_ns as u64);
            wait_roughly_until(span.start_ns);
            self.move_bytes(dst, src, at, piece)?;
            counter.fetch_add(piece as u64, Relaxed);
            ready_ns = span.end_ns;
            at += piece;
            if at < len {
                wait_roughly_until(ready_ns);
            }
        }
        wait_until(ready_ns);
        Ok(ready_ns)
    }

    fn move_bytes(&self, dst: &Side, src: &Side, at: usize, len: usize) -> Result<()> {
        let to = self.side(dst, at, len, Access::ReadWrite)?;
        let from = self.side(src, at, len, Access::Read)?;
        let (mut to, mut from) = (to.into_iter(), from.into_iter());
        let nothing = Segment {
            start: ptr::null_mut(),
            len: 0,
        };
        let (mut into, mut out) = (nothing, nothing);
        loop {
            if into.len == 0 {
                let Some(next) = to.next() else { return Ok(()) };
                into = next;
            }
            if out.len == 0 {
                let Some(next) = from.next() else {
                    return Ok(());
                };
                out = next;
            }
            let run = into.len.min(out.len);
            // SAFETY: both are runs of at least `run` bytes, of the machine's
            // mapping or of host memory that the program vouches for; `copy`
            // allows that they overlap.
            unsafe { ptr::copy(out.start, into.start, run) };
            into = into.skip(run);
            out = out.skip(run);
        }
    }

    fn side(&self, side: &Side, at: usize, len: usize, access: Access) -> Result<Vec<Segment>> {
        let start = match side {
            Side::Device(address) => return self.device(*address + at as u64, len, access),
            Side::Host(address) => ptr::with_exposed_provenance_mut(address + at),
            Side::Staged(bytes) => bytes[at..at + len].as_ptr().cast_mut(),
        };
        Ok(vec![Segment { start, len }])
    }

    /// Where bytes are that this GPU may access: device or pinned host memory.
    pub(crate) fn device(&self, address: u64, len: usize, access: Access) -> Result<Vec<Segment>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.process.host().is_pinned(address as usize, len) {
            let start = ptr::with_exposed_provenance_mut(address as usize);
            return Ok(vec![Segment { start, len }]);
        }
        let machine = &self.process.machine;
        self.process
            .space()
            .translate(machine, address, len, self.gpu, access)
    }

    fn set(
        &self,
        dst: u64,
        pattern: u32,
        width: usize,
        count: usize,
        ready_ns: u64,
    ) -> Result<u64> {
        let costs = self.process.machine.gpu(self.gpu);
        let len = count.checked_mul(width).ok_or(Error::IllegalAddress)?;
        let busy = costs.copy_us * 1e3 + transfer_ns(len as u64, costs.compute_gib_per_s);
        self.compute(ready_ns, busy, || {
            for segment in self.device(dst, len, Access::ReadWrite)? {
                segment.fill(pattern, width);
            }
            Ok(())
        })
    }

    fn launch(&self, launch: &Launch, ready_ns: u64) -> Result<u64> {
        let costs = self.process.machine.gpu(self.gpu);
        let touched = transfer_ns(launch.bytes_touched(), costs.compute_gib_per_s);
        let busy = costs.launch_us * 1e3 + touched + launch.spin_ns() as f64;
        let end_ns = self.compute(ready_ns, busy, || launch.run(self))?;
        self.process
            .counters(self.gpu)
            .launches
            .fetch_add(1, Relaxed);
        Ok(end_ns)
    }

    fn compute(
        &self,
        ready_ns: u64,
        busy_ns: f64,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<u64> {
        let machine = &self.process.machine;
        let asked_ns = now_ns();
        let span = machine.reserve(self.gpu, EngineKind::Compute, ready_ns, busy_ns as u64);
        let slot = self.process.identity.slot;
        machine.count_compute(self.gpu, slot, asked_ns, span);
        wait_roughly_until(span.start_ns);
        work()?;
        wait_until(span.end_ns);
        Ok(span.end_ns)
    }
}

/// Time for `bytes` at a rate, ns.
fn transfer_ns(bytes: u64, gib_per_s: f64) -> f64 {
    bytes as f64 / (gib_per_s * GIB) * 1e9
}

impl Segment {
    fn skip(self, bytes: usize) -> Self {
        Self {
            start: self.start.wrapping_add(bytes),
            len: self.len - bytes,
        }
    }

    /// Repeats the low `width` bytes of `pattern`; segments of a set start at
    /// multiples of its width.
    fn fill(self, pattern: u32, width: usize) {
        let Self { start, len } = self;
        // SAFETY: the segment is `len` writable bytes, `start` a multiple of
        // the width as the caller checked of the address.
        unsafe {
            match width {
                1 => ptr::write_bytes(start, pattern as u8, len),
                2 => (0..len / 2).for_each(|i| start.cast::<u16>().add(i).write(pattern as u16)),
                _ => (0..len / 4).for_each(|i| start.cast::<u32>().add(i).write(pattern)),
            }
        }
    }
}
