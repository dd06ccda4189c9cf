//! Memory for dividing bytes among processes, kept so that steady state allocates nothing.

use alloc::vec::Vec;

use rtswap_policy::units::Bytes;

use super::process::Process;

/// An amount being divided among the processes, which are named by their index.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The processes that get something, in the order in which they get it.
    pub(super) order: Vec<usize>,
    /// Each process's share, also of those that are not in `order`.
    pub(super) shares: Vec<Bytes>,
    /// What is not given to anyone yet.
    pub(super) rest: Bytes,
}

impl Scratch {
    /// Begins to divide `rest` among the processes that are present, beside the `share` that each has.
    pub(super) fn begin(
        &mut self,
        rest: Bytes,
        processes: &[Process],
        share: impl Fn(&Process) -> Bytes,
    ) {
        self.rest = rest;
        self.shares.clear();
        self.shares.extend(processes.iter().map(share));
        self.order.clear();
        let present = (0..processes.len()).filter(|at| processes[*at].is_present());
        self.order.extend(present);
    }

    /// Raises one share to `up_to` as far as the rest suffices.
    pub(super) fn raise(&mut self, at: usize, up_to: Bytes) {
        let more = up_to.saturating_sub(self.shares[at]).min(self.rest);
        self.shares[at] += more;
        self.rest -= more;
    }

    /// Raises shares in order, each to what `up_to` says of it.
    pub(super) fn raise_each(&mut self, up_to: impl Fn(usize) -> Bytes) {
        for turn in 0..self.order.len() {
            let at = self.order[turn];
            self.raise(at, up_to(at));
        }
    }
}
