//! How root becomes an ordinary user that nobody waits for.

use std::io;

use anyhow::{Result, ensure};
use rustix::process::{Resource, Rlimit, setrlimit};

/// What a user has without asking: descriptors, processes, locked memory, and no core file.
const LIMITS: [(Resource, u64, u64); 4] = [
    (Resource::Nofile, 1_024, 4_096),
    (Resource::Nproc, 256, 256),
    (Resource::Memlock, 8 << 20, 8 << 20),
    (Resource::Core, 0, 0),
];

/// Gives everything up. The process runs only when no other wants to, and ends with its parent.
pub(crate) fn become_user(user: u32) -> Result<()> {
    rustix::process::setsid()?;
    for (resource, current, maximum) in LIMITS {
        let limit = Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        };
        setrlimit(resource, limit)?;
    }
    // SAFETY: plain calls that change this process's own credentials and attributes; the pointers are to locals, and
    // there is one thread.
    let results = unsafe {
        let idle: libc::sched_param = std::mem::zeroed();
        let mut doorbells: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut doorbells);
        libc::sigaddset(&raw mut doorbells, libc::SIGUSR1);
        libc::sigaddset(&raw mut doorbells, libc::SIGUSR2);
        [
            // Doorbells are for a thread that there is none of here: they would end the process.
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const doorbells, std::ptr::null_mut()),
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const idle),
            libc::setgroups(0, std::ptr::null()),
            libc::setresgid(user, user, user),
            libc::setresuid(user, user, user),
            // A program that a user starts may be looked at by that user; changing users took it back.
            libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0),
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0),
        ]
    };
    ensure!(
        results.iter().all(|result| *result >= 0),
        "cannot become user {user}: {results:?}, {}",
        io::Error::last_os_error()
    );
    Ok(())
}

/// Runs `act` in a child process, and returns the child's pid.
pub(crate) fn fork(act: impl FnOnce()) -> Result<i32> {
    // SAFETY: an attacker has one thread, so that its child may do anything.
    let child = unsafe { libc::fork() };
    ensure!(
        child >= 0,
        "no process to be had: {}",
        io::Error::last_os_error()
    );
    if child == 0 {
        act();
        // SAFETY: ends the child without the parent's destructors.
        unsafe { libc::_exit(0) };
    }
    Ok(child)
}

/// Waits for a child's end.
pub(crate) fn reap(child: i32) {
    let mut status = 0;
    // SAFETY: the status is written to a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
}

/// Sends a signal to a process; it may have ended.
pub(crate) fn signal(pid: i32, signal: i32) {
    // SAFETY: a plain call.
    unsafe { libc::kill(pid, signal) };
}
