//! The identities of the processes on the GPUs, kept from one NVML sample to the next: a pidfd tells
//! that a process is still the same one, and costs far less than reading /proc.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rtswap_engine::sample::Identity;

use super::identify;
use crate::sys::peer::{has_ended, have_ended, open_process};

/// How long an identity read from /proc is used for a living process: the process may execute another
/// program, or change its user.
const FRESH: Duration = Duration::from_secs(10);

struct Known {
    pidfd: OwnedFd,
    identity: Identity,
    read: Instant,
    /// The process is in the current sample.
    seen: bool,
}

#[derive(Default)]
pub(super) struct Identities {
    known: BTreeMap<u32, Known>,
}

impl Identities {
    /// Begins a sample of all GPUs: forgets processes that have ended, or were not in the last sample.
    pub(super) fn begin(&mut self) {
        let ended = have_ended(self.known.values().map(|known| &known.pidfd));
        let mut ended = ended.into_iter();
        self.known.retain(|_, known| {
            let ended = ended.next().unwrap_or(true);
            std::mem::take(&mut known.seen) && !ended
        });
    }

    /// The identity of the process `pid`; none once it is gone.
    pub(super) fn of(&mut self, pid: u32) -> Option<Identity> {
        if let Some(known) = self.known.get_mut(&pid)
            && known.read.elapsed() < FRESH
        {
            known.seen = true;
            return Some(known.identity.clone());
        }
        let pidfd = open_process(pid);
        let read = Instant::now();
        let identity = identify(pid)?;
        // If the pidfd's process still lives, then all that was read since it was opened is that
        // process's own, and not of a later one with its pid.
        if let Some(pidfd) = pidfd.filter(|pidfd| !has_ended(pidfd)) {
            let known = Known {
                pidfd,
                identity: identity.clone(),
                read,
                seen: true,
            };
            self.known.insert(pid, known);
        }
        Some(identity)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_living_process_is_remembered_while_it_is_in_the_samples() {
        let mut identities = Identities::default();
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        let mut child = child.expect("cat is there");
        let (own, pid) = (std::process::id(), child.id());
        identities.begin();
        let first = identities.of(pid).expect("it lives");
        assert_eq!(identities.of(own), identify(own));
        let read = identities.known[&pid].read;
        identities.begin();
        assert_eq!(identities.of(pid).as_ref(), Some(&first));
        assert_eq!(identities.known[&pid].read, read, "not read again");
        identities.begin();
        let ids: Vec<_> = identities.known.keys().collect();
        assert_eq!(ids, [&pid], "the other was not seen");
        child.kill().unwrap();
        child.wait().unwrap();
        identities.begin();
        assert!(identities.known.is_empty());
        assert_eq!(identities.of(pid), None);
    }

    #[test]
    fn what_was_read_long_ago_is_read_again() {
        let mut identities = Identities::default();
        let own = std::process::id();
        identities.of(own);
        let known = identities.known.get_mut(&own).expect("remembered");
        known.identity.comm = "former".into();
        assert_eq!(identities.of(own).unwrap().comm, "former");
        let long_ago = Instant::now().checked_sub(FRESH);
        identities.known.get_mut(&own).unwrap().read = long_ago.expect("an old machine");
        assert_ne!(identities.of(own).unwrap().comm, "former");
    }
}
