//! `cargo xtask ci`: every check that a change must pass, in the environment of a fresh machine ([`environment`]).
//!
//! Stages follow one another. The lanes of a stage run side by side, the steps of a lane one after the other, each in a
//! process of its own ([`step`]).

mod demo;
mod environment;
mod lint;
mod step;
mod table;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::Workspace;
use crate::{
    attack, bench, clients, deb, dist, doors, driver, ebpf, eval, gpu_bundle, graphs, pure, system,
    test, theory, tools, wheel,
};

use environment::CleanEnvironment;
use step::Step;

/// Steps that run one after the other.
struct Lane {
    steps: &'static [Step],
    /// Leaves the processors to the other lanes: for steps that compile beside steps that judge time.
    low_priority: bool,
}

const fn lane(steps: &'static [Step]) -> Lane {
    Lane {
        steps,
        low_priority: false,
    }
}

const fn background(steps: &'static [Step]) -> Lane {
    Lane {
        steps,
        low_priority: true,
    }
}

const STAGES: &[&[Lane]] = &[
    // Checks of the sources, cheapest first, beside downloads.
    &[
        lane(&[
            Step::new("format", lint::format),
            Step::new("directions", lint::directions),
            Step::new("house rules", lint::house),
            Step::new("prebuilt probes", ebpf::check_quickly),
            Step::new("clippy", lint::clippy),
            Step::new("build", build),
        ]),
        lane(&[
            Step::new("tools", tools),
            Step::new("licences, bans, sources", lint::deny).counting(" ok, "),
        ]),
    ],
    // Steps that start processes and wait for them, beside the longest build.
    &[
        lane(&[
            // Before the tests: some look at the libraries that it fetches.
            Step::new("NVIDIA's libraries", driver::check).counting(" checks: "),
            Step::new("test", test::pinned).counting("tests run:"),
            Step::new("doors", check_doors).counting("probes: "),
            Step::new("NVIDIA's clients", clients::check).counting(" passed, "),
            Step::new("Python package", wheel::check).counting(" passed"),
            Step::new("swap volumes against HiGHS", theory::check_milp)
                .counting(" disagreements in "),
        ]),
        background(&[
            Step::new("what is shipped", ship),
            Step::new("packages", deb::check).counting("packages without"),
        ]),
    ],
    // Two steps that mostly wait, each on simulated machines of its own, beside what only computes.
    &[
        lane(&[
            Step::new("the GPU kit on the simulated GPU", gpu_bundle::check_kit)
                .counting(" parts passed"),
        ]),
        lane(&[Step::new("packages in a booted system", system::check).counting(" passed, ")]),
        background(&[
            Step::new("graphs of PyTorch", graphs::check).counting(" graphs, "),
            Step::new("the papers' figures", check_figures).counting("files"),
            Step::new("search for deadline misses", theory::check_soundness)
                .counting(" runs on the real engine"),
            // Cargo builds here: the steps beside have built what they need by now.
            Step::new("purity", pure::check),
            Step::new("rustdoc", lint::rustdoc),
        ]),
    ],
    // Measurements have the machine to themselves.
    &[lane(&[
        Step::new("figures that a busy machine allows", check_bench).counting("figures"),
        Step::new("demo", demo::check).counting("jobs"),
        Step::new("attacks", check_attacks).counting(" broken"),
    ])],
];

fn all_steps() -> impl Iterator<Item = &'static Step> {
    let lanes = STAGES.iter().copied().flatten();
    lanes.flat_map(|lane| lane.steps)
}

/// Runs the named steps, or all of them, and prints the table of results. The first failure keeps further steps from
/// starting and is an error.
pub(crate) fn check(workspace: &Workspace, names: &[String]) -> Result<()> {
    for name in names {
        step_named(name)?;
    }
    let wanted = |step: &Step| names.is_empty() || names.iter().any(|name| name == step.name);
    let start = Instant::now();
    let clean = CleanEnvironment::create(workspace.target().join("ci"))?;
    let ended = Mutex::new(Vec::new());
    let has_failed = AtomicBool::new(false);
    for stage in STAGES {
        thread::scope(|scope| {
            for lane in *stage {
                let (clean, ended, has_failed) = (&clean, &ended, &has_failed);
                scope.spawn(move || {
                    for step in lane.steps.iter().filter(|step| wanted(step)) {
                        if has_failed.load(Ordering::Relaxed) {
                            return;
                        }
                        let end = step.run(workspace.root(), clean, lane.low_priority);
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

/// Runs one step in this process, which [`check`] started for it.
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

/// Installs what later steps need: apt-get and pip must not run in two lanes at once.
fn tools(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    if tools::is_root(root) && tools::exists("apt-get", root) {
        deb::need(root)?;
        system::need(root)?;
        doors::need(root)?;
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

/// Builds the shipped programs, or without Python the same programs for this machine only; their folder.
fn shipped(workspace: &Workspace) -> Result<PathBuf> {
    if tools::exists("python3", workspace.root()) {
        return dist::compile(workspace);
    }
    eprintln!(
        "SKIPPED what is shipped: there is no python3 in the PATH; the same for this machine instead"
    );
    workspace.release(&["rtswap-bench", "rtswap-demo", "rtswap-attack"])
}

fn check_attacks(workspace: &Workspace) -> Result<()> {
    attack::run(&shipped(workspace)?, &[])
}

fn check_doors(workspace: &Workspace) -> Result<()> {
    doors::show(workspace, &[])
}

/// Makes all figures, SwapAdvisor's with two generations of each search, TENSILE's with two runs of each method; the tests of tests/eval
/// judge what is in them.
fn check_figures(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target().join("eval");
    let built = workspace.debug()?;
    let few = ["--generations", "2", "--paper-generations", "2"];
    let all = [
        ("all", &[][..]),
        ("advisor", &few),
        ("tensile", &["--runs", "2"]),
        ("swapnet", &[]),
    ];
    for (figures, options) in all {
        let out = folder.to_string_lossy();
        let options = [figures, "--out", &out]
            .into_iter()
            .chain(options.iter().copied());
        eval::run(&built, &options.map(String::from).collect::<Vec<_>>())?;
    }
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
    fn the_libraries_that_tests_look_at_are_fetched_before() {
        let place = |name| all_steps().position(|step| step.name == name).unwrap();
        assert!(place("NVIDIA's libraries") < place("test"));
    }

    #[test]
    fn what_judges_time_has_priority() {
        for lane in STAGES
            .iter()
            .copied()
            .flatten()
            .filter(|lane| lane.low_priority)
        {
            assert!(
                lane.steps
                    .iter()
                    .all(|step| step.name != "demo" && step.name != "test")
            );
        }
    }
}
