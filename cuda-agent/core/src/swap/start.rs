//! Starting the swap thread, which waits until there is a session for it.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::detached::spawn_detached;
use super::thread::run;
use crate::agent::Agent;
use crate::futex::{TICK, wait_change, wake_all};
use crate::gate::lock_briefly;
use crate::session::Mark;
use crate::signals::Doorbells;

/// How long the thread may take to start.
const START_BOUND: Duration = Duration::from_secs(5);

// How far it is.
const STARTING: u32 = 0;
const READY: u32 = 1;
const ATTACHED: u32 = 2;
const GIVEN_UP: u32 = 3;

/// A thread's id and descriptors, or why it has none.
type Told = std::io::Result<(u32, Vec<Mark>)>;

/// What the thread and the one that starts it share.
#[derive(Debug, Default)]
struct Handover {
    phase: AtomicU32,
    told: Mutex<Option<Told>>,
    agent: AtomicPtr<Agent>,
}

impl Handover {
    fn go_to(&self, phase: u32) {
        self.phase.store(phase, Ordering::Release);
        wake_all(&self.phase);
    }

    /// Waits until it is no longer in `phase`, at most `bound`. Whether it is not.
    fn leaves(&self, phase: u32, bound: Option<Duration>) -> bool {
        let start = Instant::now();
        while self.phase.load(Ordering::Acquire) == phase {
            if bound.is_some_and(|bound| start.elapsed() > bound) {
                return false;
            }
            wait_change(&self.phase, phase, TICK);
        }
        true
    }
}

/// A swap thread that has no session yet.
#[derive(Debug)]
pub struct Started {
    /// Its id in this process's PID namespace.
    pub tid: u32,
    /// Its pidfd, where the kernel has one for threads.
    pub pidfd: Option<OwnedFd>,
    /// Its descriptors.
    pub marks: Vec<Mark>,
    handover: Arc<Handover>,
}

impl Started {
    /// Lets it work. Without this it ends.
    pub fn attach(self, agent: &'static Agent) {
        let agent = std::ptr::from_ref(agent).cast_mut();
        self.handover.agent.store(agent, Ordering::Release);
        self.handover.go_to(ATTACHED);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.handover.phase.load(Ordering::Acquire) == READY {
            self.handover.go_to(GIVEN_UP);
        }
    }
}

/// Starts the thread; it waits until it is attached, all signals blocked from its first
/// instruction on.
pub fn spawn() -> std::io::Result<Started> {
    let handover = Arc::new(Handover::default());
    let theirs = Arc::clone(&handover);
    spawn_detached(c"rtswap-swap", move || live(&theirs))?;
    let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    if !handover.leaves(STARTING, Some(START_BOUND)) {
        handover.go_to(GIVEN_UP);
        return Err(timed_out());
    }
    let told = lock_briefly(&handover.told).take();
    let (tid, marks) = told.ok_or_else(timed_out)??;
    Ok(Started {
        tid,
        pidfd: pidfd_of_thread(tid),
        marks,
        handover,
    })
}

fn live(handover: &Handover) {
    let made = Doorbells::new();
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    let (bells, told) = match made {
        Ok(bells) => {
            let marks = bells.marks().collect();
            (Some(bells), Ok((tid.cast_unsigned(), marks)))
        }
        Err(error) => (None, Err(error)),
    };
    *lock_briefly(&handover.told) = Some(told);
    let starting =
        handover
            .phase
            .compare_exchange(STARTING, READY, Ordering::AcqRel, Ordering::Acquire);
    if starting.is_err() {
        return;
    }
    wake_all(&handover.phase);
    handover.leaves(READY, None);
    // SAFETY: null, or an agent, which lives as long as the process.
    let agent = unsafe { handover.agent.load(Ordering::Acquire).as_ref() };
    if let (Some(bells), Some(agent)) = (bells, agent) {
        run(agent, bells);
    }
}

fn pidfd_of_thread(tid: u32) -> Option<OwnedFd> {
    // SAFETY: makes a descriptor; PIDFD_THREAD is O_EXCL.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, libc::O_EXCL) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: a new descriptor that nobody else owns.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
