//! What streams carry out, and doing it on the engines: `copy`, `set`, `value`,
//! kernels and host functions here.

mod copy;
mod set;
mod value;

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::context::Context;
use super::fence::Fence;
use super::kernel::Launch;
use super::process::Process;
use super::space::{Access, Segment};
use crate::clock::{now_ns, wait_roughly_until, wait_until};
use crate::machine::{EngineKind, transfer_ns};
use crate::{Error, Result};

pub use copy::Extent;
pub(crate) use copy::{Copy, Plane, QueuedCopy, Side};
pub(crate) use set::Set;
pub use value::{Action, Until, ValueOp};

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

#[derive(Clone)]
pub(crate) enum Work {
    Copy(Copy),
    Set(Set),
    Value(ValueOp),
    Launch(Launch),
    HostCall(HostCall),
    /// A free of what cuMemAlloc gave in this context.
    Free(Arc<Context>, u64),
    /// All of a graph, one after another.
    Graph(Vec<Work>),
    /// Nothing but its place in the order.
    Marker,
}

/// A piece of work with its place in the order.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) after: Vec<Arc<Fence>>,
    pub(crate) done: Arc<Fence>,
    pub(crate) submitted_ns: u64,
    /// Of a copy, until its turn has come.
    pub(crate) queued: Option<QueuedCopy>,
}

/// Carries work out for one context.
pub(crate) struct Executor {
    pub(crate) process: Arc<Process>,
    pub(crate) gpu: usize,
    /// Code of the error that broke the context; 0 is none.
    broken: AtomicU32,
    /// Bytes of the copies that wait for their turn, by engine.
    queued_bytes: [AtomicU64; 3],
}

impl Executor {
    pub(crate) fn new(process: Arc<Process>, gpu: usize) -> Self {
        Self {
            process,
            gpu,
            broken: AtomicU32::new(0),
            queued_bytes: Default::default(),
        }
    }

    fn queued_bytes(&self, engine: EngineKind) -> &AtomicU64 {
        &self.queued_bytes[engine as usize]
    }

    /// The context is as good as new.
    pub(crate) fn mend(&self) {
        self.broken.store(0, Release);
    }

    /// Fails once the context is broken: such an error stays.
    pub(crate) fn check(&self) -> Result<()> {
        Error::from_code(self.broken.load(Acquire)).map_or(Ok(()), Err)
    }

    /// Waits for what the job comes after, then does it.
    pub(crate) fn run(&self, job: Job) {
        let ends = job.after.iter().map(|fence| fence.wait());
        let ready_ns = ends.fold(job.submitted_ns, u64::max);
        drop(job.queued);
        let outcome = self.perform(&job.work, ready_ns);
        let end_ns = outcome.unwrap_or_else(|error| {
            // The first error is the one that counts.
            let _ = self
                .broken
                .compare_exchange(0, error as u32, AcqRel, Acquire);
            now_ns()
        });
        job.done.signal(end_ns);
    }

    /// Does one piece of work; the instant of its end in the model.
    fn perform(&self, work: &Work, ready_ns: u64) -> Result<u64> {
        match work {
            Work::HostCall(call) => Ok(self.call_host(*call, ready_ns)),
            Work::Marker => Ok(ready_ns),
            Work::Free(owner, address) => {
                // Freed a second time by then, which was the program's mistake.
                let _ = owner.free_now(*address);
                Ok(now_ns().max(ready_ns))
            }
            _ if self.check().is_err() => Ok(ready_ns),
            Work::Copy(copy) => self.copy(copy, ready_ns),
            Work::Set(set) => self.set(set, ready_ns),
            Work::Value(op) => self.value_op(op, ready_ns),
            Work::Launch(launch) => self.launch(launch, ready_ns),
            Work::Graph(works) => works
                .iter()
                .try_fold(ready_ns, |ready_ns, work| self.perform(work, ready_ns)),
        }
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
            .translate(machine, address, len, Some(self.gpu), access)
    }

    /// As [`Executor::device`], but for a copy: that goes between GPUs through
    /// the GPU where the memory is, whether kernels of this one may access it or not.
    pub(crate) fn reachable(
        &self,
        address: u64,
        len: usize,
        access: Access,
    ) -> Result<Vec<Segment>> {
        self.device(address, len, access).or_else(|_| {
            let machine = &self.process.machine;
            self.process
                .space()
                .translate(machine, address, len, None, access)
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
