//! The child of a fork: the agent is its parent's.

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use super::{AGENT, Agent};
use crate::gate::{self, try_lock};

/// In the child of a fork: it has no agent. Only async-signal-safe calls.
pub(super) extern "C" fn leave_child() {
    let agent = AGENT.swap(null_mut(), Ordering::AcqRel);
    // SAFETY: as in `agent`.
    let Some(agent) = (unsafe { agent.as_ref() }) else {
        return;
    };
    for device in &agent.devices {
        gate::open(device.bit);
    }
    agent.close_descriptors();
}

impl Agent {
    /// Closes the child's copies of our descriptors.
    fn close_descriptors(&self) {
        // A thread of the parent may have held the lock: then the child keeps copies that do no harm.
        if let Some(marks) = try_lock(&self.marks) {
            marks.iter().for_each(|mark| mark.close());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::bench;
    use crate::gate::lock;

    /// Which of our descriptors the child of a fork still has once it left the agent: none, or all.
    fn left_in_child(agent: &'static Agent) -> bool {
        // SAFETY: the child makes async-signal-safe calls only, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            agent.close_descriptors();
            let marks = try_lock(&agent.marks);
            let left = marks.is_none_or(|marks| marks.iter().any(|mark| mark.is_ours()));
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(left)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFEXITED(status), "{status}");
        libc::WEXITSTATUS(status) != 0
    }

    #[test]
    fn the_child_of_a_fork_closes_our_descriptors_although_a_thread_panicked() {
        let bench = bench("poisoned", |_| ());
        let agent = bench.agent;
        assert!(!left_in_child(agent));
        std::thread::scope(|scope| {
            let held = lock(&agent.marks);
            assert!(!held.is_empty());
            assert!(left_in_child(agent), "another thread changes the list");
            drop(held);
            let panics = scope.spawn(|| {
                let _held = lock(&agent.marks);
                panic!("as a thread does that holds the lock");
            });
            assert!(panics.join().is_err());
        });
        assert!(agent.marks.is_poisoned());
        assert!(!left_in_child(agent), "a poisoned lock is held by nobody");
    }
}
