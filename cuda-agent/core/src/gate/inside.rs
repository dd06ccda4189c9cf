//! Re-entrance. The driver tells profilers and other tools of calls in the thread that makes them, the
//! agent's own calls among them, and tools call the driver in turn: back through the hooks, in a thread
//! that is in the middle of the agent and may hold its locks. A thread is inside the agent while it
//! holds any of them ([`lock`]), and in each call that the agent makes for itself. A hook that finds
//! its thread inside calls the real function; one that puts work on a GPU does so only while that can find its memory
//! (`Agent::enter_inside`), and some are marked to run all the same. Elsewhere, such as in a call of the program's that the
//! agent passes on with no lock held, a hook within a hook is one as any other.
//!
//! The state is the thread's own, in the word that the hot path reads anyway: no other thread looks at
//! it, and it costs the hot path nothing.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::local;
use super::thread::Thread;

/// Keeps the calling thread inside the agent as long as it lives.
#[derive(Debug)]
#[must_use]
pub struct Inside {
    thread: &'static Thread,
    /// The thread that began it ends it.
    _here: PhantomData<*const ()>,
}

impl Inside {
    /// From now on the thread is inside. They nest, and end in any order.
    #[inline]
    pub fn begin() -> Self {
        let thread = local::get().unwrap_or_else(Thread::register);
        thread.step_inside();
        Self {
            thread,
            _here: PhantomData,
        }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.thread.step_outside();
    }
}

/// Whether the calling thread is inside the agent, so that nothing may be asked of that.
pub fn is_inside() -> bool {
    local::get().is_some_and(Thread::is_inside)
}

/// What a lock guards, held by a thread that is inside the agent meanwhile.
#[derive(Debug)]
pub struct Locked<'a, T: ?Sized> {
    // Let go of before the thread is outside.
    guard: MutexGuard<'a, T>,
    _inside: Inside,
}

impl<T: ?Sized> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Locks, also after a panic elsewhere: what the locks of this crate guard is valid at any time.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let inside = Inside::begin();
    Locked {
        guard: lock_briefly(mutex),
        _inside: inside,
    }
}

/// The same where nothing that is called with the lock held calls the driver: no hook can want it
/// meanwhile.
pub(crate) fn lock_briefly<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock_briefly`], where it must not wait. Nothing if another thread holds it.
pub(crate) fn try_lock<T: ?Sized>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(locked) => Some(locked),
        Err(TryLockError::Poisoned(locked)) => Some(locked.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::InCall;
    use super::*;

    #[test]
    fn a_thread_is_inside_until_its_last_lock_is_let_go() {
        let (one, two) = (Mutex::new(1), Mutex::new(2));
        assert!(!is_inside());
        let first = lock(&one);
        let second = lock(&two);
        assert!(is_inside() && *first + *second == 3);
        // Not in the order of nesting.
        drop(first);
        assert!(is_inside());
        drop(second);
        assert!(!is_inside());
        let elsewhere = Inside::begin();
        assert!(!std::thread::spawn(is_inside).join().unwrap());
        drop(elsewhere);
    }

    /// A closer that waits for a call sees that it goes on, whatever the thread does within.
    #[test]
    fn a_call_goes_on_while_its_thread_steps_inside_and_out() {
        const STREAM: usize = 0x7770;
        let call = InCall::begin();
        let me = local::get().unwrap();
        let word = me.busy_at(u64::MAX);
        let inside = Inside::begin();
        assert!(word.is_some() && me.busy_at(u64::MAX) == word && Some(me.word()) == word);
        let nested = InCall::begin();
        assert!(nested.is_nested());
        drop(nested);
        drop(inside);
        assert_eq!(me.busy_at(u64::MAX), word);
        drop(call);
        assert!(me.busy_at(u64::MAX).is_none() && Some(me.word()) != word);
        me.mark(STREAM, 2);
        let _inside = Inside::begin();
        assert!(InCall::enter(STREAM).is_err(), "inside the agent is asked");
        assert!(me.take(STREAM) && me.take(STREAM), "no call was taken");
    }
}
