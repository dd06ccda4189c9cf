//! Cases on the scheduler itself, driven by the simulator with every invariant checked after
//! every event.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::scheduler::{Config, JobEnd, Overrun, Sharing, Undrained, ViolationKind};
use rtswap_policy::task::{Class, MemoryProfile, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};
use rtswap_simulator::{
    Arrivals, Checks, Departure, Execution, Observer, Record, Scenario, SimError, SimTask,
    SwapRecord, Violation, observe,
};

use crate::case::{Case, Stay, Task, nanos};
use crate::model::{Engine, Finished, Outcome, Residency, Rules};

/// What came of a case on the scheduler.
#[derive(Clone, Debug, Default)]
pub struct RealRun {
    /// As of the model. Jobs without a deadline (loading, best-effort) do not count.
    pub outcome: Outcome,
    /// Jobs with a deadline, in order of completion, from the start on.
    pub finished: Vec<Finished>,
    /// Every instant at which a job was released, granted or completed, from the start on.
    pub instants: Vec<i64>,
    /// Who was refused, and why.
    pub refused: Vec<String>,
    /// Promises that the scheduler reports as broken.
    pub broken: Vec<String>,
    /// A process died and its memory was not back when a job needed it: nothing is promised then,
    /// and the scheduler says so.
    pub voided: bool,
    /// Memory moved to and fro for ever, on behalf of best-effort or a plan to come. The run was
    /// left then and says nothing.
    pub endless: bool,
}

/// The scenario of `case` under `test`. What the model takes as the swap volume is what the task
/// declares as swappable; the plan may find less. The memory is where loading has left it.
pub fn scenario(case: &Case, test: Test, objective: Objective, seed: u64) -> Scenario {
    let platform = case.platform();
    let fixed: i64 = case
        .best_effort
        .iter()
        .map(|t| t.footprint - t.swappable)
        .sum();
    let config = Config {
        capacity: bytes(case.capacity),
        chunk: platform.chunk,
        swap_cost: platform.cost,
        best_effort_reserve: bytes(fixed),
        drain: platform.drain,
        sharing: Sharing::Auto,
        dispatch_latency: Nanos::ZERO,
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(150_000_000),
        idle_gap: Nanos(2_000_000),
        objective,
        test,
        duplex: Ppm::ONE,
    };
    let longest = case.tasks.iter().map(Task::last_release).max().unwrap_or(0);
    let after = case.change.unwrap_or(0);
    let tasks = case.tasks.iter().enumerate();
    let mut tasks: Vec<SimTask> = tasks
        .map(|(place, task)| realtime(case, place, task))
        .collect();
    for (place, task) in case.best_effort.iter().enumerate() {
        let spec = TaskSpec {
            name: format!("best-effort-{place}"),
            class: Class::BestEffort,
            memory: MemoryProfile {
                footprint: bytes(task.footprint),
                swappable: bytes(task.swappable),
            },
            weight: Weight::default(),
            idle_after: None,
        };
        // However long the run is, it has not many more jobs of best-effort than others.
        let runs = task.runs.max((longest + after) / 64);
        let mut sim = SimTask::new(spec, nanos(runs));
        if place > 0 {
            sim.arrivals = Arrivals::At(Vec::new());
        }
        tasks.push(sim);
    }
    let mut scenario = Scenario::new(config, tasks, nanos(longest + after + 1), seed);
    let leaves = case
        .best_effort
        .first()
        .map_or(case.drain, |task| task.leaves);
    scenario.shortest_drain = nanos(leaves);
    // Whoever takes its time to leave does so in all that it is asked.
    scenario.ignores_aborts = leaves == case.drain;
    scenario.checks = Checks::Every;
    scenario
}

fn realtime(case: &Case, place: usize, task: &Task) -> SimTask {
    let spec = TaskSpec {
        name: format!("realtime-{place}"),
        class: Class::Realtime(Timing {
            period: nanos(task.period),
            deadline: nanos(task.deadline),
            wcet: nanos(task.wcet),
        }),
        memory: MemoryProfile {
            footprint: bytes(task.footprint),
            swappable: bytes(task.volume.max(task.volume_after)),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    let mut sim = SimTask::new(spec, Nanos::ZERO);
    let from = match (task.stay, case.change) {
        (Stay::Arrives, Some(at)) => at,
        _ => 0,
    };
    let releases = task.releases().map(|at| nanos(at + from)).collect();
    sim.arrivals = Arrivals::At(releases);
    let executions = (0..task.jobs()).map(|job| nanos(task.execution(job)));
    sim.execution = Execution::Each(executions.collect());
    if let Some(at) = case.change {
        match task.stay {
            Stay::Throughout => {}
            // Just after who departs, so that both need not pass together.
            Stay::Arrives => sim.arrives = Some(nanos(at + 1)),
            Stay::Departs => {
                sim.departs = Some(Departure {
                    at: nanos(at),
                    dying: Nanos::ZERO,
                });
            }
        }
    }
    sim
}

/// Runs `scenario` to its end.
///
/// # Errors
///
/// If an invariant breaks, an agent sees what must not be, or a task gets stuck.
pub fn run(scenario: &Scenario) -> Result<RealRun, SimError> {
    let mut watch = Watch {
        departs: scenario.tasks.iter().any(|task| task.departs.is_some()),
        ..Watch::default()
    };
    let watched = observe(scenario, &mut watch);
    if watch.enough() {
        watch.run.endless = true;
        return Ok(watch.run);
    }
    let report = match watched {
        // Best-effort has no promise to come to its end.
        Err(SimError::Stuck { .. }) if watch.all_done(scenario) => None,
        report => Some(report?),
    };
    let mut real = watch.run;
    for task in report.iter().flat_map(|report| &report.tasks) {
        real.refused.extend(task.refused.clone());
    }
    real.instants.sort_unstable();
    if real.finished.is_empty() {
        real.outcome.lateness = 0;
    }
    Ok(real)
}

/// More swap operations and jobs than any run needs.
const MOST_RECORDS: u32 = 2_000;

struct Watch {
    start: Time,
    /// Somebody dies in the run.
    departs: bool,
    records: u32,
    run: RealRun,
}

impl Default for Watch {
    fn default() -> Self {
        let mut run = RealRun::default();
        run.outcome.lateness = i64::MIN;
        Self {
            start: Time::ZERO,
            departs: false,
            records: 0,
            run,
        }
    }
}

impl Watch {
    /// Whether every realtime job that was asked for has completed.
    fn all_done(&self, scenario: &Scenario) -> bool {
        let asked = scenario
            .tasks
            .iter()
            .map(|task| match (&task.arrivals, task.spec.class) {
                (Arrivals::At(releases), Class::Realtime(_)) => releases.len(),
                _ => 0,
            });
        self.run.finished.len() == asked.sum::<usize>()
    }
}

impl Observer for Watch {
    fn start(&mut self, now: Time) {
        self.start = now;
    }

    fn job(&mut self, record: &Record) {
        self.records += 1;
        let account = &record.account;
        let (Some(due), Some(granted)) = (account.deadline, account.granted) else {
            return;
        };
        if account.end != JobEnd::Completed {
            return;
        }
        let at = |time: Time| time.0.cast_signed() - self.start.0.cast_signed();
        let run = &mut self.run;
        let finished = Finished {
            task: account.task.0 as usize,
            job: run
                .finished
                .iter()
                .filter(|f| f.task == account.task.0 as usize)
                .count(),
            eligible: at(account.eligible),
            granted: at(granted),
            end: at(account.ended),
        };
        run.instants
            .extend([finished.eligible, finished.granted, finished.end]);
        run.finished.push(finished);
        let deadline = at(due) - finished.eligible;
        run.outcome
            .count(finished.task, deadline, finished.end - finished.eligible);
    }

    fn swap(&mut self, _record: &SwapRecord) {
        self.records += 1;
    }

    fn enough(&self) -> bool {
        self.records > MOST_RECORDS
    }

    fn violation(&mut self, violation: &Violation) {
        if violation.kind == ViolationKind::Emergency && self.departs {
            self.run.voided = true;
        } else if violation.kind != ViolationKind::Backing {
            let text = format!("{:?}: {}", violation.kind, violation.detail);
            self.run.broken.push(text);
        }
    }
}

/// Where loading leaves the memory of a case without best-effort and change, as the model has it:
/// relative to the start of the run.
pub fn after_loading(engine: &mut Engine, case: &Case, rules: &Rules) -> Vec<Residency> {
    let count = case.tasks.len();
    let mut all = vec![
        Residency {
            swapped: 0,
            ready: i64::MAX,
            granted: 0,
        };
        count
    ];
    // Each takes its footprint; who came before it leaves, the first first.
    let mut held = 0;
    for place in 0..count {
        held += case.tasks[place].footprint;
        for (other, task) in all.iter_mut().zip(&case.tasks).take(place) {
            let over = (held - case.capacity).max(0);
            let leaves = over.min(task.volume - other.swapped);
            other.swapped += leaves;
            held -= leaves;
        }
    }
    // Then each runs one job.
    let mut now = 1;
    for place in 0..count {
        let mut one = case.clone();
        for task in &mut one.tasks {
            task.first = i64::MAX;
            task.gaps.clear();
            task.shorter.clear();
        }
        one.tasks[place].first = now;
        engine.run_from(&one, rules, &mut all);
        now = engine.finished.last().map_or(now, |job| job.end);
    }
    let longest = case.tasks.iter().map(|task| task.period).max().unwrap_or(0);
    let start = now + 2 * longest;
    for place in &mut all {
        place.ready -= start;
        place.granted -= start;
    }
    all
}

fn bytes(chunks: i64) -> Bytes {
    Bytes(chunks.max(0) as u64)
}
