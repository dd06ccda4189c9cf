//! `rtswapctl profile`: what a program takes, by two runs under a private daemon: by itself, and beside a neighbor that loads
//! both copy engines.
//!
//! `watch` follows a run by what its agent writes, `text` is what is told, `answer` the same as JSON, `store` keeps profiles
//! by name.

mod answer;
pub(crate) mod store;
pub(crate) mod text;
mod watch;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rtswap_taskset::profile::{About, Folded, LEAST_JOBS, fold};

use crate::agent;
use crate::cli::ProfileOptions;
use crate::daemon::objects;
use crate::failure::Failure;
use crate::output;
use crate::run::task_name;
use crate::trial::daemon::PrivateDaemon;
use crate::trial::interrupt::Interrupt;
use crate::trial::neighbor::{Copies, Neighbor};
use crate::trial::place::Place;
use answer::Answer;
use watch::Runs;

/// What came of a measurement.
struct Outcome {
    folded: Folded,
    /// Where the profile of the process is kept.
    path: PathBuf,
    /// Where those of its jobs are kept; none where the name is another profile's.
    named: Vec<Option<PathBuf>>,
    /// Other processes that had jobs.
    others: usize,
}

/// Measures, and keeps what was measured.
pub(crate) fn profile(runtime_dir: Option<&Path>, options: &ProfileOptions) -> Result<(), Failure> {
    let name = task_name(options.name.as_deref(), &options.program)?;
    store::check()?;
    let preload = agent::preload(&agent::find(options.agent.as_deref())?)?;
    let place = Place::find(options.gpu.as_deref())?;
    let interrupt = Interrupt::watch()?;
    let daemon = PrivateDaemon::start(&configuration(runtime_dir, &place.uuid), &interrupt)?;
    let runs = Runs {
        daemon: &daemon,
        preload: &preload,
        program: &options.program,
        place: &place,
        steer: options.gpu.is_some(),
        wait: options.wait,
        jobs: options.jobs.max(LEAST_JOBS),
        interrupt: &interrupt,
    };
    output::note(&format!("1 of 2: {name} by itself"));
    let alone = runs.run("alone")?;
    output::note(&format!("2 of 2: {name} beside copies in both directions"));
    let neighbor = Neighbor::start(&place, Copies::Both, &interrupt)?;
    let loaded = runs.run("loaded")?;
    neighbor.finish()?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let about = About {
        name,
        measured: now.map_or(0, |since| since.as_secs()),
        program: text::command(&options.program),
        gpu: place.uuid.clone(),
        gpu_name: Some(place.name.clone()).filter(|name| !name.is_empty()),
    };
    let folded = fold(&about, &alone.record, &loaded.record)?;
    let outcome = Outcome {
        path: store::keep(&folded.whole)?,
        named: folded
            .named
            .iter()
            .map(store::keep_job)
            .collect::<Result<_, _>>()?,
        others: alone.others.max(loaded.others),
        folded,
    };
    if options.json {
        output::json(&Answer::new(&outcome))
    } else {
        output::text(&text::told(&outcome))
    }
}

/// The private daemon's: with the chunks of the machine's own, where that answers.
fn configuration(runtime_dir: Option<&Path>, uuid: &str) -> String {
    let objects = objects(runtime_dir).ok();
    let gpu = objects.and_then(|objects| {
        let mut gpus = objects.gpus.into_iter();
        gpus.find(|(_, gpu)| gpu.uuid == uuid)
    });
    let chunk = gpu.map_or_else(String::new, |(_, gpu)| {
        format!("chunk = {}\n", gpu.chunk_bytes)
    });
    format!("version = 1\n[daemon]\nprobes = false\n[[gpu]]\nuuid = \"{uuid}\"\n{chunk}")
}
