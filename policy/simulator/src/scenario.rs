//! What to simulate: one GPU, its tasks, and what happens to them. Several GPUs are several
//! scenarios: each has a scheduler of its own and shares nothing with the others.
//!
//! # Time
//!
//! A run has two parts. First the tasks that are there from the beginning register, load and run
//! until each realtime one is ready; nothing of that is reported. Then comes the *start*, and two
//! of the longest periods after everything was ready the instants of this module count from it:
//! offsets, releases, arrivals, departures, capacity changes. Jobs are asked for during
//! `duration`, its end included, and each of them is run to its end. A best-effort job that is revoked
//! is asked for again at once, for what is left of its execution; after `duration` that is dropped.
//!
//! # Worst case
//!
//! Swapping takes exactly what `Config::swap_cost` says, under `Test::Pipelined` always at the
//! loaded pace ρ; ε passes before each execution. What may take less time in reality is drawn
//! between two bounds, so that a search can set both to the worst.
//!
//! # Copies inside jobs
//!
//! In-job copies ([`Execution::Copies`]) and the swaps beside the job use the same copy engines, and where both move in one
//! direction each has half of the engine. So `Config` must have the costs of a shared engine in a scenario with such a
//! task: those for half of the measured ρ. A chunk takes that long beside an in-job copy and half of it otherwise, so no swap
//! operation takes longer than the admission test has charged. Charging the rate of a whole engine would be unsound: the
//! swap-in of a region that opens beside a running job would take longer than the blocking term Oᴵⁿ + C says.
//!
//! C of such a task is [`Script::loaded`]. It does not depend on what the other tasks swap. If swaps had the whole engine
//! and in-job copies the rest, it would; and nothing gives one copy precedence: CUDA's stream priorities have no effect on
//! copies between host and GPU (CUDA Runtime API, `cudaStreamCreateWithPriority`).

use alloc::vec::Vec;

use rtswap_policy::scheduler::{Config, MAX_TASKS, Overrun};
use rtswap_policy::task::{Class, TaskId, TaskSpec};
use rtswap_policy::units::{Bytes, Nanos};

use crate::error::ScenarioError;
use crate::script::Script;

/// When a task's jobs are asked for. A program has one job at a time: what is due while one is
/// open is asked for when that has ended. The scheduler lets no realtime job be eligible earlier
/// than T after the one before, whatever is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Every period, from `offset` on. Realtime only.
    Periodic {
        /// After the start, or after the program has loaded if it arrives later.
        offset: Nanos,
    },
    /// A period and up to `jitter` more after the request before, from `offset` on. Realtime only.
    Sporadic {
        /// After the start, or after the program has loaded if it arrives later.
        offset: Nanos,
        /// The most that is added to a period, drawn evenly.
        jitter: Nanos,
    },
    /// At exactly these instants, none earlier than the one before; those past `duration` are
    /// not asked for.
    At(Vec<Nanos>),
    /// As soon as the job before has ended. A best-effort task keeps the GPU busy so; a realtime
    /// one comes as often as it can, and too often.
    Greedy,
    /// In bursts, each a drawn time after the end of the one before: a user reads and asks again.
    /// Best-effort only.
    Thinks {
        /// The least and the most jobs of a burst, not zero.
        jobs: (u64, u64),
        /// From the end of a job of a burst to the request of its next.
        pause: Nanos,
        /// The least and the longest time from the end of a burst to the request of the next.
        think: (Nanos, Nanos),
    },
}

/// How long the executions of a task's jobs take, ε not included.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant's doc says what its fields are")]
pub enum Execution {
    /// Drawn evenly between `least` and `most`, both included. A `most` above the WCET makes overruns.
    Between { least: Nanos, most: Nanos },
    /// The n-th job reported takes the n-th, after the last the first again. Above the WCET it
    /// is an overrun. Loading takes the WCET.
    Each(Vec<Nanos>),
    /// Every job reported runs this, and takes what it takes beside the swaps of that time. Loading takes the WCET.
    /// Realtime only.
    Copies(Script),
}

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When the process dies, whatever its agent is doing: its registration ends too.
    pub at: Nanos,
    /// How long the GPU shows its memory after that; it is dying until then.
    pub dying: Nanos,
}

/// One task with its behaviour. A program that comes again after its departure is a task of its
/// own with the same name: the scheduler knows it by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimTask {
    /// What it registers as. It takes its whole footprint, of which the swappable part lies in
    /// the arena.
    pub spec: TaskSpec,
    /// When its jobs are asked for.
    pub arrivals: Arrivals,
    /// How long they execute.
    pub execution: Execution,
    /// When it registers and begins to load. None: it is ready before the start. A task that
    /// arrives declares its first job as soon as it has loaded; that job is realtime if its plan
    /// is in effect by then, and loading otherwise. Until it is ready its jobs have no deadline.
    pub arrives: Option<Nanos>,
    /// When it goes. None: it stays.
    pub departs: Option<Departure>,
}

/// When the scheduler's invariants are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// In debug builds only, by the scheduler itself, which panics: for figures and speed.
    #[default]
    Debug,
    /// After every event in every build, at two to three times the time: for a search. A violation is
    /// `SimError::Invariant`.
    Every,
}

/// One run on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The GPU as the scheduler is told, and as it is.
    pub config: Config,
    /// The tasks, in the order in which they register and load; `TaskId(n)` is the n-th.
    pub tasks: Vec<SimTask>,
    /// When mᴰ changes, and to what; none earlier than the one before.
    pub capacity: Vec<(Nanos, Bytes)>,
    /// When a task asks to be of another class, which the scheduler may refuse.
    pub classes: Vec<(Nanos, TaskId, Class)>,
    /// How long jobs are asked for.
    pub duration: Nanos,
    /// A best-effort job leaves the GPU between this and `config.drain` after it is revoked,
    /// drawn evenly.
    pub shortest_drain: Nanos,
    /// Best-effort goes on with a swap operation that is aborted, for as long as others wait for it:
    /// `config.drain`.
    pub ignores_aborts: bool,
    /// When invariants are checked. What an agent sees for itself (a job granted without its
    /// memory or beside another, a swap beyond the budget) is always checked.
    pub checks: Checks,
    /// For jitter, executions and drains.
    pub seed: u64,
}

impl SimTask {
    /// A task that is there from the beginning and stays, asks every period from the start on,
    /// and always takes its WCET. A best-effort one is greedy, with jobs of `quantum`.
    pub fn new(spec: TaskSpec, quantum: Nanos) -> Self {
        let (arrivals, span) = match spec.class {
            Class::Realtime(timing) => {
                let offset = Nanos::ZERO;
                (Arrivals::Periodic { offset }, timing.wcet)
            }
            Class::BestEffort => (Arrivals::Greedy, quantum),
        };
        Self {
            spec,
            arrivals,
            execution: Execution::Between {
                least: span,
                most: span,
            },
            arrives: None,
            departs: None,
        }
    }
}

impl Scenario {
    /// `tasks` for `duration`, with nothing drawn but what they draw: drains take their bound,
    /// the capacity stays, invariants are checked in debug builds.
    pub fn new(config: Config, tasks: Vec<SimTask>, duration: Nanos, seed: u64) -> Self {
        Self {
            config,
            tasks,
            capacity: Vec::new(),
            classes: Vec::new(),
            duration,
            shortest_drain: config.drain,
            ignores_aborts: false,
            checks: Checks::default(),
            seed,
        }
    }

    /// Whether it can be simulated. What a task declares is not looked at: the scheduler refuses
    /// what cannot be, and the report says so.
    ///
    /// # Errors
    ///
    /// The first thing found that cannot be.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.tasks.is_empty() {
            return Err(ScenarioError::NoTasks);
        }
        if self.tasks.len() > MAX_TASKS {
            return Err(ScenarioError::TooManyTasks(self.tasks.len()));
        }
        if self.duration == Nanos::ZERO {
            return Err(ScenarioError::NoDuration);
        }
        if self.config.chunk == Bytes::ZERO {
            return Err(ScenarioError::NoChunk);
        }
        if self.config.duplex.0 == 0 || self.config.duplex.0 > 1_000_000 {
            return Err(ScenarioError::Duplex(self.config.duplex.0));
        }
        if self.shortest_drain > self.config.drain {
            return Err(ScenarioError::Drain {
                shortest: self.shortest_drain,
                longest: self.config.drain,
            });
        }
        if !self.capacity.is_sorted_by_key(|(at, _)| *at) {
            return Err(ScenarioError::CapacityOrder);
        }
        // A job that copies while it runs is alone on the GPU: its task stays realtime.
        let has_script = |task: &SimTask| matches!(task.execution, Execution::Copies(_));
        let changed = self.classes.iter().map(|(_, id, _)| id.0 as usize);
        let changed = changed.filter_map(|id| self.tasks.get(id));
        let is_demoted = self.config.overrun == Overrun::Demote;
        let demoted = self.tasks.iter().filter(|_| is_demoted);
        if let Some(task) = changed.chain(demoted).find(|task| has_script(task)) {
            return Err(ScenarioError::NoScript(task.spec.name.clone()));
        }
        self.tasks.iter().try_for_each(SimTask::check)
    }
}

impl SimTask {
    fn check(&self) -> Result<(), ScenarioError> {
        let name = || self.spec.name.clone();
        let realtime = matches!(self.spec.class, Class::Realtime(_));
        match &self.arrivals {
            Arrivals::Periodic { .. } | Arrivals::Sporadic { .. } if !realtime => {
                return Err(ScenarioError::NoPeriod(name()));
            }
            Arrivals::At(releases) if !releases.is_sorted() => {
                return Err(ScenarioError::ReleaseOrder(name()));
            }
            Arrivals::Thinks { jobs, think, .. }
                if realtime || jobs.0 == 0 || jobs.0 > jobs.1 || think.0 > think.1 =>
            {
                return Err(ScenarioError::Thinks(name()));
            }
            _ => {}
        }
        let shortest = match &self.execution {
            Execution::Between { least, most } if least > most => {
                return Err(ScenarioError::Execution(name()));
            }
            Execution::Between { least, .. } => Some(*least),
            Execution::Each(spans) => spans.iter().min().copied(),
            Execution::Copies(_) if !realtime => return Err(ScenarioError::NoScript(name())),
            Execution::Copies(script) => {
                let longest = script.loaded();
                Some(longest.ok_or_else(|| ScenarioError::EndlessScript(name()))?)
            }
        };
        if shortest.is_none_or(|span| span == Nanos::ZERO) {
            return Err(ScenarioError::Execution(name()));
        }
        let arrives = self.arrives.unwrap_or(Nanos::ZERO);
        if self.departs.is_some_and(|departure| departure.at < arrives) {
            return Err(ScenarioError::GoneBefore(name()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SimError, run};
    use alloc::vec;
    use rtswap_policy::admission::Test;
    use rtswap_policy::assign::Objective;
    use rtswap_policy::cost::{DirectionCost, SwapCost};
    use rtswap_policy::scheduler::{Sharing, Undrained};
    use rtswap_policy::task::{MemoryProfile, Timing, Weight};
    use rtswap_policy::units::Ppm;

    fn scenario() -> Scenario {
        let cost = DirectionCost {
            base: Nanos(1),
            per_chunk: Nanos(1),
            bytes_per_second: u64::MAX,
        };
        let config = Config {
            capacity: Bytes(8),
            chunk: Bytes(1),
            swap_cost: SwapCost {
                out: cost,
                in_: cost,
            },
            best_effort_reserve: Bytes::ZERO,
            drain: Nanos(9),
            sharing: Sharing::Exclusive,
            dispatch_latency: Nanos::ZERO,
            overrun: Overrun::Continue,
            undrained: Undrained::Beside,
            swap_share: Ppm(100_000),
            longest_wait: Nanos(150_000),
            idle_gap: Nanos(2_000_000),
            objective: Objective::Time,
            test: Test::Demand,
            duplex: Ppm::ONE,
        };
        let spec = TaskSpec {
            name: "x".into(),
            class: Class::Realtime(Timing {
                period: Nanos(100),
                deadline: Nanos(100),
                wcet: Nanos(10),
            }),
            memory: MemoryProfile::default(),
            weight: Weight::default(),
            idle_after: None,
        };
        Scenario::new(config, vec![SimTask::new(spec, Nanos(5))], Nanos(990), 1)
    }

    #[test]
    fn what_can_be_is_run() {
        let report = run(&scenario()).unwrap();
        assert_eq!((report.jobs(), report.misses()), (10, 0));
        assert_eq!(report.end, report.start + Nanos(990));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut Scenario)| {
            let mut scenario = scenario();
            change(&mut scenario);
            match run(&scenario) {
                Err(SimError::Scenario(error)) => error,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(|s| s.tasks.clear()), ScenarioError::NoTasks);
        assert_eq!(refused(|s| s.duration.0 = 0), ScenarioError::NoDuration);
        assert_eq!(refused(|s| s.config.chunk.0 = 0), ScenarioError::NoChunk);
        assert_eq!(refused(|s| s.config.duplex.0 = 0), ScenarioError::Duplex(0));
        assert_eq!(
            refused(|s| s.tasks = vec![s.tasks[0].clone(); 4_097]),
            ScenarioError::TooManyTasks(4_097)
        );
        let (shortest, longest) = (Nanos(10), Nanos(9));
        assert_eq!(
            refused(|s| s.shortest_drain.0 = 10),
            ScenarioError::Drain { shortest, longest }
        );
        assert_eq!(
            refused(|s| s.capacity = vec![(Nanos(2), Bytes(8)), (Nanos(1), Bytes(9))]),
            ScenarioError::CapacityOrder
        );
        let name = || alloc::string::String::from("x");
        assert_eq!(
            refused(|s| s.tasks[0].arrivals = Arrivals::At(vec![Nanos(3), Nanos(2)])),
            ScenarioError::ReleaseOrder(name())
        );
        assert_eq!(
            refused(|s| s.tasks[0].spec.class = Class::BestEffort),
            ScenarioError::NoPeriod(name())
        );
        assert_eq!(
            refused(|s| {
                let (jobs, pause) = ((0, 1), Nanos(1));
                let think = (Nanos(1), Nanos(2));
                s.tasks[0].spec.class = Class::BestEffort;
                s.tasks[0].arrivals = Arrivals::Thinks { jobs, pause, think };
            }),
            ScenarioError::Thinks(name())
        );
        assert_eq!(
            refused(|s| s.tasks[0].execution = Execution::Each(vec![])),
            ScenarioError::Execution(name())
        );
        assert_eq!(
            refused(|s| s.tasks[0].execution = Execution::Each(vec![Nanos(3), Nanos(0)])),
            ScenarioError::Execution(name())
        );
        assert_eq!(
            refused(|s| {
                let (least, most) = (Nanos(3), Nanos(2));
                s.tasks[0].execution = Execution::Between { least, most };
            }),
            ScenarioError::Execution(name())
        );
        assert_eq!(
            refused(|s| {
                let (at, dying) = (Nanos(3), Nanos(0));
                s.tasks[0].arrives = Some(Nanos(4));
                s.tasks[0].departs = Some(Departure { at, dying });
            }),
            ScenarioError::GoneBefore(name())
        );
    }

    /// The scheduler refuses what a task declares, and says why.
    #[test]
    fn a_declaration_that_cannot_be_is_in_the_report() {
        let mut scenario = scenario();
        if let Class::Realtime(timing) = &mut scenario.tasks[0].spec.class {
            timing.period = Nanos::ZERO;
        }
        let report = run(&scenario).unwrap();
        assert!(!report.admitted());
        assert_eq!(report.jobs(), 0);
    }

    #[test]
    fn named_releases_are_asked_for_at_their_instants_and_overruns_are_late() {
        let mut scenario = scenario();
        let releases = [0, 0, 150, 700, 5_000].map(Nanos);
        scenario.tasks[0].arrivals = Arrivals::At(releases.to_vec());
        scenario.tasks[0].execution = Execution::Each(vec![Nanos(10), Nanos(101)]);
        let report = run(&scenario).unwrap();
        // The second is due while the first is open, and eligible a period after it; what is
        // past the duration is not asked for.
        let late: Vec<u64> = report
            .late
            .iter()
            .map(|job| (job.eligible - report.start).0)
            .collect();
        assert_eq!((report.jobs(), late), (4, vec![100, 700]));
        assert_eq!(report.violations.len(), 2);
    }
}
