//! The loop of the swap thread.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::reconnect::Found;
use super::{Orphan, Requests};
use crate::agent::{Agent, exit};
use crate::device::Device;
use crate::futex::TICK;
use crate::log::debug;
use crate::signals::Doorbells;

/// How often a deaf thread (see [`Doorbells::is_deaf`]) looks by itself.
const DEAF_TICK: Duration = Duration::from_millis(2);
/// How often the end of an implicit job is looked for, at least and at most.
const IDLE_TICKS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// Works as long as there is a daemon, or memory in the backing store.
pub(super) fn run(agent: &'static Agent, mut bells: Doorbells) {
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
        agent.answer_offers();
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
        let mut waited: Vec<_> = [socket, bells.fd(), agent.wake.fd(), agent.offers.fd()]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if poll(&mut waited, Some(&timeout)).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = orphan.is_none()
            && (socket.is_none()
                || (waited.first().is_some_and(|it| !it.revents().is_empty())
                    && !session.read_notices()));
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
