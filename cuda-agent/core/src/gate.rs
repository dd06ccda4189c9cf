//! The gate before GPU work: one bit per GPU, closed or open, and one word per thread that says
//! whether the thread is inside a hooked call.
//!
//! The hot path is two stores and a load in this process, no fence, no shared page:
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

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, compiler_fence, fence};
use std::time::{Duration, Instant};

/// Closed gates; each GPU of an agent has a bit.
static CLOSED: AtomicU64 = AtomicU64::new(0);
/// No gate: sends every call to the agent, as long as it is set (see [`crate::torture`]).
pub const ASK_ALWAYS: u64 = 1 << 63;
/// Bits of gates.
pub const GATES: u32 = 63;
/// Whether the closers' barrier spares the threads theirs.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);
/// Every thread that ever made a hooked call; a word is used again once its thread is gone.
static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

/// One thread's word: odd inside a hooked call; each call changes it.
#[derive(Debug)]
struct Thread {
    word: AtomicU64,
    used: AtomicBool,
}

/// Stands in for threads whose thread-locals are gone: always in a call while counted.
static LATE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static WORD: Cell<Option<&'static Thread>> = const { Cell::new(None) };
    static OWNER: Owner = const { Owner };
}

/// Hands the thread's word back when the thread ends.
struct Owner;

impl Drop for Owner {
    fn drop(&mut self) {
        if let Ok(Some(thread)) = WORD.try_with(Cell::take) {
            // A thread that was cancelled, or left by pthread_exit, never came back from its call.
            if thread.word.load(Relaxed) & 1 == 1 {
                thread.word.fetch_add(1, Release);
            }
            thread.used.store(false, Release);
        }
    }
}

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
    ASYMMETRIC.store(rc == 0, SeqCst);
}

/// A thread inside a hooked call.
#[derive(Debug)]
#[must_use]
pub struct InCall(Where);

#[derive(Debug)]
enum Where {
    /// The outermost call of a thread.
    Outer(&'static Thread),
    /// A call within a call: it passes as the outer one did.
    Nested,
    /// A thread without thread-locals.
    Late,
}

impl InCall {
    /// Enters a call, whatever the gates say.
    #[inline]
    pub fn begin() -> Self {
        let Ok(known) = WORD.try_with(Cell::get) else {
            LATE.fetch_add(1, SeqCst);
            return Self(Where::Late);
        };
        let thread = match known {
            Some(thread) => thread,
            None => register(),
        };
        let word = thread.word.load(Relaxed);
        if word & 1 == 1 {
            return Self(Where::Nested);
        }
        // Acquire keeps nothing back that matters here; the pair that matters is this store and
        // the load of CLOSED (see the module).
        thread.word.store(word + 1, Relaxed);
        if ASYMMETRIC.load(Relaxed) {
            compiler_fence(SeqCst);
        } else {
            fence(SeqCst);
        }
        Self(Where::Outer(thread))
    }

    /// Whether an outer call, or a host callback, holds this thread already.
    pub fn is_nested(&self) -> bool {
        matches!(self.0, Where::Nested)
    }
}

impl Drop for InCall {
    #[inline]
    fn drop(&mut self) {
        match self.0 {
            // Release: who sees the new word sees what the call did.
            Where::Outer(thread) => thread.word.store(thread.word.load(Relaxed) + 1, Release),
            Where::Nested => {}
            Where::Late => {
                LATE.fetch_sub(1, SeqCst);
            }
        }
    }
}

#[cold]
fn register() -> &'static Thread {
    let mut threads = lock(&THREADS);
    let free = threads.iter().find(|thread| {
        thread
            .used
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_ok()
    });
    let thread = free.copied().unwrap_or_else(|| {
        let thread: &'static Thread = Box::leak(Box::new(Thread {
            word: AtomicU64::new(0),
            used: AtomicBool::new(true),
        }));
        threads.push(thread);
        thread
    });
    WORD.set(Some(thread));
    // Where the destructor cannot be had any more, the word is never used again.
    let _ = OWNER.try_with(|_| ());
    thread
}

/// Locks, also after a panic elsewhere: what the locks of this crate guard is valid at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Closed gates, as a set of bits. Only after [`InCall::begin`] does an open gate stay passable.
#[inline]
pub fn closed() -> u64 {
    CLOSED.load(Relaxed)
}

/// Opens a gate. What the opener did is seen by whoever finds it open.
pub fn open(bit: u64) {
    CLOSED.fetch_and(!bit, SeqCst);
}

/// Closes a gate: calls that find it closed do not start. Calls that are under way go on.
pub fn close(bit: u64) {
    CLOSED.fetch_or(bit, SeqCst);
    if ASYMMETRIC.load(Relaxed) {
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
            // The program has forbidden it since (seccomp). From now on both sides have fences; a
            // store made before that reaches the other CPUs long before this is over.
            ASYMMETRIC.store(false, SeqCst);
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    fence(SeqCst);
}

/// After [`close`]: waits until every call that was under way has ended, at most `bound`. Whether
/// all ended.
pub fn wait_for_calls(bound: Duration) -> bool {
    let me = WORD.try_with(Cell::get).ok().flatten();
    let mut busy: Vec<(&Thread, u64)> = lock(&THREADS)
        .iter()
        .filter(|thread| me.is_none_or(|me| !std::ptr::eq(me, **thread)))
        .map(|&thread| (thread, thread.word.load(Acquire)))
        .filter(|(_, word)| word & 1 == 1)
        .collect();
    let start = Instant::now();
    let mut pause = Duration::from_micros(5);
    loop {
        // A changed word means that the call ended: the next one of that thread saw the gate.
        busy.retain(|(thread, word)| thread.word.load(Acquire) == *word);
        if busy.is_empty() && LATE.load(SeqCst) == 0 {
            return true;
        }
        if start.elapsed() >= bound {
            return false;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// A number that stays the same as long as no call starts or ends, and whether any is under way.
pub fn activity() -> (u64, bool) {
    let mut sum = 0u64;
    let mut busy = LATE.load(SeqCst) != 0;
    for thread in lock(&THREADS).iter() {
        let word = thread.word.load(Acquire);
        busy |= word & 1 == 1;
        sum = sum.wrapping_add(word);
    }
    (sum, busy)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Threads launch on "memory" that is there only while the gate is open. Ten thousand forced
    /// closings; a single launch that finds the memory gone fails.
    #[test]
    fn no_launch_meets_unmapped_memory() {
        const BIT: u64 = 1 << 62;
        init();
        let mapped = Arc::new(AtomicBool::new(true));
        let stop = Arc::new(AtomicBool::new(false));
        let launches = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..6)
            .map(|_| {
                let (mapped, stop) = (Arc::clone(&mapped), Arc::clone(&stop));
                let launches = Arc::clone(&launches);
                std::thread::spawn(move || {
                    while !stop.load(Relaxed) {
                        let call = InCall::begin();
                        if closed() & BIT == 0 {
                            for _ in 0..20 {
                                assert!(mapped.load(Relaxed), "launched on unmapped memory");
                            }
                            launches.fetch_add(1, Relaxed);
                            drop(call);
                        } else {
                            drop(call);
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        for round in 0..10_000 {
            close(BIT);
            assert!(
                wait_for_calls(Duration::from_secs(20)),
                "a call never ended"
            );
            mapped.store(false, Relaxed);
            std::hint::spin_loop();
            mapped.store(true, Relaxed);
            open(BIT);
            if round % 64 == 0 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Relaxed);
        for thread in threads {
            thread.join().expect("a launch failed");
        }
        assert!(launches.load(Relaxed) > 1000, "the threads did launch");
    }

    #[test]
    fn a_thread_that_never_returned_from_its_call_is_not_in_one() {
        let word = std::thread::spawn(|| {
            std::mem::forget(InCall::begin());
            WORD.get().map(|thread| &thread.word).unwrap()
        });
        let word = word.join().unwrap();
        assert_eq!(word.load(Acquire) & 1, 0);
    }

    #[test]
    fn a_nested_call_is_known_and_words_return() {
        let outer = InCall::begin();
        let inner = InCall::begin();
        assert!(!outer.is_nested() && inner.is_nested());
        drop(inner);
        assert!(activity().1, "the outer call goes on");
        drop(outer);
        let before = lock(&THREADS).len();
        for _ in 0..50 {
            std::thread::spawn(|| drop(InCall::begin())).join().unwrap();
        }
        assert!(lock(&THREADS).len() <= before + 16, "words are used again");
    }
}
