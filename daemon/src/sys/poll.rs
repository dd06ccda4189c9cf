//! What the dispatch thread waits on: an epoll set with its timer.

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
    /// Each write once, without reading: for what a stranger may hold.
    Edge,
    /// Closed by the other side only.
    Closed,
}

/// An epoll set. Descriptors leave it when they are closed.
#[derive(Debug)]
pub struct Poll {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Time>,
}

/// The timer's own mark among the tokens.
pub const TIMER: u64 = u64::MAX;

impl Poll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        // Edge-triggered, so that it need not be read: it is set anew after each wait.
        epoll::add(
            &epoll,
            &timer,
            EventData::new_u64(TIMER),
            EventFlags::IN | EventFlags::ET,
        )?;
        Ok(Self {
            epoll,
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
        epoll::add(&self.epoll, source, EventData::new_u64(token), flags)
    }

    /// Watches it no more.
    pub fn remove<F: AsFd>(&self, source: F) {
        // It may have been closed by its other end only; absent is as good as removed.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits until something happens or `until` has come, and puts the tokens in `ready`.
    pub fn wait(&mut self, until: Option<Time>, ready: &mut Vec<u64>) -> io::Result<()> {
        if until != self.armed {
            self.arm(until)?;
        }
        let mut room = [const { MaybeUninit::<Event>::uninit() }; 64];
        ready.clear();
        match epoll::wait(&self.epoll, &mut room, None) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| event.data.u64())),
            Err(io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        if ready.contains(&TIMER) {
            self.armed = None;
        }
        Ok(())
    }

    fn arm(&mut self, until: Option<Time>) -> io::Result<()> {
        const NEVER: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // A zero would disarm.
        let value = until.map_or(NEVER, |time| timespec(Time(time.0.max(1))));
        let value = Itimerspec {
            it_interval: NEVER,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value)?;
        self.armed = until;
        Ok(())
    }
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
}
