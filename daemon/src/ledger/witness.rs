//! One managed process: what is claimed for it between two looks, and how it stands to what the
//! driver shows.

use std::fmt;

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::finding::Finding;
use super::probed::{self, Entry};

/// How long an agent must say more than there is, or the truth again, before it is said: it takes from
/// its budget first, and then makes gibibytes chunk by chunk. That it says less is no such case.
pub(super) const LASTING: Nanos = Nanos(2_000_000_000);

/// What is known of a managed process on the GPU, at the time of a look or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What its agent says that it holds; none once it is dead.
    pub agent: Option<Bytes>,
    /// What its scheduler counts for it: its budget, or what is dying.
    pub held: Bytes,
}

impl Claim {
    /// As well as what is known of another holder of the same number.
    pub fn add(&mut self, other: Self) {
        self.held += other.held;
        self.agent = match (self.agent, other.agent) {
            (Some(one), Some(another)) => Some(one + another),
            (one, another) => one.or(another),
        };
    }
}

/// How an agent's account differs from the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// The driver shows memory, the agent knows of none.
    Untracked,
    /// The agent says more than there is.
    Overreport,
    /// The agent says less than there is.
    Underreport,
    /// The driver shows more than the agent says, but no known call of the process took that memory.
    /// It may be variables and code of modules, a larger context, or older than the probes. This does
    /// not prove that the agent lies.
    Unaccounted,
    /// What the process held before the probes came is not known.
    BaselineUnknown,
}

impl Disagreement {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untracked => "untracked",
            Self::Overreport => "overreport",
            Self::Underreport => "underreport",
            Self::Unaccounted => "unaccounted",
            Self::BaselineUnknown => "baseline-unknown",
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the probes tell of a process on a GPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted<'a> {
    /// Whether they count at all.
    pub(super) are_on: bool,
    /// The process's account; none where they have not seen it yet.
    pub(super) entry: Option<&'a Entry>,
}

/// The values that something had since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Range {
    pub(super) low: Bytes,
    pub(super) high: Bytes,
}

impl Range {
    fn at(bytes: Bytes) -> Self {
        Self {
            low: bytes,
            high: bytes,
        }
    }

    pub(super) fn widen(&mut self, bytes: Bytes) {
        self.low = self.low.min(bytes);
        self.high = self.high.max(bytes);
    }
}

/// What is kept of a managed process from one look to the next.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) agent: Range,
    pub(super) held: Range,
    /// What the agent said since the probes' last sample.
    heard: Range,
    /// What the looks say, and since when: to be named if it lasts.
    suspected: Option<(Time, Option<Disagreement>)>,
    named: Option<Disagreement>,
    /// The driver shows more than the agent says by now, and nothing has come of it yet.
    doubted: bool,
    /// The same, by what the probes count.
    suspected_counted: Option<(Time, Option<Disagreement>)>,
    named_counted: Option<Disagreement>,
    /// What the driver showed at the last look beyond what was held.
    excess: Bytes,
    /// What of that counts, because two looks showed it.
    told: Bytes,
}

impl Witness {
    /// Begins with what is claimed now.
    pub(super) fn new(claim: &Claim) -> Self {
        let mut witness = Self::default();
        witness.settle(claim);
        witness.settle_counted(claim);
        witness
    }

    /// How it differs; by the probes first, who know it first.
    pub(super) fn disagreement(&self) -> Option<Disagreement> {
        self.named_counted.or(self.named)
    }

    /// Whether another look should tell soon.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// What of it is counted elsewhere: what is held for it. But of one that says less than it has, lie or
    /// not, only what it says: else it could fill up what it seems not to use, besides what is not said.
    fn accounted(&self) -> Bytes {
        if is_less(self.disagreement()) {
            self.held.high.min(self.agent.high)
        } else {
            self.held.high
        }
    }

    /// The agent says so much now.
    pub(super) fn says(&mut self, bytes: Bytes) {
        self.agent.widen(bytes);
        self.heard.widen(bytes);
    }

    /// What is claimed now may have been true at the look.
    pub(super) fn widen(&mut self, claim: &Claim) {
        self.held.widen(claim.held);
        self.says(claim.agent.unwrap_or_default());
    }

    /// A look is done: from now on counts what is claimed now.
    pub(super) fn settle(&mut self, claim: &Claim) {
        self.held = Range::at(claim.held);
        self.agent = Range::at(claim.agent.unwrap_or_default());
    }

    /// A sample of the probes is taken: from now on counts what is claimed now.
    pub(super) fn settle_counted(&mut self, claim: &Claim) {
        self.heard = Range::at(claim.agent.unwrap_or_default());
    }

    /// What the probes count beyond what is held for it, and a look did not show.
    pub(super) fn exceeds_counted(&self, counted: Bytes, floor: Bytes) -> Bytes {
        let excess = counted.saturating_sub(self.accounted());
        if excess > floor {
            excess.saturating_sub(self.told)
        } else {
            Bytes::ZERO
        }
    }

    /// Names what an agent does not say of what the probes count, where that lasts.
    pub(super) fn count(
        &mut self,
        now: Time,
        pid: u32,
        counted: Bytes,
        agent: Bytes,
        floor: Bytes,
    ) -> Option<Finding> {
        let high = self.heard.high;
        let differs = (counted > high + floor).then_some(if high == Bytes::ZERO {
            Disagreement::Untracked
        } else {
            Disagreement::Underreport
        });
        let before = self
            .suspected_counted
            .filter(|(_, before)| *before == differs);
        let (since, _) = *self
            .suspected_counted
            .insert(before.unwrap_or((now, differs)));
        if differs == self.named_counted || now - since < probed::LASTING {
            return None;
        }
        let before = self.disagreement();
        self.named_counted = differs;
        let named = self.disagreement();
        (named != before).then_some(Finding::Counted {
            pid,
            disagreement: named,
            counted,
            agent,
        })
    }

    /// What the driver shows beyond what is held for it, where two looks show it; of one that is known
    /// to say less than it has, at once.
    pub(super) fn exceeds(&mut self, nvml: Bytes, floor: Bytes) -> Bytes {
        let excess = nvml.saturating_sub(self.accounted());
        let before = std::mem::replace(&mut self.excess, excess);
        let lasting = if is_less(self.disagreement()) {
            excess
        } else {
            excess.min(before)
        };
        self.told = if lasting > floor {
            lasting
        } else {
            Bytes::ZERO
        };
        self.told
    }

    /// Names a difference that lasts. What the driver shows is no lie of the agent's where the probes bear
    /// it out, or came too late to tell.
    pub(super) fn compare(
        &mut self,
        now: Time,
        pid: u32,
        (nvml, probed): (Bytes, &Counted<'_>),
        agent: Bytes,
        floor: Bytes,
    ) -> Option<Finding> {
        let Range { low, high } = self.agent;
        let tolerance = floor.max(Bytes(nvml.max(high).0 / 64));
        let given = probed.entry.and_then(Entry::all_given);
        let is_unproven = match given {
            Some(given) => given <= high + floor,
            None => probed.entry.is_some_and(|entry| entry.now.early),
        };
        let is_given = |entry: &Entry| entry.now.exact && low <= entry.now.bytes + tolerance;
        let differs = if nvml > high + tolerance {
            Some(if is_unproven {
                Disagreement::Unaccounted
            } else if high == Bytes::ZERO {
                Disagreement::Untracked
            } else {
                Disagreement::Underreport
            })
        } else if low > nvml + tolerance && !probed.entry.is_some_and(is_given) {
            Some(Disagreement::Overreport)
        } else {
            None
        };
        let before = self.suspected.filter(|(_, before)| *before == differs);
        let (since, _) = *self.suspected.insert(before.unwrap_or((now, differs)));
        // A process that allocates nothing is read of late by the probes, and they may bear it out yet.
        let awaited = probed.are_on && given.is_none();
        let lasting = if is_less(differs) && !awaited {
            probed::LASTING
        } else {
            LASTING
        };
        let lasts = now - since >= lasting;
        self.doubted = nvml > agent + tolerance && !is_less(self.named) && !lasts;
        if differs == self.named || !lasts {
            return None;
        }
        let before = self.disagreement();
        self.named = differs;
        let named = self.disagreement();
        (named != before).then_some(Finding::Named {
            pid,
            disagreement: named,
            nvml,
            agent,
        })
    }
}

/// Whether the agent's account is less than there is, lie or not.
fn is_less(named: Option<Disagreement>) -> bool {
    matches!(
        named,
        Some(Disagreement::Underreport | Disagreement::Untracked | Disagreement::Unaccounted)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_one_number_holds_the_sum() {
        let claim = |agent: Option<u64>, held| Claim {
            agent: agent.map(Bytes),
            held: Bytes(held),
        };
        let mut all = claim(None, 8);
        all.add(claim(Some(3), 4));
        all.add(claim(Some(1), 2));
        assert_eq!(all, claim(Some(4), 14), "a dead one has no agent");
    }

    const MIB: u64 = 1 << 20;

    /// One look of NVML at process 5, which is held to `held` MiB; whether something is named then, and
    /// what counts besides what it is held to.
    fn look(witness: &mut Witness, ms: u64, [nvml, agent, held]: [u64; 3]) -> (bool, u64) {
        let (now, bytes) = (Time(ms * 1_000_000), |mib| Bytes(mib * MIB));
        let claim = Claim {
            agent: Some(bytes(agent)),
            held: bytes(held),
        };
        witness.widen(&claim);
        let floor = bytes(2);
        let named = witness.compare(
            now,
            5,
            (bytes(nvml), &Counted::default()),
            bytes(agent),
            floor,
        );
        let excess = witness.exceeds(bytes(nvml), floor);
        witness.settle(&claim);
        (named.is_some(), excess.0 / MIB)
    }

    #[test]
    fn who_says_half_is_named_within_a_second_of_it() {
        let mut witness = Witness::default();
        assert_eq!(look(&mut witness, 0, [40, 40, 40]), (false, 0));
        assert!(!witness.is_doubted());
        // It begins right after that look. What it said before excuses one more look, and doubt has NVML
        // look soon.
        assert_eq!(look(&mut witness, 500, [40, 20, 40]), (false, 0));
        assert!(witness.is_doubted());
        assert_eq!(look(&mut witness, 520, [40, 20, 40]), (false, 0));
        assert_eq!(look(&mut witness, 700, [40, 20, 40]), (false, 0));
        assert!(witness.is_doubted());
        // What it does not seem to use of its budget could be given to others, or filled up by itself.
        assert_eq!(look(&mut witness, 720, [40, 20, 40]), (true, 20));
        assert!(!witness.is_doubted());
        assert_eq!(look(&mut witness, 1220, [60, 40, 40]), (false, 20));
    }

    #[test]
    fn a_chunk_on_its_way_is_no_lie() {
        let mut witness = Witness::default();
        for ms in (0..10_000).step_by(20) {
            // It counts a chunk before it is made, and until it is gone.
            let agent = 20 + 2 * (ms / 20 % 2);
            let seen = look(&mut witness, ms, [20, agent, 24]);
            assert_eq!(seen, (false, 0));
            assert!(!witness.is_doubted());
        }
    }
}
