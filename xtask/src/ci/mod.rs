//! `cargo xtask ci`: all that a change must pass, on a machine of a stranger.
//!
//! The steps run in stages. A stage's lanes run side by side, a lane's steps one after the other, and each step is a
//! process of its own ([`step`]) in an environment without what this user has ([`stranger`]).

mod demo;
mod lint;
mod step;
mod stranger;
mod table;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::Workspace;
use crate::{
    bench, clients, deb, dist, doors, ebpf, eval, gpu_bundle, system, test, theory, tools, wheel,
};

use step::Step;
use stranger::Stranger;

/// Steps that run one after the other.
struct Lane {
    steps: &'static [Step],
    /// Takes the processors only while no other lane wants them: for what computes, beside what judges time.
    is_nice: bool,
}

const fn lane(steps: &'static [Step]) -> Lane {
    Lane {
        steps,
        is_nice: false,
    }
}

const fn nice(steps: &'static [Step]) -> Lane {
    Lane {
        steps,
        is_nice: true,
    }
}

const STAGES: &[&[Lane]] = &[
    // What reads sources, cheapest first, and what is to be downloaded meanwhile.
    &[
        lane(&[
            Step::new("format", lint::format),
            Step::new("directions", lint::directions),
            Step::new("house rules", lint::house),
            Step::new("prebuilt probes", ebpf::check_quickly),
            Step::new("clippy", lint::clippy),
            Step::new("rustdoc", lint::rustdoc),
            Step::new("build", build),
        ]),
        lane(&[
            Step::new("tools", tools),
            Step::new("licences, bans, sources", lint::deny).counting(" ok, "),
        ]),
    ],
    // What starts processes and waits for them, beside what compiles and computes.
    &[
        lane(&[
            Step::new("test", test::pinned).counting("tests run:"),
            Step::new("doors", check_doors).counting("probes: "),
            Step::new("NVIDIA's clients", clients::check).counting(" passed, "),
            Step::new("Python package", wheel::check).counting(" passed"),
        ]),
        nice(&[
            Step::new("what is shipped", ship),
            Step::new("packages", deb::check).counting("packages without"),
            Step::new("search for deadline misses", theory::check_soundness)
                .counting(" runs on the real engine"),
            Step::new("the paper's figures", check_figures).counting("files"),
            Step::new("swap volumes against HiGHS", theory::check_milp)
                .counting(" disagreements in "),
        ]),
    ],
    // Two that mostly wait, each for machines of its own.
    &[
        lane(&[
            Step::new("the GPU kit on the simulated GPU", gpu_bundle::check_kit)
                .counting(" parts passed"),
        ]),
        lane(&[Step::new("packages in a booted system", system::check).counting(" passed, ")]),
    ],
    // What measures has the machine for itself.
    &[lane(&[
        Step::new("figures that a busy machine allows", check_bench).counting("figures"),
        Step::new("demo", demo::check).counting("jobs"),
    ])],
];

fn all_steps() -> impl Iterator<Item = &'static Step> {
    let lanes = STAGES.iter().copied().flatten();
    lanes.flat_map(|lane| lane.steps)
}

/// Runs the steps of these names, or all, and shows what came of them; an error if one failed.
pub(crate) fn check(workspace: &Workspace, names: &[String]) -> Result<()> {
    for name in names {
        step_named(name)?;
    }
    let wanted = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    let start = Instant::now();
    let stranger = Stranger::arrive(workspace.target().join("ci"))?;
    let ended = Mutex::new(Vec::new());
    let has_failed = AtomicBool::new(false);
    for stage in STAGES {
        thread::scope(|scope| {
            for lane in *stage {
                let (stranger, ended, has_failed) = (&stranger, &ended, &has_failed);
                scope.spawn(move || {
                    for step in lane.steps.iter().filter(|step| wanted(step)) {
                        if has_failed.load(Ordering::Relaxed) {
                            return;
                        }
                        let end = step.run(workspace.root(), stranger, lane.is_nice);
                        has_failed.fetch_or(end.is_failed(), Ordering::Relaxed);
                        ended.lock().expect("no lane panics").push(end);
                    }
                });
            }
        });
    }
    let ended = ended.into_inner().expect("no lane panics");
    eprint!("\n{}", table::text(&ended, start.elapsed()));
    let failed: Vec<_> = ended.iter().filter(|end| end.is_failed()).collect();
    ensure!(
        failed.is_empty(),
        "failed: {}",
        failed
            .iter()
            .map(|end| end.name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    eprintln!("xtask ci: all passed; SKIPPED advisories: their database is on a host of its own");
    Ok(())
}

/// Runs one step in this process: what [`check`] starts.
pub(crate) fn run_step(workspace: &Workspace, name: &str) -> Result<()> {
    (step_named(name)?.job)(workspace)
}

fn step_named(name: &str) -> Result<&'static Step> {
    if let Some(step) = all_steps().find(|step| step.name == name) {
        return Ok(step);
    }
    let names: Vec<_> = all_steps().map(|step| step.name).collect();
    bail!("there is no step {name:?}; there are: {}", names.join(", "))
}

/// Everything that later steps would otherwise stop to install, so that none of them waits for another's lock.
fn tools(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    if tools::is_root(root) && tools::exists("apt-get", root) {
        deb::need(root)?;
        system::need(root)?;
    }
    if !tools::exists("python3", root) {
        eprintln!("no Python tools: there is no python3 in the PATH");
        return Ok(());
    }
    dist::tools(workspace)?;
    clients::python(workspace)?;
    wheel::python(workspace)?;
    theory::python(workspace)?;
    test::nextest(workspace).map(drop)
}

fn build(workspace: &Workspace) -> Result<()> {
    workspace.debug().map(drop)
}

fn ship(workspace: &Workspace) -> Result<()> {
    shipped(workspace).map(drop)
}

/// What is shipped, or where that cannot be built the same for this machine; the folder.
fn shipped(workspace: &Workspace) -> Result<PathBuf> {
    if tools::exists("python3", workspace.root()) {
        return dist::compile(workspace);
    }
    eprintln!(
        "SKIPPED what is shipped: there is no python3 in the PATH; the same for this machine instead"
    );
    workspace.release(&["rtswap-bench", "rtswap-demo"])
}

fn check_doors(workspace: &Workspace) -> Result<()> {
    doors::show(workspace, &[])
}

/// All of them can be made; tests/eval says what must be in them.
fn check_figures(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target().join("eval");
    let options = ["all", "--out", &folder.to_string_lossy()].map(String::from);
    eval::run(&workspace.debug()?, &options)?;
    let files = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    eprintln!("{} files", files.count());
    Ok(())
}

fn check_bench(workspace: &Workspace) -> Result<()> {
    bench::measure(&shipped(workspace)?, &["--robust".to_owned()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_step_has_a_name_of_its_own() {
        let names: BTreeSet<_> = all_steps().map(|step| step.name).collect();
        assert_eq!(names.len(), all_steps().count());
        assert_eq!(step_named("clippy").unwrap().name, "clippy");
        let error = step_named("clipy").err().unwrap().to_string();
        assert!(
            error.contains("clipy") && error.contains("rustdoc"),
            "{error}"
        );
    }

    #[test]
    fn only_what_computes_is_nice() {
        for lane in STAGES.iter().copied().flatten().filter(|lane| lane.is_nice) {
            assert!(
                lane.steps
                    .iter()
                    .all(|step| step.name != "demo" && step.name != "test")
            );
        }
    }
}
