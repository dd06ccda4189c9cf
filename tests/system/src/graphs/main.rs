//! Records the graphs of tests/eval/graphs again with the PyTorch of Debian 12, compares them, and runs the recorder's tests,
//! which skip where PyTorch is not installed.
//!
//! Needs root, namespaces and packages of Debian; where they are not to be had it says why, and that it is skipped.

mod compare;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rtswap_system::rootfs::{self, NoArchive, Recipe};

use crate::compare::Comparison;

const PACKAGES: &str = "python3-torch,python3-pytest";
/// What PyTorch runs in: there is no network, and all mounts end with it.
const NAMESPACES: [&str; 3] = ["--mount", "--pid", "--net"];
/// How long one command may take in there, in seconds.
const COMMAND: &str = "300";
/// The commands, in the root folder of the repository. The first two print a line `HASH NAME` for each graph.
const HASH_RECORDED: [&str; 4] = ["python3", "-m", "rtswap.graph", "--hash"];
const HASH_KEPT: [&str; 3] = ["python3", "-c", include_str!("kept.py")];
const TEST: [&str; 8] = [
    "python3",
    "-m",
    "pytest",
    "-q",
    "-rs",
    "-p",
    "no:cacheprovider",
    "python/tests/test_graph.py",
];

/// Record the graphs that are kept with Debian's PyTorch, and compare
#[derive(Parser)]
struct Arguments {
    /// The root folder of the repository
    #[arg(long)]
    repository: PathBuf,
    /// Where the root file system is kept
    #[arg(long)]
    cache: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(reason) = rootfs::lacking(&NAMESPACES) {
        return skip(&reason);
    }
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if error.is::<NoArchive>() => skip(&error.to_string()),
        Err(error) => {
            eprintln!("graphs of PyTorch: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn skip(reason: &str) -> ExitCode {
    println!("SKIPPED the graphs of PyTorch: {reason}");
    ExitCode::SUCCESS
}

/// Whether all graphs are the same and all tests pass.
fn run(arguments: &Arguments) -> Result<bool> {
    let recipe = Recipe {
        suite: "bookworm",
        packages: PACKAGES,
        hooks: Vec::new(),
        // A minute on an idle machine. CI makes it with the lowest priority.
        bound: Duration::from_mins(10),
    };
    let debian = Debian {
        root: rootfs::ready(&arguments.cache, &recipe)?,
        repository: &arguments.repository,
    };
    let (tests_pass, tests) = debian.run(&TEST)?;
    print!("{tests}");
    let tests = tests.lines().last().unwrap_or_default();
    ensure!(
        !tests_pass || tests.contains(" passed"),
        "no test ran: {tests}"
    );
    let comparison = Comparison::new(&debian.output(&HASH_RECORDED)?, &debian.output(&HASH_KEPT)?)?;
    println!("{comparison}; tests of the recorder: {tests}");
    Ok(tests_pass && comparison.differing.is_empty())
}

/// A root file system and the repository that is seen in it.
struct Debian<'a> {
    root: PathBuf,
    repository: &'a Path,
}

impl Debian<'_> {
    /// Whether the command exits with 0, and what it prints.
    fn run(&self, command: &[&str]) -> Result<(bool, String)> {
        let output = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare"])
            .args(NAMESPACES)
            .args(["--fork", "--kill-child"])
            .args(["timeout", "--kill-after=5", COMMAND])
            .args(["sh", "-c", include_str!("record.sh"), "record.sh"])
            .args([&self.root, self.repository])
            .args(command)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("setpriv")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.success(), text))
    }

    /// What the command prints, if it exits with 0.
    fn output(&self, command: &[&str]) -> Result<String> {
        let (succeeds, text) = self.run(command)?;
        ensure!(
            succeeds,
            "`{}` failed, see above; its last line: {}",
            command[..3].join(" "),
            text.lines().last().unwrap_or("none")
        );
        Ok(text)
    }
}
