//! The loop of the swap thread.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::reconnect::Found;
use super::{Orphan, Requests};
use crate::agent::{Agent, exit};
use crate::device::Device;
use crate::futex::TICK;
use crate::log::debug;
use crate::session::Mark;
use crate::signals::{Doorbells, block_all, restore};

/// How often a deaf thread (see [`Doorbells::is_deaf`]) looks by itself.
const DEAF_TICK: Duration = Duration::from_millis(2);
/// How often the end of an implicit job is looked for, at least and at most.
const IDLE_TICKS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// How long a thread may take to start.
const START_BOUND: Duration = Duration::from_secs(5);

/// A swap thread that has no session yet.
#[derive(Debug)]
pub struct Started {
    /// Its id in this process's PID namespace.
    pub tid: u32,
    /// Its pidfd, where the kernel has one for threads.
    pub pidfd: Option<OwnedFd>,
    /// Its descriptors.
    pub marks: Vec<Mark>,
    agent: mpsc::Sender<&'static Agent>,
}

impl Started {
    /// Lets it work. Without this it ends.
    pub fn attach(self, agent: &'static Agent) {
        // It waits for this as long as `self` lives.
        let _ = self.agent.send(agent);
    }
}

/// Starts the thread; it waits until it is attached, all signals blocked from its first
/// instruction on.
pub fn spawn() -> std::io::Result<Started> {
    let (started, ready) = mpsc::channel();
    let (agent, attached) = mpsc::channel::<&'static Agent>();
    let before = block_all()?;
    let spawned = std::thread::Builder::new()
        .name("rtswap-swap".into())
        .spawn(move || {
            let bells = Doorbells::new();
            let told = match &bells {
                Ok(bells) => Ok((rustix::thread::gettid(), bells.marks().collect())),
                Err(error) => Err(std::io::Error::from(error.kind())),
            };
            if started.send(told).is_ok()
                && let (Ok(bells), Ok(agent)) = (bells, attached.recv())
            {
                run(agent, bells);
            }
        });
    restore(&before);
    spawned?;
    let gone = |_| std::io::Error::from(std::io::ErrorKind::TimedOut);
    let (tid, marks) = ready.recv_timeout(START_BOUND).map_err(gone)??;
    Ok(Started {
        tid: tid.as_raw_nonzero().get().cast_unsigned(),
        pidfd: pidfd_of_thread(tid.as_raw_nonzero().get()),
        marks,
        agent,
    })
}

fn pidfd_of_thread(tid: i32) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: makes a descriptor; PIDFD_THREAD is O_EXCL.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, libc::O_EXCL) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: a new descriptor that nobody else owns.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn run(agent: &'static Agent, mut bells: Doorbells) {
    // A thread without this could break a capture of the program by a query. Drivers without
    // captures need no leave.
    exit::take_driver();
    if let Err(status) = agent.driver.relax_capture_mode() {
        debug(format_args!("the capture mode stays strict: {status:?}"));
    }
    let mut requests: Vec<Requests> = agent.devices.iter().map(|_| Requests::default()).collect();
    let mut orphan: Option<Orphan> = None;
    loop {
        let session = agent.session();
        exit::take_driver();
        for (requests, device) in requests.iter_mut().zip(&agent.devices) {
            if orphan.is_none() {
                requests.serve(agent, device);
            } else if device.runs_undeclared() {
                device.end_if_idle(&agent.work, session.idle_gap);
            }
            if !device.runs() {
                agent.collect(device);
            }
        }
        if let Some(looking) = &mut orphan {
            match looking.look(agent) {
                Found::Nobody => {}
                Found::Daemon => {
                    orphan = None;
                    requests.iter_mut().for_each(Requests::reset);
                    continue;
                }
                Found::Alone => {
                    exit::leave_driver();
                    return;
                }
            }
        }
        exit::leave_driver();
        let timeout = if bells.is_deaf() {
            DEAF_TICK
        } else if agent.devices.iter().any(Device::runs_undeclared) {
            (session.idle_gap / 2).clamp(IDLE_TICKS.0, IDLE_TICKS.1)
        } else {
            TICK
        };
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // A program that closed our descriptors leaves the clock. The socket comes first.
        let socket = session.socket().filter(|_| orphan.is_none());
        let mut waited: Vec<_> = [socket, bells.fd(), agent.wake.fd()]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if poll(&mut waited, Some(&timeout)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = orphan.is_none()
            && (socket.is_none() || waited.first().is_some_and(|it| !it.revents().is_empty()));
        drop(waited);
        agent.wake.clear();
        bells.take(session.cookie);
        if ended {
            debug(format_args!("the daemon is gone"));
            session.set_lost();
            orphan = Some(Orphan::begin());
        }
    }
}
