//! The gate before GPU work: one bit per GPU, closed or open, and one word per thread that says
//! whether the thread is inside a hooked call. `thread` has the words, `local` finds a thread's own,
//! `inside` knows a thread that comes back in, `host` the program's functions that run in streams.
//!
//! The hot path is two stores and two loads in this process, no fence, no shared page:
//!
//! ```text
//! thread:  word = odd;  compiler fence;  load CLOSED       (then the call, then word = even)
//! closer:  CLOSED |= bit;  membarrier;  wait until each odd word has changed
//! ```
//!
//! No work slips through. membarrier(PRIVATE_EXPEDITED) runs a full fence on every CPU that runs a
//! thread of this process, at some point between the closer's store and its return. Take a
//! thread's entry. If its `word = odd` came before that point in program order, the closer's later
//! loads see it, and the closer waits for the call's end. If not, then `load CLOSED`, which the
//! compiler keeps behind the store, came after that point too, and sees the bit. A thread that is
//! not on a CPU passed a full fence in the scheduler. Where the kernel has no membarrier, both
//! sides use a sequentially consistent fence.
//!
//! A closer waits only for threads whose call goes through its gate. While any gate is closed, or
//! several GPUs are in use, a call finds out which gates are its own and says so, again before it
//! loads CLOSED; else it counts as a call through all of them.

mod host;
mod inside;
mod local;
mod thread;

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{compiler_fence, fence};
use std::time::{Duration, Instant};

pub use host::{HostCall, ended_host_calls, host_call_may_wait};
pub use inside::{Inside, Locked, is_inside};
pub(crate) use inside::{lock, lock_briefly, try_lock};
use thread::Thread;
pub use thread::{Life, forget_streams};

/// Closed gates, and reasons for every call to look closer.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// The kernel has no membarrier: threads need a fence of their own.
const FENCED: u64 = 1 << 63;
/// Contexts on several GPUs: which gates a call goes through must be looked up.
const SEVERAL: u64 = 1 << 62;
/// No gate: sends every call to the agent, as long as it is set (see [`crate::torture`]).
pub const ASK_ALWAYS: u64 = 1 << 61;
/// How long a store that was made without a fence may stay unseen, at most.
///
/// What could go wrong is one thread, once in the life of a process: its `word = odd` still lies in
/// its CPU's store buffer while its load of CLOSED came before the closer's store. (A load that comes
/// after finds CLOSED changed.) The word leaves the buffer by itself as soon as the CPU owns its
/// line, which nobody else writes: within microseconds. It is there no longer than until the thread
/// is switched out, which is a full fence; has made as many stores more as the buffer has places, of
/// which the driver's function makes thousands; or its CPU takes an interrupt, which drains the buffer
/// (Intel SDM, volume 3, "Store Buffer"). Even a thread that only reads is interrupted by the clock,
/// at the slowest 100 times a second: this is two of its ticks.
const DRAINED: Duration = Duration::from_millis(20);
/// Bits for the gates of GPUs, from the lowest.
pub const GATES: u32 = 32;

/// Prepares closing. Once, before any gate is closed.
pub fn init() {
    // SAFETY: registers a capability of this process, touches no memory.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_membarrier,
            libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
            0,
            0,
        )
    };
    if rc != 0 {
        CLOSED.fetch_or(FENCED, SeqCst);
    }
}

/// From now on each call looks up which gates it goes through.
pub fn tell_apart() {
    if CLOSED.load(Relaxed) & SEVERAL == 0 {
        close(SEVERAL);
    }
}

/// Whether calls look up which gates they go through.
pub fn tells_apart() -> bool {
    CLOSED.load(Relaxed) & SEVERAL != 0
}

/// A thread inside a hooked call. It is left by the thread that entered it.
#[derive(Debug)]
#[must_use]
pub struct InCall(Where, OfThisThread);

/// Keeps a guard in the thread that made it: the words of a thread are written by itself alone.
type OfThisThread = PhantomData<*const ()>;

#[derive(Debug)]
enum Where {
    /// The outermost call of a thread, through any gate.
    Outer(&'static Thread),
    /// The outermost call of a thread, through gates that were looked up.
    LookedUp(&'static Thread),
    /// A call within a call, or within a host function: it passes as the outer one did.
    Nested(&'static Thread),
}

impl InCall {
    /// Enters a call, whatever the gates say.
    pub fn begin() -> Self {
        let thread = local::get().unwrap_or_else(Thread::register);
        if thread.in_call() {
            return Self(Where::Nested(thread), PhantomData);
        }
        thread.go_in();
        Self(Where::Outer(thread), PhantomData)
    }

    /// Enters a call on `stream`. The work may go on if all gates are open and the stream was
    /// marked before; otherwise the caller asks the agent first.
    #[inline]
    pub fn enter(stream: usize) -> Result<Self, Unasked> {
        let Some(thread) = local::get() else {
            return Err(Unasked);
        };
        if !thread.is_outside() {
            return Err(Unasked);
        }
        thread.go_in();
        // The pair that matters is this store and this load (see the module).
        compiler_fence(SeqCst);
        if CLOSED.load(Acquire) == 0 && thread.take(stream) {
            return Ok(Self(Where::Outer(thread), PhantomData));
        }
        thread.leave();
        Err(Unasked)
    }

    /// Whether an outer call, or a host function, holds this thread already.
    pub fn is_nested(&self) -> bool {
        matches!(self.0, Where::Nested(_))
    }

    /// Says that the call goes through `gates` only, and returns which gates are closed. An open
    /// one stays passable as long as the call lasts.
    pub fn goes_through(&mut self, gates: u64) -> u64 {
        if let Where::Outer(thread) | Where::LookedUp(thread) = self.0 {
            thread.set_gates(gates);
            self.0 = Where::LookedUp(thread);
        }
        compiler_fence(SeqCst);
        let closed = CLOSED.load(Acquire);
        if closed & FENCED == 0 {
            return closed & gates;
        }
        fence(SeqCst);
        CLOSED.load(Acquire) & gates
    }

    fn thread(&self) -> &'static Thread {
        match self.0 {
            Where::Outer(thread) | Where::LookedUp(thread) | Where::Nested(thread) => thread,
        }
    }

    /// Takes one of the calls that a marked stream has left in this thread.
    pub fn take(&self, stream: usize) -> bool {
        self.thread().take(stream)
    }

    /// Pushes the stream out whose place `stream` takes: it, and how many calls were made on it.
    pub fn evict(&self, stream: usize) -> Option<(usize, u32)> {
        self.thread().evict(stream)
    }

    /// The next `left` calls of this thread on `stream` pass without a word.
    pub fn mark(&self, stream: usize, left: u32) {
        self.thread().mark(stream, left);
    }
}

/// The call needs the agent's word.
#[derive(Debug)]
pub struct Unasked;

impl Drop for InCall {
    #[inline]
    fn drop(&mut self) {
        match self.0 {
            Where::Outer(thread) => thread.leave(),
            Where::LookedUp(thread) => thread.leave_looked_up(),
            Where::Nested(_) => {}
        }
    }
}

/// Whether a gate is open.
pub fn is_open(gate: u64) -> bool {
    CLOSED.load(Acquire) & gate == 0
}

/// Opens a gate. What the opener did is seen by whoever finds it open.
pub fn open(gate: u64) {
    CLOSED.fetch_and(!gate, SeqCst);
}

/// Closes a gate: calls that find it closed do not start. Calls that are under way go on.
pub fn close(gate: u64) {
    if CLOSED.fetch_or(gate, SeqCst) & FENCED == 0 {
        // SAFETY: a barrier, touches no memory.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_membarrier,
                libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED,
                0,
                0,
            )
        };
        if rc != 0 {
            // The program has forbidden it since (seccomp). From now on both sides have fences.
            CLOSED.fetch_or(FENCED, SeqCst);
            std::thread::sleep(DRAINED);
        }
    }
    fence(SeqCst);
}

/// After [`close`]: waits until every call through the gate that was under way has ended, at most
/// `bound`. Whether all ended. The caller's own is not waited for.
pub fn wait_for_calls(gate: u64, bound: Duration) -> bool {
    let me = local::get();
    let mut busy: Vec<(&Thread, u64)> = Vec::new();
    thread::each(|thread| {
        if me.is_none_or(|me| !std::ptr::eq(me, thread))
            && let Some(word) = thread.busy_at(gate)
        {
            busy.push((thread, word));
        }
    });
    let start = Instant::now();
    let mut pause = Duration::from_micros(5);
    loop {
        // A changed word means that the call ended: the next one of that thread saw the gate.
        busy.retain(|(thread, word)| thread.word() == *word);
        if busy.is_empty() {
            return true;
        }
        if start.elapsed() >= bound {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// A number that stays the same as long as no call starts or ends on any GPU, and whether one goes
/// through `gate`.
pub fn activity(gate: u64) -> (u64, bool) {
    let mut sum = 0u64;
    let mut busy = false;
    thread::each(|thread| {
        busy |= thread.busy_at(gate).is_some();
        sum = sum.wrapping_add(thread.word());
    });
    (sum, busy)
}

#[cfg(test)]
mod tests;
