//! Watching many processes for their death at the cost of one call a look.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::slots::is_alive;

/// The processes that are watched, by the tag of their slot.
///
/// /proc tells the same of one process in ten times the time of this for a hundred, but asks
/// nothing of the process that looks: whoever looks once does so there.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    processes: HashMap<u64, Watched>,
}

#[derive(Debug)]
struct Watched {
    /// Readable from the process's death on, also while it is a zombie (pidfd_open(2)).
    fd: OwnedFd,
    dead: bool,
    /// Whether it was asked for in this look.
    asked: bool,
}

impl Watch {
    /// Begins a look: what died since the last one is known after it.
    pub(super) fn look(&mut self) {
        self.processes.retain(|_, process| process.asked);
        let mut processes: Vec<&mut Watched> = self.processes.values_mut().collect();
        let died: Vec<bool> = {
            let mut polled: Vec<_> = processes
                .iter()
                .map(|process| PollFd::from_borrowed_fd(process.fd.as_fd(), PollFlags::IN))
                .collect();
            // Interrupted, nobody is seen to have died: the next look sees it.
            let _ = poll(&mut polled, Some(&Timespec::default()));
            polled.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        for (process, died) in processes.iter_mut().zip(died) {
            process.dead |= died;
            process.asked = false;
        }
    }

    /// Whether the process that took the slot with `tag` lives. `start_ticks` as [`is_alive`] has it.
    pub(super) fn is_alive(&mut self, tag: u64, pid: u32, start_ticks: u64) -> bool {
        if let Some(process) = self.processes.get_mut(&tag) {
            process.asked = true;
            return !process.dead;
        }
        let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let fd = id.map(|id| pidfd_open(id, PidfdFlags::empty()));
        // Once it is known who has the pid now, the descriptor stays that process's.
        let alive = is_alive(pid, start_ticks);
        if let (true, true, Some(Ok(fd))) = (alive, start_ticks != 0, fd) {
            let process = Watched {
                fd,
                dead: false,
                asked: true,
            };
            self.processes.insert(tag, process);
        }
        alive
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::process_status;
    use super::*;

    #[test]
    fn a_zombie_is_dead_and_who_is_not_asked_for_is_forgotten() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let start = process_status(child.id()).unwrap().start_ticks;
        let mut watch = Watch::default();
        watch.look();
        assert!(watch.is_alive(7, child.id(), start));
        watch.look();
        assert!(watch.is_alive(7, child.id(), start));
        child.kill().unwrap();
        let begun = std::time::Instant::now();
        loop {
            watch.look();
            if !watch.is_alive(7, child.id(), start) {
                break;
            }
            assert!(begun.elapsed().as_secs() < 10, "its death is not seen");
        }
        child.wait().unwrap();
        watch.look();
        watch.look();
        assert!(watch.processes.is_empty());
    }

    #[test]
    fn another_process_with_its_pid_is_not_it() {
        let id = std::process::id();
        let start = process_status(id).unwrap().start_ticks;
        let mut watch = Watch::default();
        assert!(watch.is_alive(1, id, start));
        assert!(!watch.is_alive(2, id, start + 1));
        watch.look();
        assert!(watch.is_alive(1, id, start) && !watch.is_alive(2, id, start + 1));
    }
}
