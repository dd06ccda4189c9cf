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

use rtswap_dbus::GpuProperties;
use rtswap_dbus::objects::Objects;
use rtswap_taskset::profile::{About, Folded, LEAST_JOBS, fold};
use zbus::OwnedObjectPath;

use crate::agent;
use crate::cli::ProfileOptions;
use crate::daemon::objects;
use crate::failure::Failure;
use crate::output;
use crate::run::task_name;
use crate::trial::company;
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
    // A profile needs no daemon of the machine.
    let machine = objects(runtime_dir).unwrap_or_default();
    let configuration = configuration(&machine, &place.uuid);
    let daemon = PrivateDaemon::start(&configuration, &interrupt)?;
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
    if let Some(company) = beside(&machine, &place.uuid) {
        output::note(&company);
    }
    output::note(&format!("1 of 2: {name} by itself"));
    let alone = runs.run("alone")?;
    output::note(&format!("2 of 2: {name} beside copies in both directions"));
    let neighbor = Neighbor::start(&place, Copies::Both, &interrupt)?;
    let loaded = runs.run("loaded")?;
    neighbor.finish(&interrupt)?;

    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let about = About {
        name,
        measured: now.map_or(0, |since| since.as_secs()),
        program: text::command(&options.program),
        gpu: place.uuid.clone(),
        gpu_name: Some(place.name.clone()).filter(|name| !name.is_empty()),
    };
    let folded = fold(&about, &alone.record, &loaded.record)?;
    let (path, named) = keep(&folded, &interrupt)?;
    let outcome = Outcome {
        folded,
        path,
        named,
        others: alone.others.max(loaded.others),
    };
    if options.json {
        output::json(&Answer::new(&outcome))
    } else {
        output::text(&text::told(&outcome))
    }
}

/// Keeps the profiles of the process and of its jobs, unless the signal came. Where, as [`Outcome`] has it.
fn keep(
    folded: &Folded,
    interrupt: &Interrupt,
) -> Result<(PathBuf, Vec<Option<PathBuf>>), Failure> {
    interrupt.check()?;
    let path = store::keep(&folded.whole)?;
    let named = folded.named.iter().map(store::keep_job);
    Ok((path, named.collect::<Result<_, _>>()?))
}

/// The private daemon's: with the chunks of the machine's own, where that answers.
fn configuration(machine: &Objects, uuid: &str) -> String {
    let gpu = of_uuid(machine, uuid);
    let chunk = gpu.map_or_else(String::new, |(_, gpu)| {
        format!("chunk = {}\n", gpu.chunk_bytes)
    });
    format!("version = 1\n[daemon]\nprobes = false\n[[gpu]]\nuuid = \"{uuid}\"\n{chunk}")
}

/// What is told where the machine's daemon has tasks on the GPU, beside which a program does not run by itself.
fn beside(machine: &Objects, uuid: &str) -> Option<String> {
    let (path, gpu) = of_uuid(machine, uuid)?;
    let names = company::awake(machine, path);
    let told = format!(
        "also on GPU {}, so that no run is by itself: {}; park first, as by rtswapctl park --all, to measure without",
        gpu.index,
        names.join(", ")
    );
    (!names.is_empty()).then_some(told)
}

fn of_uuid<'a>(machine: &'a Objects, uuid: &str) -> Option<&'a (OwnedObjectPath, GpuProperties)> {
    machine.gpus.iter().find(|(_, gpu)| gpu.uuid == uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::TrialError;

    #[test]
    fn tasks_beside_which_it_is_measured_are_named() {
        let machine = company::tests::objects();
        assert_eq!(
            beside(&machine, "GPU-0").unwrap(),
            "also on GPU 0, so that no run is by itself: a; park first, as by rtswapctl park --all, to measure without"
        );
        for alone in ["GPU-1", "GPU-9"] {
            assert_eq!(beside(&machine, alone), None);
        }
    }

    #[test]
    fn nothing_is_kept_after_the_signal() {
        let mut whole = store::tests::profile();
        // No file has this name: whatever would be kept is an error.
        whole.name = "no/such/folder".into();
        let folded = Folded {
            whole,
            named: Vec::new(),
            rare: Vec::new(),
            long: Vec::new(),
            loading: 0,
        };
        let kept = keep(&folded, &Interrupt::told());
        assert!(
            matches!(kept, Err(Failure::Trial(TrialError::Interrupted))),
            "{kept:?}"
        );
    }
}
