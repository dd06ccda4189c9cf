//! One managed process: the values that its agent reports and its scheduler counts between two
//! samples, and where they differ from what NVML shows and the probes count.

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::claim::{Claim, beyond_noise};
use super::finding::{Disagreement, Finding};
use super::probed::{ProbeEntry, Probes};

/// How long an agent must report more than there is, or the truth again, before that is confirmed:
/// it takes from its budget before it creates gibibytes chunk by chunk. A shortfall has no such
/// excuse.
pub(super) const LASTING: Nanos = Nanos(2_000_000_000);

/// How long an agent must report a shortfall before that is confirmed: it may write its page only
/// after the probes were read.
const SHORTFALL: Nanos = Nanos(200_000_000);

/// How long a shortfall waits for probes that are behind. Busy probes read late, but a process that
/// keeps them busy must not hide forever.
const PATIENCE: Nanos = Nanos(10_000_000_000);

/// What the probes count may have been read so long before a sample of NVML with which it is compared.
const PROBED_LATE: Nanos = Nanos(500_000_000);

/// The greatest of the values of the last one to two times [`PROBED_LATE`].
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    since: Time,
    before: Bytes,
    high: Bytes,
}

impl Recent {
    fn record(&mut self, now: Time, high: Bytes) {
        if now - self.since >= PROBED_LATE {
            *self = Self {
                since: now,
                before: self.high,
                high: Bytes::ZERO,
            };
        }
        self.high = self.high.max(high);
    }

    fn high(&self) -> Bytes {
        self.before.max(self.high)
    }
}

/// The least and the greatest value of something since the last sample. A sample is not of one
/// instant, so it may have met any of them.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    low: Bytes,
    high: Bytes,
}

impl Range {
    fn at(bytes: Bytes) -> Self {
        Self {
            low: bytes,
            high: bytes,
        }
    }

    fn widen(&mut self, bytes: Bytes) {
        self.low = self.low.min(bytes);
        self.high = self.high.max(bytes);
    }
}

/// What one other witness, NVML or the probes, shows of an agent's report.
#[derive(Debug, Default)]
struct Verdict {
    /// What the samples show, and since when without a change.
    suspected: Option<(Time, Option<Disagreement>)>,
    /// What lasted long enough.
    confirmed: Option<Disagreement>,
}

impl Verdict {
    /// Since when samples have shown what one at `now` shows.
    fn since(&self, now: Time, shown: Option<Disagreement>) -> Time {
        let same = self.suspected.filter(|(_, before)| *before == shown);
        same.map_or(now, |(since, _)| since)
    }

    /// Takes what a sample shows. Confirms it once samples have shown it for so long as `lasting`, and
    /// returns whether they have.
    fn observe(&mut self, now: Time, shown: Option<Disagreement>, lasting: Nanos) -> bool {
        let since = self.since(now, shown);
        self.suspected = Some((since, shown));
        let lasts = now - since >= lasting;
        if lasts {
            self.confirmed = shown;
        }
        lasts
    }
}

/// What is kept of a managed process from one sample to the next.
#[derive(Debug, Default)]
pub(super) struct ManagedProcess {
    /// What the agent reported since the last sample of NVML.
    reported: Range,
    /// What the scheduler counted since the last sample of NVML.
    held: Range,
    /// What the scheduler counted before that.
    held_before: Recent,
    /// A sample of NVML has been compared with it: the first may be older than its memory.
    pub(super) is_compared: bool,
    /// What the agent reported since the last sample of the probes.
    reported_since_probes: Range,
    by_nvml: Verdict,
    by_probes: Verdict,
    /// NVML shows more than the agent reports by now, which is neither confirmed nor refuted yet.
    doubted: bool,
    /// What the last sample of NVML shows beyond what is accounted for.
    excess: Bytes,
    /// The part of `excess` that counts as others' memory, because it lasts.
    lasting_excess: Bytes,
}

impl ManagedProcess {
    pub(super) fn new(claim: &Claim) -> Self {
        let mut process = Self::default();
        process.settle(Time::ZERO, claim);
        process.settle_counted(claim);
        process.is_compared = false;
        process
    }

    /// The confirmed disagreement; that with the probes first, because they see it first.
    pub(super) fn disagreement(&self) -> Option<Disagreement> {
        self.by_probes.confirmed.or(self.by_nvml.confirmed)
    }

    /// Whether another sample of NVML should tell soon.
    pub(super) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// The bytes that were there throughout, by agent and scheduler alike.
    pub(super) fn least(&self) -> Bytes {
        self.reported.low.min(self.held.low)
    }

    pub(super) fn record_report(&mut self, bytes: Bytes) {
        self.reported.widen(bytes);
        self.reported_since_probes.widen(bytes);
    }

    pub(super) fn record_budget(&mut self, bytes: Bytes) {
        self.held.widen(bytes);
    }

    /// Records a claim that may have been true at the sample.
    pub(super) fn widen(&mut self, claim: &Claim) {
        self.record_budget(claim.held);
        self.record_report(claim.agent.unwrap_or_default());
    }

    /// Forgets values older than a sample of NVML that has been compared.
    pub(super) fn settle(&mut self, now: Time, claim: &Claim) {
        self.is_compared = true;
        self.held_before.record(now, self.held.high);
        self.held = Range::at(claim.held);
        self.reported = Range::at(claim.agent.unwrap_or_default());
    }

    /// Forgets reports older than a sample of the probes that has been compared.
    pub(super) fn settle_counted(&mut self, claim: &Claim) {
        self.reported_since_probes = Range::at(claim.agent.unwrap_or_default());
    }

    /// The bytes that count elsewhere already: what the scheduler counts. Where the agent reports less
    /// than there is, only its report: otherwise the process could fill the budget that it seems not
    /// to use, on top of the memory that it does not report.
    fn accounted(&self) -> Bytes {
        if self.disagreement().is_some_and(Disagreement::is_shortfall) {
            self.held.high.min(self.reported.high)
        } else {
            self.held.high
        }
    }

    /// What the probes count beyond what is accounted for and what NVML's last sample has added to
    /// it; zero within `tolerance`.
    pub(super) fn excess_counted(&self, counted: Bytes, tolerance: Bytes) -> Bytes {
        let mut accounted = self.accounted();
        if !self.disagreement().is_some_and(Disagreement::is_shortfall) {
            // The count may be older than chunks that have left since.
            accounted = accounted.max(self.held_before.high());
        }
        let excess = counted.saturating_sub(accounted);
        beyond_noise(excess, tolerance).saturating_sub(self.lasting_excess)
    }

    /// Compares the agent's report with what the probes count.
    pub(super) fn compare_counted(
        &mut self,
        now: Time,
        pid: u32,
        counted: Bytes,
        agent: Bytes,
        tolerance: Bytes,
    ) -> Option<Finding> {
        let high = self.reported_since_probes.high;
        let shown = (counted > high + tolerance).then_some(if high == Bytes::ZERO {
            Disagreement::Untracked
        } else {
            Disagreement::Underreport
        });
        let before = self.disagreement();
        self.by_probes.observe(now, shown, SHORTFALL);
        let disagreement = self.disagreement();
        (disagreement != before).then_some(Finding::Counted {
            pid,
            disagreement,
            counted,
            agent,
        })
    }

    /// Takes what NVML shows beyond what is accounted for; returns the part that counts as others'
    /// memory: what two samples show, and of an agent with a confirmed shortfall what one shows.
    pub(super) fn record_excess(&mut self, nvml: Bytes, tolerance: Bytes) -> Bytes {
        let excess = nvml.saturating_sub(self.accounted());
        let before = core::mem::replace(&mut self.excess, excess);
        let lasting = if self.disagreement().is_some_and(Disagreement::is_shortfall) {
            excess
        } else {
            excess.min(before)
        };
        self.lasting_excess = beyond_noise(lasting, tolerance);
        self.lasting_excess
    }

    /// Compares the agent's report with what NVML shows. What NVML shows beyond the report is no
    /// proof of a lie where the probes bear the agent out, or were attached too late to tell.
    pub(super) fn compare(
        &mut self,
        now: Time,
        pid: u32,
        nvml: Bytes,
        probes: &Probes,
        agent: Bytes,
        floor: Bytes,
    ) -> Option<Finding> {
        let entry = probes.get(pid);
        let shown = self.shown(nvml, entry, floor);
        // The probes read a process that allocates nothing late, and may bear its agent out yet.
        let awaited = probes.complete_at;
        let awaited = awaited.filter(|_| entry.and_then(ProbeEntry::all_given).is_none());
        let lasting = match (shown.is_some_and(Disagreement::is_shortfall), awaited) {
            (true, None) => SHORTFALL,
            (true, Some(complete_at)) if complete_at < self.by_nvml.since(now, shown) => PATIENCE,
            _ => LASTING,
        };
        let confirmed = self.by_nvml.confirmed;
        let was_short = confirmed.is_some_and(Disagreement::is_shortfall);
        let before = self.disagreement();
        let lasts = self.by_nvml.observe(now, shown, lasting);
        let tolerance = self.tolerance(nvml, floor);
        self.doubted = nvml > agent + tolerance && !was_short && !lasts;
        let disagreement = self.disagreement();
        (disagreement != before).then_some(Finding::Named {
            pid,
            disagreement,
            nvml,
            agent,
        })
    }

    /// What a sample of NVML shows of the agent's reports since the sample before.
    fn shown(&self, nvml: Bytes, entry: Option<&ProbeEntry>, floor: Bytes) -> Option<Disagreement> {
        let Range { low, high } = self.reported;
        let tolerance = self.tolerance(nvml, floor);
        if nvml > high + tolerance {
            let is_unproven = match entry.and_then(ProbeEntry::all_given) {
                Some(given) => given <= high + floor,
                None => entry.is_some_and(|entry| entry.now.early),
            };
            return Some(if is_unproven {
                Disagreement::Unaccounted
            } else if high == Bytes::ZERO {
                Disagreement::Untracked
            } else {
                Disagreement::Underreport
            });
        }
        let is_counted = |entry: &ProbeEntry| {
            // The driver has moved the memory away: the probes count what the agent reports.
            entry.now.exact && low <= entry.now.bytes + tolerance
        };
        let is_over = low > nvml + tolerance && !entry.is_some_and(is_counted);
        is_over.then_some(Disagreement::Overreport)
    }

    /// The difference from NVML that is no contradiction: `floor`, or a 64th of the larger value.
    fn tolerance(&self, nvml: Bytes, floor: Bytes) -> Bytes {
        floor.max(Bytes(nvml.max(self.reported.high).0 / 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Compares process 5, for which the scheduler counts `held` MiB, with one sample of NVML. Returns
    /// whether the disagreement changed, and the MiB that count beside those held.
    fn look(process: &mut ManagedProcess, ms: u64, [nvml, agent, held]: [u64; 3]) -> (bool, u64) {
        let (now, bytes) = (Time(ms * 1_000_000), |mib| Bytes(mib * MIB));
        let claim = Claim {
            agent: Some(bytes(agent)),
            held: bytes(held),
        };
        process.widen(&claim);
        let tolerance = bytes(2);
        let (nvml, agent) = (bytes(nvml), bytes(agent));
        let found = process.compare(now, 5, nvml, &Probes::default(), agent, tolerance);
        let excess = process.record_excess(nvml, tolerance);
        process.settle(now, &claim);
        (found.is_some(), excess.0 / MIB)
    }

    #[test]
    fn an_agent_that_reports_half_is_found_within_a_second() {
        let mut process = ManagedProcess::default();
        assert_eq!(look(&mut process, 0, [40, 40, 40]), (false, 0));
        assert!(!process.is_doubted());
        // The lie begins right after that sample. The report before it excuses one more sample, and
        // the doubt makes NVML look again soon.
        assert_eq!(look(&mut process, 500, [40, 20, 40]), (false, 0));
        assert!(process.is_doubted());
        assert_eq!(look(&mut process, 520, [40, 20, 40]), (false, 0));
        assert_eq!(look(&mut process, 700, [40, 20, 40]), (false, 0));
        assert!(process.is_doubted());
        // The budget that it seems not to use could go to others, or be filled up by the process.
        assert_eq!(look(&mut process, 720, [40, 20, 40]), (true, 20));
        assert!(!process.is_doubted());
        assert_eq!(look(&mut process, 1220, [60, 40, 40]), (false, 20));
    }

    #[test]
    fn a_chunk_in_flight_is_no_lie() {
        let mut process = ManagedProcess::default();
        for ms in (0..10_000).step_by(20) {
            // The agent counts a chunk before it creates it, and until it has released it.
            let agent = 20 + 2 * (ms / 20 % 2);
            let seen = look(&mut process, ms, [20, agent, 24]);
            assert_eq!(seen, (false, 0));
            assert!(!process.is_doubted());
        }
    }

    #[test]
    fn a_count_from_before_a_swap_out_is_no_memory_of_others() {
        let mut process = ManagedProcess::default();
        let counted = |process: &ManagedProcess| {
            let excess = process.excess_counted(Bytes(40 * MIB), Bytes(2 * MIB));
            excess.0 / MIB
        };
        look(&mut process, 0, [40, 40, 40]);
        // Half has left, and NVML has seen that before the probes.
        look(&mut process, 20, [20, 20, 20]);
        look(&mut process, 40, [20, 20, 20]);
        assert_eq!(counted(&process), 0);
        // What they count for long is there.
        for ms in (60..1_500).step_by(20) {
            look(&mut process, ms, [20, 20, 20]);
        }
        assert_eq!(counted(&process), 20);
    }
}
