//! `rtswapctl simulate`: a task set on a virtual clock and GPU, under the daemon's own scheduler.
//!
//! `answer` is what came of it as JSON has it, `text` the same for people, `script` what a job does that copies while it runs.

mod answer;
mod script;
mod text;

use std::time::Duration;

use rtswap_policy::assign::Assignment;
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_simulator::export::{chrome, svg};
use rtswap_simulator::{Arrivals, Execution, Responses, Rng, Scenario, SimTask, Timeline, observe};

use crate::cli::SimulateOptions;
use crate::failure::Failure;
use crate::files;
use crate::output;
use crate::plan::Planned;

use answer::Answer;

/// Simulates the plan; [`Failure::No`] if there is none that holds, or if a deadline is missed.
pub(crate) fn simulate(options: &SimulateOptions) -> Result<(), Failure> {
    files::apart(&[
        ("FILE", Some(&options.set.file)),
        ("--on", options.set.on.as_deref()),
        ("--trace", options.trace.as_deref()),
        ("--svg", options.svg.as_deref()),
    ])?;
    if options.duration > LONGEST {
        return Err(Failure::TooLong(options.duration));
    }
    let (file, planned) = Planned::read(&options.set)?;
    for in_job in &planned.in_job {
        files::apart(&[
            ("graph", Some(&in_job.path)),
            ("--trace", options.trace.as_deref()),
            ("--svg", options.svg.as_deref()),
        ])?;
    }
    let Ok(plan) = &planned.result else {
        planned.print(options.set.json)?;
        return Err(Failure::No);
    };
    let scenario = scenario(&planned, plan, options);
    let drawn = options.trace.is_some() || options.svg.is_some();
    let jobs = planned.set.tasks.iter();
    let jobs = jobs.map(|task| scenario.duration.0 / task.timing.period.0 + 1);
    few(jobs.fold(0, u64::saturating_add), drawn)?;
    let timeline = drawn.then(|| Timeline::new(&scenario));
    let mut watched = (Responses::default(), timeline);
    let report =
        observe(&scenario, &mut watched).map_err(|error| Failure::Simulation { file, error })?;
    let (responses, timeline) = watched;
    if let Some(timeline) = timeline {
        if let Some(path) = &options.trace {
            files::write(path, &chrome::trace(&timeline))?;
        }
        if let Some(path) = &options.svg {
            let view = svg::View::whole(&timeline);
            files::write(path, &svg::timeline(&timeline, &view))?;
        }
    }
    let answer = Answer::new(&planned, plan, options, &report, &responses);
    if options.set.json {
        output::json(&answer)?;
    } else {
        output::text(&answer.text())?;
    }
    if answer.kept() {
        Ok(())
    } else {
        Err(Failure::No)
    }
}

/// 10,000 days: with what goes before the start, within what 64 bits count in nanoseconds.
const LONGEST: Duration = Duration::from_hours(240_000);

/// A job leaves its response time in memory, and a drawn one about two kilobytes.
const MOST_JOBS: u64 = 50_000_000;
const MOST_DRAWN: u64 = 200_000;

fn few(jobs: u64, drawn: bool) -> Result<(), Failure> {
    let most = if drawn { MOST_DRAWN } else { MOST_JOBS };
    if jobs > most {
        return Err(Failure::TooManyJobs { jobs, most });
    }
    Ok(())
}

/// Every task is there from the beginning, asks once a period and takes its whole WCET, or does what its plan says.
fn scenario(planned: &Planned, plan: &Assignment, options: &SimulateOptions) -> Scenario {
    let platform = planned.set.platform(planned.test, plan.chunk);
    let config = Config {
        capacity: planned.set.gpu.capacity,
        chunk: platform.chunk,
        swap_cost: platform.cost,
        best_effort_reserve: Bytes::ZERO,
        drain: platform.drain,
        sharing: Sharing::Exclusive,
        dispatch_latency: platform.dispatch_latency,
        overrun: Overrun::Continue,
        undrained: Undrained::Beside,
        swap_share: Ppm(100_000),
        longest_wait: Nanos(15_000_000_000),
        idle_gap: Nanos(2_000_000),
        objective: planned.objective,
        test: planned.test,
        duplex: platform.duplex,
    };
    let mut rng = options.seed.map(Rng::new);
    let tasks = planned.set.tasks.iter().map(|task| {
        let last = task.timing.period.0 - 1;
        let offset = Nanos(rng.as_mut().map_or(0, |rng| rng.within(0, last)));
        SimTask {
            arrivals: Arrivals::Periodic { offset },
            ..SimTask::new(task.spec(), Nanos::ZERO)
        }
    });
    let mut tasks: Vec<SimTask> = tasks.collect();
    for in_job in &planned.in_job {
        let script = script::of(&planned.set, plan.chunk, in_job);
        tasks[in_job.task].execution = Execution::Copies(script);
    }
    let duration = Nanos(u64::try_from(options.duration.as_nanos()).unwrap_or(u64::MAX));
    Scenario::new(config, tasks, duration, options.seed.unwrap_or(0))
}
