//! What the gate knows of one thread: whether it is in a call, where, and which streams it marked.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, OnceLock};

use core::ffi::c_void;

use super::inside::lock_briefly;
use super::local;

/// In a word: the thread is inside a hooked call.
const IN_CALL: u64 = 1;
/// In a word, so many times: the thread is inside the agent (see `inside`).
const INSIDE: u64 = 1 << 1;
/// In a word: one call more has ended.
const CALL: u64 = 1 << 16;
/// How deep inside the thread is.
const DEPTH: u64 = CALL - INSIDE;

/// Streams that a thread can keep in mind at a time.
const SLOTS: usize = 16;
/// In the place of a stream where there is none. No handle is that large; 0 is the default stream.
const EMPTY: usize = usize::MAX;
/// Every thread that ever made a hooked call; it is used again once the thread is gone.
static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());

/// Hands a thread back when it ends. Not the destructor of a `thread_local!`: that is registered
/// under the loader's lock, which may be held by whoever waits for this thread, in the constructor of
/// a library. And it comes once, before the program's own keys: those that then call the driver have
/// the thread known, and handed back, again.
fn hand_back_at_end(thread: &'static Thread) {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: makes a key whose destructor takes what is set below.
        let rc = unsafe { libc::pthread_key_create(&raw mut key, Some(hand_back)) };
        (rc == 0).then_some(key)
    });
    if let Some(key) = *key {
        // SAFETY: the key made above. Where the value cannot be kept the thread is never used again.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(thread).cast()) };
    }
}

unsafe extern "C" fn hand_back(thread: *mut c_void) {
    // SAFETY: what `hand_back_at_end` was given, which is never freed.
    let thread = unsafe { &*thread.cast_const().cast::<Thread>() };
    // A call made after this is another thread's, as far as the gate can see.
    local::set(None);
    // A thread that was cancelled, or left by pthread_exit, never came back from its call.
    thread.abandon();
    thread.lives.fetch_add(1, Release);
    thread.used.store(false, Release);
}

/// A stream that the thread marked: its next `left` calls, of `given`, need no word to anybody.
#[derive(Debug)]
struct Slot {
    stream: AtomicUsize,
    left: AtomicU32,
    given: AtomicU32,
}

impl Default for Slot {
    fn default() -> Self {
        Self {
            stream: AtomicUsize::new(EMPTY),
            left: AtomicU32::new(0),
            given: AtomicU32::new(0),
        }
    }
}

/// One thread. All of it is written by the thread itself, but for slots that a closer empties.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Thread {
    /// Odd inside a hooked call; each call changes it. How deep inside the agent the thread is counts
    /// for the thread itself only.
    word: AtomicU64,
    /// The gates that the call goes through; all of them unless it was looked up.
    gates: AtomicU64,
    used: AtomicBool,
    /// How many threads have had this word and are gone.
    lives: AtomicU64,
    slots: [Slot; SLOTS],
}

impl Thread {
    /// Of a thread that has made no call.
    fn new() -> Self {
        Self {
            word: AtomicU64::new(0),
            gates: AtomicU64::new(u64::MAX),
            used: AtomicBool::new(true),
            lives: AtomicU64::new(0),
            slots: Default::default(),
        }
    }

    /// This thread, known from now on.
    #[cold]
    pub(super) fn register() -> &'static Self {
        let mut threads = lock_briefly(&THREADS);
        let free = threads.iter().find(|thread| {
            thread
                .used
                .compare_exchange(false, true, Acquire, Relaxed)
                .is_ok()
        });
        let thread = free.copied().unwrap_or_else(|| {
            let thread: &'static Self = Box::leak(Box::new(Self::new()));
            threads.push(thread);
            thread
        });
        thread.empty_slots();
        local::set(Some(thread));
        hand_back_at_end(thread);
        thread
    }

    #[inline]
    pub(super) fn in_call(&self) -> bool {
        self.word.load(Relaxed) & IN_CALL != 0
    }

    pub(super) fn is_inside(&self) -> bool {
        self.word.load(Relaxed) & DEPTH != 0
    }

    /// Whether the thread is neither in a call nor inside the agent.
    #[inline]
    pub(super) fn is_outside(&self) -> bool {
        self.word.load(Relaxed) & (IN_CALL | DEPTH) == 0
    }

    #[inline]
    fn step(&self, by: u64) -> u64 {
        self.word.load(Relaxed).wrapping_add(by)
    }

    /// Into a call. Not from within one.
    #[inline]
    pub(super) fn go_in(&self) {
        self.word.store(self.step(IN_CALL), Relaxed);
    }

    /// Out of the call: who sees the new word sees what the call did.
    #[inline]
    pub(super) fn leave(&self) {
        self.word.store(self.step(CALL - IN_CALL), Release);
    }

    /// Out of a call through gates that were looked up: calls on the hot path say nothing of theirs.
    pub(super) fn leave_looked_up(&self) {
        self.leave();
        self.set_gates(u64::MAX);
    }

    /// One step deeper inside the agent.
    #[inline]
    pub(super) fn step_inside(&self) {
        self.word.store(self.step(INSIDE), Relaxed);
    }

    /// One step back.
    #[inline]
    pub(super) fn step_outside(&self) {
        self.word.store(self.step(INSIDE.wrapping_neg()), Relaxed);
    }

    /// Out of everything.
    fn abandon(&self) {
        let word = self.word.load(Relaxed);
        if word & (IN_CALL | DEPTH) != 0 {
            self.word
                .store((word | (CALL - 1)).wrapping_add(1), Release);
            self.set_gates(u64::MAX);
        }
    }

    /// The word, if the thread is in a call through one of `gates`.
    pub(super) fn busy_at(&self, gates: u64) -> Option<u64> {
        let word = self.word();
        (word & IN_CALL != 0 && self.gates.load(Relaxed) & gates != 0).then_some(word)
    }

    /// The word, as far as it is for others.
    pub(super) fn word(&self) -> u64 {
        self.word.load(Acquire) & !DEPTH
    }

    /// Says which gates the call goes through, before they are looked at.
    pub(super) fn set_gates(&self, gates: u64) {
        self.gates.store(gates, Relaxed);
    }

    /// Takes one of the calls that a marked stream has left.
    #[inline]
    pub(super) fn take(&self, stream: usize) -> bool {
        let slot = &self.slots[slot_of(stream)];
        let left = slot.left.load(Relaxed);
        if slot.stream.load(Relaxed) == stream && left != 0 {
            slot.left.store(left - 1, Relaxed);
            true
        } else {
            false
        }
    }

    /// Empties the slot of `stream`; tells whose it was, and how many calls were made on that.
    pub(super) fn evict(&self, stream: usize) -> Option<(usize, u32)> {
        let slot = &self.slots[slot_of(stream)];
        let old = slot.stream.swap(EMPTY, Relaxed);
        let (given, left) = (slot.given.load(Relaxed), slot.left.load(Relaxed));
        (old != EMPTY).then(|| (old, given.saturating_sub(left)))
    }

    /// The next `left` calls on `stream` need no word.
    pub(super) fn mark(&self, stream: usize, left: u32) {
        let slot = &self.slots[slot_of(stream)];
        slot.given.store(left, Relaxed);
        slot.left.store(left, Relaxed);
        slot.stream.store(stream, Relaxed);
    }

    fn empty_slots(&self) {
        for slot in &self.slots {
            slot.stream.store(EMPTY, Relaxed);
        }
    }
}

/// Handles are addresses whose low bits say little.
#[inline]
fn slot_of(stream: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ((stream as u64).wrapping_mul(GOLDEN) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Runs `look` over all threads.
pub(super) fn each(mut look: impl FnMut(&'static Thread)) {
    for thread in lock_briefly(&THREADS).iter() {
        look(thread);
    }
}

/// A thread, as long as it lives.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    thread: &'static Thread,
    number: u64,
}

impl Life {
    /// The calling thread's.
    pub fn own() -> Self {
        let thread = local::get().unwrap_or_else(Thread::register);
        let number = thread.lives.load(Relaxed);
        Self { thread, number }
    }

    /// Whether the thread has not ended.
    pub fn goes_on(self) -> bool {
        self.thread.lives.load(Acquire) == self.number
    }

    /// Whether it is the same thread's.
    pub fn is(self, other: Self) -> bool {
        std::ptr::eq(self.thread, other.thread) && self.number == other.number
    }
}

/// Has every thread ask again before its next call on any stream.
pub fn forget_streams() {
    each(Thread::empty_slots);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_never_returned_from_its_call_is_not_in_one() {
        let thread = std::thread::spawn(|| {
            std::mem::forget(super::super::InCall::begin());
            local::get().unwrap()
        });
        assert!(!thread.join().unwrap().in_call());
    }

    /// The next thread's calls on the hot path say nothing of their gates: a closer of any must wait for them.
    #[test]
    fn a_thread_that_never_returned_leaves_no_gates_to_the_next() {
        const MINE: u64 = 1 << 44;
        const OTHER: u64 = 1 << 43;
        // Not among those that other tests' threads are given.
        let thread: &'static Thread = Box::leak(Box::new(Thread::new()));
        let live = move |call: fn()| {
            let body = move || {
                local::set(Some(thread));
                hand_back_at_end(thread);
                call();
            };
            std::thread::spawn(body).join().unwrap();
        };
        live(|| {
            let mut call = super::super::InCall::begin();
            let _ = call.goes_through(OTHER);
            std::mem::forget(call);
        });
        live(|| {
            let _call = super::super::InCall::begin();
            let me = local::get().unwrap();
            assert!(me.busy_at(MINE).is_some(), "no closer waits for this call");
        });
    }

    #[test]
    fn words_return() {
        drop(super::super::InCall::begin());
        let before = lock_briefly(&THREADS).len();
        for _ in 0..50 {
            std::thread::spawn(|| drop(super::super::InCall::begin()))
                .join()
                .unwrap();
        }
        assert!(
            lock_briefly(&THREADS).len() <= before + 16,
            "words are used again"
        );
    }

    #[test]
    fn words_return_although_the_end_of_a_thread_makes_calls() {
        unsafe extern "C" fn call(_: *mut c_void) {
            drop(super::super::InCall::begin());
        }
        drop(super::super::InCall::begin());
        let mut keys = [0; 2];
        for key in &mut keys {
            // SAFETY: makes a key whose destructor looks at no value.
            assert_eq!(unsafe { libc::pthread_key_create(key, Some(call)) }, 0);
        }
        let before = lock_briefly(&THREADS).len();
        for _ in 0..50 {
            let body = move || {
                for key in keys {
                    let value = std::ptr::dangling();
                    // SAFETY: the keys made above; for any value but null the destructor is called.
                    let rc = unsafe { libc::pthread_setspecific(key, value) };
                    assert_eq!(rc, 0);
                }
                drop(super::super::InCall::begin());
            };
            std::thread::spawn(body).join().unwrap();
        }
        assert!(
            lock_briefly(&THREADS).len() <= before + 16,
            "words are used again"
        );
    }

    #[test]
    fn a_marked_stream_has_as_many_calls_as_it_was_given() {
        let thread = Thread::register();
        let stream = 0x5555_0000_1230;
        assert!(!thread.take(stream));
        thread.mark(stream, 2);
        assert!(thread.take(stream) && thread.take(stream) && !thread.take(stream));
        thread.mark(stream, 5);
        assert!(thread.take(stream));
        assert_eq!(thread.evict(stream), Some((stream, 1)));
        assert_eq!(thread.evict(stream), None);
        assert!(!thread.take(stream));
    }

    #[test]
    fn an_empty_place_is_no_streams() {
        let thread = Thread::register();
        // 0 is how C names the default stream.
        for stream in [0, 1, 2] {
            thread.mark(stream, 3);
            assert!(thread.take(stream));
            thread.empty_slots();
            assert!(!thread.take(stream), "{stream} was forgotten");
            thread.mark(stream, 5);
            assert!(thread.take(stream));
            assert_eq!(thread.evict(stream), Some((stream, 1)));
        }
    }

    #[test]
    fn handles_of_any_alignment_spread_over_the_slots() {
        for step in [1usize, 16, 64, 200, 4096, 1 << 20] {
            let mut used = [false; SLOTS];
            for i in 0..4 * SLOTS {
                used[slot_of(0x7f00_0000_0000 + i * step)] = true;
            }
            let used = used.iter().filter(|used| **used).count();
            assert!(used >= SLOTS / 2, "step {step}: {used} slots");
        }
    }
}
