//! Streams: work in order, carried out by a thread of the stream's own.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;

use super::capture::Capture;
use super::context::Context;
use super::fence::Fence;
use super::graph::NodeId;
use super::lock;
use super::work::{Executor, Job};
use crate::{Error, Result};

/// Work of a blocking stream and of the legacy default stream wait for each
/// other; this flag (CU_STREAM_NON_BLOCKING) takes a stream out of that.
pub(super) const NON_BLOCKING: u32 = 1;

/// Stack of a stream's thread: host functions of the program run there.
const STACK_BYTES: usize = 1 << 20;

/// A stream of a context.
pub struct Stream {
    pub(super) context: Weak<Context>,
    /// The flags it was created with.
    pub flags: u32,
    /// Its priority; less is more urgent. Engines do not look at it.
    pub priority: i32,
    /// Unique in the process.
    pub id: u64,
    /// What was submitted last. Changed under the context's order lock only.
    pub(super) last: Mutex<Option<Arc<Fence>>>,
    /// The capture that it takes part in.
    pub(super) capture: Mutex<Option<Arc<Capture>>>,
    /// Nodes that a program was told of, kept while it may read them.
    lent: Mutex<Vec<NodeId>>,
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    has_thread: bool,
    closed: bool,
}

impl Stream {
    pub(super) fn new(context: Weak<Context>, flags: u32, priority: i32, id: u64) -> Arc<Self> {
        let (last, queue) = (Mutex::default(), Arc::default());
        Arc::new(Self {
            context,
            flags,
            priority,
            id,
            last,
            capture: Mutex::default(),
            lent: Mutex::default(),
            queue,
        })
    }

    /// The context it belongs to.
    pub fn context(&self) -> Result<Arc<Context>> {
        self.context.upgrade().ok_or(Error::ContextIsDestroyed)
    }

    /// Keeps nodes for the program to read until it is told others.
    pub fn lend_nodes(&self, nodes: Vec<NodeId>) -> *const NodeId {
        let mut lent = lock(&self.lent);
        *lent = nodes;
        lent.as_ptr()
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// What has to end before the stream is idle.
    pub(super) fn pending(&self) -> Option<Arc<Fence>> {
        lock(&self.last)
            .clone()
            .filter(|fence| fence.end_ns().is_none())
    }

    /// Hands a job to the stream's thread, which is started for the first one.
    pub(super) fn push(&self, executor: &Arc<Executor>, job: Job) -> Result<()> {
        let mut state = lock(&self.queue.state);
        if !state.has_thread {
            let (queue, executor) = (self.queue.clone(), executor.clone());
            without_signals(|| {
                thread::Builder::new()
                    .name("simgpu-stream".into())
                    .stack_size(STACK_BYTES)
                    .spawn(move || queue.serve(&executor))
            })
            .map_err(|_| Error::OperatingSystem)?;
            state.has_thread = true;
        }
        state.jobs.push_back(job);
        self.queue.changed.notify_one();
        Ok(())
    }
}

impl Drop for Stream {
    /// What was submitted is still carried out.
    fn drop(&mut self) {
        lock(&self.queue.state).closed = true;
        self.queue.changed.notify_one();
    }
}

impl Queue {
    fn serve(&self, executor: &Executor) {
        // Sleeps of this thread need not be lengthened to save power.
        // SAFETY: sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                executor.run(job);
                state = lock(&self.state);
            } else if state.closed {
                return;
            } else {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// Runs `start` with all signals blocked: the program's signals must not land
/// on threads it does not know of, and a thread inherits the mask.
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised before they are read.
    let old = unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        let mut old = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    };
    let started = start();
    // SAFETY: `old` is the mask of before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()) };
    started
}
