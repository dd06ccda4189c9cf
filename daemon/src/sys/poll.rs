//! The epoll set of the dispatch thread, with its timer, and with a set of its own for processes.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rtswap_policy::units::Time;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::clock::timespec;

/// How a descriptor is watched.
#[derive(Clone, Copy, Debug)]
pub enum Watch {
    /// Readable or closed.
    Readable,
    /// Written: each write wakes once, and the descriptor is never read. For eventfds that a program holds,
    /// which could fill or drain them.
    Edge,
    /// Closed by the other side only.
    Closed,
}

/// An epoll set, with another one inside for processes. A descriptor leaves it when its last copy is closed.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    /// The pidfds, in a set of their own, so that deaths can be taken before all other events.
    processes: OwnedFd,
    timer: OwnedFd,
    armed: Option<Time>,
}

/// The token of the timer.
pub const TIMER: u64 = u64::MAX;

/// The token of the set of processes: some have ended, see [`Poll::ended`].
pub const PROCESSES: u64 = u64::MAX - 1;

/// The most events that one system call returns.
const AT_ONCE: usize = 64;

impl Poll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let processes = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        // Edge-triggered, so that it need not be read: each wait sets it again.
        add(&epoll, &timer, TIMER, EventFlags::IN | EventFlags::ET)?;
        add(&epoll, &processes, PROCESSES, EventFlags::IN)?;
        Ok(Self {
            epoll,
            processes,
            timer,
            armed: None,
        })
    }

    /// Watches `source` under the name `token`.
    pub fn add<F: AsFd>(&self, source: F, token: u64, watch: Watch) -> io::Result<()> {
        let flags = match watch {
            Watch::Readable => EventFlags::IN | EventFlags::RDHUP,
            Watch::Edge => EventFlags::IN | EventFlags::ET,
            Watch::Closed => EventFlags::empty(),
        };
        add(&self.epoll, source, token, flags)
    }

    /// Stops watching `source`.
    pub fn remove<F: AsFd>(&self, source: F) {
        // An error means that it is not in the set, which is as good.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Watches the process behind `pidfd` under the name `token`.
    pub fn add_process<F: AsFd>(&self, pidfd: F, token: u64) -> io::Result<()> {
        add(&self.processes, pidfd, token, EventFlags::IN)
    }

    /// Stops watching the process behind `pidfd`.
    pub fn remove_process<F: AsFd>(&self, pidfd: F) {
        // As above.
        let _ = epoll::delete(&self.processes, pidfd);
    }

    /// The tokens of processes that have ended by now, without waiting. A process is returned again until
    /// it is removed.
    pub fn ended(&self) -> io::Result<Vec<u64>> {
        let mut ended = Vec::new();
        take(&self.processes, Some(&Timespec::default()), &mut ended)?;
        Ok(ended)
    }

    /// Waits until something happens or `until` has come, and puts the tokens in `ready`. It may also
    /// end early, as if `until` had come: the timer is set only where it would ring too late, so that
    /// a time that moves on with each grant costs no system call.
    pub fn wait(&mut self, until: Option<Time>, ready: &mut Vec<u64>) -> io::Result<()> {
        if let Some(until) = until
            && self.armed.is_none_or(|armed| until < armed)
        {
            self.arm(until)?;
        }
        take(&self.epoll, None, ready)?;
        if ready.contains(&TIMER) {
            self.armed = None;
        }
        Ok(())
    }

    fn arm(&mut self, until: Time) -> io::Result<()> {
        let value = Itimerspec {
            it_interval: Timespec::default(),
            // Zero would disarm the timer.
            it_value: timespec(Time(until.0.max(1))),
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.armed = Some(until);
        Ok(())
    }
}

fn add<F: AsFd>(set: &OwnedFd, source: F, token: u64, flags: EventFlags) -> io::Result<()> {
    epoll::add(set, source, EventData::new_u64(token), flags)
}

/// Waits at most `timeout`, and puts the tokens of what is ready in `ready`.
fn take(set: &OwnedFd, timeout: Option<&Timespec>, ready: &mut Vec<u64>) -> io::Result<()> {
    let mut room = [const { MaybeUninit::<Event>::uninit() }; AT_ONCE];
    ready.clear();
    match epoll::wait(set, &mut room, timeout) {
        Ok((events, _)) => ready.extend(events.iter().map(|event| event.data.u64())),
        Err(io::Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::{millis, now};
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn timer_edges_and_ends_are_told() {
        let mut poll = Poll::new().unwrap();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        poll.add(&bell, 1, Watch::Edge).unwrap();
        poll.add(&reader, 2, Watch::Closed).unwrap();
        let mut ready = Vec::new();
        let due = now() + millis(5);
        poll.wait(Some(due), &mut ready).unwrap();
        assert_eq!(ready, [TIMER]);
        assert!(now() >= due);
        for _ in 0..2 {
            rustix::io::write(&bell, &1_u64.to_ne_bytes()).unwrap();
            poll.wait(Some(now() + millis(5000)), &mut ready).unwrap();
            assert_eq!(ready, [1], "each write once, although nobody reads");
        }
        rustix::io::write(&writer, b"x").unwrap();
        poll.wait(Some(now() + millis(5)), &mut ready).unwrap();
        assert_eq!(ready, [TIMER], "data is no end");
        drop(writer);
        poll.wait(Some(now() + millis(5000)), &mut ready).unwrap();
        assert_eq!(ready, [2]);
    }

    #[test]
    fn a_timer_that_is_set_early_enough_stays() {
        let mut poll = Poll::new().unwrap();
        let mut ready = Vec::new();
        let (first, later) = (now() + millis(5), now() + millis(600_000));
        poll.wait(Some(first), &mut ready).unwrap();
        let first = now() + millis(5);
        poll.arm(first).unwrap();
        poll.wait(Some(later), &mut ready).unwrap();
        assert_eq!(ready, [TIMER], "the earlier time was not given up");
        assert!(now() >= first);
        poll.arm(now() + millis(600_000)).unwrap();
        poll.wait(Some(now() + millis(5)), &mut ready).unwrap();
        assert_eq!(ready, [TIMER], "but a time before it is set");
    }

    #[test]
    fn ended_processes_are_told_of_until_they_are_removed() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is there");
        let pidfd = crate::sys::peer::open_process(child.id()).unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add_process(&pidfd, 7).unwrap();
        assert_eq!(poll.ended().unwrap(), Vec::<u64>::new());
        child.kill().unwrap();
        let mut ready = Vec::new();
        poll.wait(Some(now() + millis(5000)), &mut ready).unwrap();
        assert_eq!(ready, [PROCESSES]);
        assert_eq!(poll.ended().unwrap(), [7]);
        assert_eq!(poll.ended().unwrap(), [7]);
        poll.remove_process(&pidfd);
        assert_eq!(poll.ended().unwrap(), Vec::<u64>::new());
        child.wait().unwrap();
    }
}
