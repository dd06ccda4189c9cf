//! The packages in a booted Debian: installs them by apt from a signed repository and does what README says, as an ordinary user where that
//! should work.
//!
//! Needs root and namespaces; where they are not to be had it says why, and that it is skipped.

mod checks;
mod machine;
mod recipe;
mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rtswap_system::rootfs::{self, NoArchive};

use crate::machine::{Machine, cgroup_mount};
use crate::report::Report;

/// The whole run ends within this once there is a root file system: that has limits of its own.
const BOUND: Duration = Duration::from_mins(14);
const FAILED: u8 = 1;

/// Install the packages in a booted system and use them
#[derive(Parser)]
struct Arguments {
    /// The apt repository of the packages; its `rtswap.sources` has the URL file:/srv/shared/repository
    #[arg(long)]
    repository: PathBuf,
    /// That repository once the next version of the packages is in it too
    #[arg(long)]
    next: PathBuf,
    /// The Debian that is booted
    #[arg(long, value_enum, default_value_t = recipe::Suite::Bookworm)]
    suite: recipe::Suite,
    /// Where the root file system is kept and the system runs
    #[arg(long)]
    cache: PathBuf,
    /// Where NVIDIA's driver libraries are, if they were fetched
    #[arg(long)]
    driver: PathBuf,
    /// Write the pictures of the first hour into this folder
    #[arg(long)]
    screens: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(reason) = lacking() {
        println!("SKIPPED the system test: {reason}");
        return ExitCode::SUCCESS;
    }
    match run(&arguments) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("system test: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Why this machine cannot boot a system in namespaces.
fn lacking() -> Option<String> {
    let namespaces = ["--mount", "--pid", "--uts", "--ipc", "--cgroup", "--net"];
    if let Some(reason) = rootfs::lacking(&namespaces) {
        return Some(reason);
    }
    let Some(cgroups) = cgroup_mount() else {
        return Some("no cgroup v2 is mounted".into());
    };
    let own = cgroups.join(format!("rtswap-system-{}", std::process::id()));
    let made = fs::create_dir(&own).and_then(|()| fs::remove_dir(&own));
    made.is_err()
        .then(|| format!("root may make no cgroup in {}", cgroups.display()))
}

/// Runs all checks; how many failed.
fn run(arguments: &Arguments) -> Result<usize> {
    for repository in [&arguments.repository, &arguments.next] {
        ensure!(
            repository.join("pool").is_dir(),
            "{} is no repository: run `cargo xtask system-test`",
            repository.display()
        );
    }
    let root = rootfs::ready(&arguments.cache, &recipe::recipe(arguments.suite))?;
    let image = image(&arguments.cache)?;
    // A system that outlives its bound is killed by the kernel when we end.
    thread::spawn(|| {
        thread::sleep(BOUND);
        eprintln!("the system test does not end within {BOUND:?}");
        std::process::exit(FAILED.into());
    });
    let start = Instant::now();
    sweep(&arguments.cache)?;
    let machine = Machine::boot(&root, image.as_deref(), &arguments.cache)?;
    eprintln!("booted, {:.1} s", start.elapsed().as_secs_f64());
    for (repository, name) in [
        (&arguments.repository, "repository"),
        (&arguments.next, "next"),
    ] {
        copy(repository, &machine.shared().join(name))?;
    }
    checks::prepare(&machine, &root, &arguments.driver)?;
    let mut report = Report::new(&machine);
    checks::all(&mut report, arguments.screens.as_deref(), image.is_some());
    println!("{} passed, {} failed", report.passed, report.failed);
    Ok(report.failed)
}

/// The image of Debian 11 for containers, unless no archive has it any more.
fn image(cache: &Path) -> Result<Option<PathBuf>> {
    match rootfs::ready(cache, &recipe::image()) {
        Ok(image) => Ok(Some(image)),
        Err(error) if error.is::<NoArchive>() => {
            println!("SKIPPED containers of Debian 11: {error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = Command::new("cp")
        .arg("--recursive")
        .args([from, to])
        .status()
        .context("cp")?;
    ensure!(status.success(), "{} cannot be copied", from.display());
    Ok(())
}

/// Removes what runs left that were killed themselves; their systems ended with them.
fn sweep(cache: &Path) -> Result<()> {
    let cgroups = cgroup_mount().context("no cgroup v2 is mounted")?;
    for folder in [cache, &cgroups] {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Some(pid) = name.strip_prefix("rtswap-system-") else {
                continue;
            };
            if !Path::new("/proc").join(pid).exists() {
                machine::remove(&path);
            }
        }
    }
    Ok(())
}
