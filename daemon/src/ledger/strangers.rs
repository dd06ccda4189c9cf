//! Processes without an agent: nobody speaks for them, so what they hold is `untracked`.

use std::collections::BTreeSet;

use rtswap_policy::units::Bytes;

use super::account::Account;
use super::finding::Finding;
use super::witness::Disagreement;
use crate::source::gpu::ProcessSample;

impl Account {
    /// The processes of the last look that no agent speaks for.
    pub fn strangers(&self) -> impl Iterator<Item = &ProcessSample> {
        let shown = self.last.iter().flat_map(|last| &last.processes);
        // Where NVML numbers processes by another namespace, nobody can tell who is one.
        let known = !self.shared && self.blind == 0;
        shown.filter(move |process| known && !self.managed.contains_key(&process.pid))
    }

    /// Whether that process is one that holds more than a context may be.
    pub(super) fn untracked(&self, pid: u32) -> Option<Disagreement> {
        let stranger = self.strangers().find(|process| process.pid == pid)?;
        let holds = stranger.bytes.unwrap_or_default();
        (holds > self.terms.floor()).then_some(Disagreement::Untracked)
    }

    /// Tells of those that a look showed first.
    pub(super) fn meet(&mut self, awaited: &BTreeSet<u32>) -> Vec<Finding> {
        let floor = self.terms.floor();
        let holds = |process: &ProcessSample| process.bytes.unwrap_or_default();
        let here: Vec<(u32, Bytes)> = self
            .strangers()
            .filter(|process| holds(process) > floor && !awaited.contains(&process.pid))
            .map(|process| (process.pid, holds(process)))
            .collect();
        self.strangers
            .retain(|pid| here.iter().any(|(other, _)| other == pid));
        let new = here
            .into_iter()
            .filter(|(pid, _)| self.strangers.insert(*pid));
        new.map(|(pid, nvml)| Finding::Unmanaged { pid, nvml })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rtswap_policy::units::Time;

    use super::*;
    use crate::ledger::account::tests::{process, sample};
    use crate::ledger::{Claim, Terms};

    const MIB: u64 = 1 << 20;

    fn look(account: &mut Account, shown: &[(u32, u64)], managed: &[u32]) -> Vec<Finding> {
        let shown: Vec<_> = shown.iter().map(|&(pid, mib)| process(pid, mib)).collect();
        let claim = Claim {
            agent: Some(Bytes(20 * MIB)),
            held: Bytes(20 * MIB),
        };
        let claims: BTreeMap<_, _> = managed.iter().map(|pid| (*pid, claim)).collect();
        account.reconcile(Time(0), sample(64, &shown), &claims, &BTreeSet::from([7]))
    }

    #[test]
    fn who_holds_memory_without_an_agent_is_untracked() {
        let mut account = Account::new(Terms {
            memory: Bytes(64 * MIB),
            reserve: Bytes::ZERO,
            chunk: Bytes(2 * MIB),
        });
        let met = |pid, mib| Finding::Unmanaged {
            pid,
            nvml: Bytes(mib * MIB),
        };
        // A bare context, one that is awaited, and one with an agent are none.
        let shown = [(5, 20), (6, 2), (7, 10), (8, 9)];
        assert_eq!(look(&mut account, &shown, &[5]), [met(8, 9)]);
        assert_eq!(look(&mut account, &shown, &[5]), [], "said once");
        let named = |account: &Account, pid| account.disagreement(pid);
        assert_eq!(named(&account, 8), Some(Disagreement::Untracked));
        assert_eq!(named(&account, 6), None, "a context is noise");
        assert_eq!(named(&account, 5), None);
        // It is gone, and another of its number comes.
        assert_eq!(look(&mut account, &[(5, 20)], &[5]), []);
        assert_eq!(named(&account, 8), None);
        assert_eq!(look(&mut account, &shown, &[5]), [met(8, 9)]);
    }
}
