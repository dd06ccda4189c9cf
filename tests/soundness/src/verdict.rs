//! Admission tests as the search takes them: the sound ones of `rtswap_policy`, and a second
//! implementation of processor demand with switches for what is refuted.

use rtswap_policy::admission::{Candidate, Platform, Test};

/// More deadlines than this are not looked at: the set counts as refused.
const MOST_SPANS: u32 = 4_000;

/// How often the base of an eviction is charged to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bases {
    /// Beside best-effort part of every chunk: each may come from another victim. Else three times if it
    /// swaps and once in the blocking for each other task, or pipelined as `PerVictim`.
    Right,
    /// Refuted: beside best-effort too as if only realtime tasks were victims.
    RealtimeVictims,
    /// Refuted: once.
    Once,
    /// Refuted in the sequential mode: as often as there are other tasks or chunks.
    PerVictim,
}

/// Which deadlines are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// All that can fail.
    All,
    /// Refuted: those below the longest period.
    BelowLongestPeriod,
}

/// What one job can be blocked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// C_j + C_k counts; without it refuted.
    pub two_runs: bool,
    /// C_j + drain counts; without it refuted.
    pub run_and_drain: bool,
}

/// What is charged for best-effort that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The time after which others go on without it: S.
    Enforced,
    /// Refuted: half of that, in which obedient best-effort is gone.
    Obedient,
}

impl Leaving {
    fn charged(self, platform: &Platform) -> i128 {
        let enforced = i128::from(platform.drain.0);
        match self {
            Self::Enforced => enforced,
            Self::Obedient => enforced / 2,
        }
    }
}

/// Processor demand, right or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Evictions overlap with the swap-in that they are for.
    pub pipelined: bool,
    /// Of evictions.
    pub bases: Bases,
    /// Of deadlines.
    pub range: Range,
    /// Of the blocking.
    pub terms: Terms,
    /// Of best-effort.
    pub leaving: Leaving,
}

/// An admission test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// One of the product's.
    Sound(Test),
    /// This crate's own.
    Own(Demand),
}

impl Admission {
    /// Whether it admits `set`.
    pub fn admits(self, platform: &Platform, set: &[Candidate]) -> bool {
        match self {
            Self::Sound(test) => test.holds(platform, set),
            Self::Own(demand) => demand.verdict(platform, set) == Some(true),
        }
    }
}

impl Demand {
    /// As the product's `Demand` or `Pipelined` (at ρ = 1) has it.
    pub const fn right(pipelined: bool) -> Self {
        Self {
            pipelined,
            bases: Bases::Right,
            range: Range::All,
            terms: Terms {
                two_runs: true,
                run_and_drain: true,
            },
            leaving: Leaving::Enforced,
        }
    }

    /// Whether it admits `set`; nothing if there are too many deadlines to look at.
    pub fn verdict(self, platform: &Platform, set: &[Candidate]) -> Option<bool> {
        if set.is_empty() {
            return Some(true);
        }
        let mut tasks: Vec<Load> = set
            .iter()
            .map(|c| self.load(platform, set.len(), c))
            .collect();
        tasks.sort_unstable_by_key(|task| task.deadline);
        self.block(platform, &mut tasks);
        let once = i128::from(platform.cost.out.base.0) * (set.len() as i128 - 1);
        let bases = match (self.pipelined, self.bases) {
            (false, Bases::RealtimeVictims) => once,
            (false, Bases::Right) if platform.drain.0 == 0 => once,
            _ => 0,
        };
        let drain = self.leaving.charged(platform);
        let all = hyperperiod(&tasks)?;
        let Some(last) = self.horizon(&tasks, all, drain, drain + bases) else {
            return Some(false);
        };
        // Blocking at L is by those due after it: the largest from their first on.
        let mut sum = 0;
        let mut next: Vec<i128> = tasks.iter().map(|task| task.deadline).collect();
        let mut due = 0;
        for _ in 0..MOST_SPANS {
            let Some(span) = next.iter().copied().min() else {
                return Some(true);
            };
            if span > last {
                return Some(true);
            }
            for (at, task) in next.iter_mut().zip(&tasks) {
                if *at == span {
                    *at += task.period;
                    sum += task.demand;
                }
            }
            while due < tasks.len() && tasks[due].deadline <= span {
                due += 1;
            }
            let blocking = tasks.get(due).map_or(drain, |task| task.blocks.max(drain));
            if sum + blocking + bases > span {
                return Some(false);
            }
        }
        None
    }

    fn load(self, platform: &Platform, tasks: usize, candidate: &Candidate) -> Load {
        let chunks = i128::from(candidate.volume.0);
        let chunk = |cost: &rtswap_policy::cost::DirectionCost| {
            i128::from(cost.chunk_time(platform.chunk).0)
        };
        let (out, in_) = (&platform.cost.out, &platform.cost.in_);
        let (mut a, b) = (chunk(out), chunk(in_));
        if self.bases == Bases::Right && platform.drain.0 > 0 {
            a += i128::from(out.base.0);
        }
        let others = (tasks as i128 - 1).min(chunks);
        let bases = match (self.pipelined, self.bases) {
            _ if chunks == 0 => 0,
            (_, Bases::Right) if platform.drain.0 > 0 => 0,
            (true, _) | (false, Bases::PerVictim) => others,
            (false, Bases::Right | Bases::RealtimeVictims) => 3,
            (false, Bases::Once) => 1,
        };
        let (out_base, in_base) = (i128::from(out.base.0), i128::from(in_.base.0));
        let in_base = if chunks == 0 { 0 } else { in_base };
        let run = i128::from(candidate.timing.wcet.0 + platform.dispatch_latency.0);
        let evictions = bases * out_base + chunks * a;
        let region = in_base + chunks * b + run;
        let overlapped = if chunks == 0 {
            0
        } else {
            chunks * a.max(b) + a.min(b)
        };
        let (demand, own) = if self.pipelined {
            let demand = overlapped + bases * out_base + in_base + run;
            (demand, demand)
        } else {
            (evictions + region, evictions.max(region))
        };
        Load {
            period: i128::from(candidate.timing.period.0),
            deadline: i128::from(candidate.timing.deadline.0),
            run,
            demand,
            blocks: own,
        }
    }

    /// Completes `blocks`: of each task and all that are due after it, the largest.
    fn block(self, platform: &Platform, tasks: &mut [Load]) {
        let drain = self.leaving.charged(platform);
        let mut most = 0;
        for place in (0..tasks.len()).rev() {
            let run = tasks[place].run;
            let others = tasks
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != place);
            let other = others.map(|(_, task)| task.run).max().unwrap_or(0);
            let mut blocks = tasks[place].blocks;
            if self.terms.two_runs {
                blocks = blocks.max(run + other);
            }
            if self.terms.run_and_drain {
                blocks = blocks.max(run + drain);
            }
            most = blocks.max(most);
            tasks[place].blocks = most;
        }
    }

    /// The last deadline to look at; none if there is more work than time.
    fn horizon(self, tasks: &[Load], all: i128, drain: i128, ahead: i128) -> Option<i128> {
        let work: i128 = tasks.iter().map(|t| all / t.period * t.demand).sum();
        if work > all || (work == all && drain > 0) {
            return None;
        }
        if self.range == Range::BelowLongestPeriod {
            return tasks.iter().map(|task| task.period - 1).max();
        }
        let early = |t: &Load| all / t.period * t.demand * (t.period - t.deadline);
        let ahead = tasks.iter().map(early).sum::<i128>() + ahead * all;
        let by_slack = match all - work {
            0 => all,
            idle => (ahead / idle).min(all),
        };
        let latest = tasks.last().map_or(0, |task| task.deadline);
        Some(by_slack.max(latest))
    }
}

/// One task as the test sees it.
struct Load {
    period: i128,
    deadline: i128,
    run: i128,
    demand: i128,
    blocks: i128,
}

/// After which everything repeats; none if that is too long for exact sums.
fn hyperperiod(tasks: &[Load]) -> Option<i128> {
    let mut all: i128 = 1;
    for task in tasks {
        all = all / gcd(all, task.period) * task.period;
        if all > 1 << 80 {
            return None;
        }
    }
    Some(all)
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
