//! Drivers before cuInit, without probes and with them.
//!
//! Every function then refuses soon, in the real driver without a GPU too, so what a probe adds is seen
//! on the driver's own instructions: the programs follow the call from its entry to its return, and count
//! the refusal. Three copies of each library take turns, since probes are a file's.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rtswap_probe_abi::functions::{FUNCTIONS, Function};
use rtswap_probe_abi::records::TELL_CALLS;
use rtswap_probes_test::prologues::{self, PROLOGUES};
use rtswap_probes_test::{Options, Place, Probes};

use crate::subject::{CALLS, Library, Subject};

const ALLOC: &str = "cuMemAlloc_v2";
const FREE: &str = "cuMemFree_v2";

/// What the probes of a real driver may add at most, in terms of what they add to `push`.
const MOST: f64 = 1.3;

/// The beginnings of the simulated GPU's functions; the first is what the others are compared with.
const SIMULATED: [&str; 3] = ["push", "cmpl, je", "mov"];

/// Where in a function its probe is.
type At = fn(Place) -> u64;

/// Where the probes are: nowhere, at the functions' starts, where the daemon puts them.
const AT: [Option<At>; 3] = [None, Some(|place| place.start), Some(|place| place.probe)];

/// A driver and what a pair of calls takes in each of its copies, in the order of [`AT`].
struct Driver {
    name: String,
    copies: Vec<Subject>,
}

/// Prints a row for each driver. An error where the probes of one of `libraries` add more than [`MOST`].
pub(crate) fn measure(rounds: u32, libraries: &[PathBuf]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut probes = Probes::load(Options {
        flags: TELL_CALLS,
        ..Options::default()
    })?;
    let mut drivers = Vec::new();
    for (number, name) in SIMULATED.iter().enumerate() {
        let folder = folder.path().join(format!("simulated-{number}"));
        fs::create_dir(&folder)?;
        let library = simulated(name, &folder)?;
        drivers.push(copies(
            format!("simulated, {name}"),
            &library,
            &folder,
            &mut probes,
        )?);
    }
    for (number, library) in libraries.iter().enumerate() {
        let folder = folder.path().join(format!("real-{number}"));
        fs::create_dir(&folder)?;
        drivers.push(copies(version(library), library, &folder, &mut probes)?);
    }
    for _ in 0..rounds {
        let copies = drivers.iter_mut().flat_map(|driver| &mut driver.copies);
        copies.for_each(Subject::measure);
    }
    let seen = probes.processes()?;
    let process = seen.get(&std::process::id()).context("not seen")?;
    let calls = drivers.len() as u64 * 2 * 2 * CALLS * u64::from(rounds);
    ensure!(process.failures == calls, "{calls} calls: {process:?}");
    println!(
        "{:26} {:>14} {:>14} {:>14}  added, over push's",
        "driver", "bare", "at the start", "as the daemon"
    );
    let (mut push, mut dear) = (None, Vec::new());
    for Driver { name, copies } in &drivers {
        let [bare, start, place] = &copies[..] else {
            unreachable!("as many as AT");
        };
        let added = |figure: fn(&Subject) -> f64| figure(place) - figure(bare);
        let added = [added(Subject::least), added(Subject::median)];
        let [least, median] = *push.get_or_insert(added);
        let show = |of: &Subject| format!("{:.0} {:.0}", of.least(), of.median());
        println!(
            "{name:26} {:>14} {:>14} {:>14}  {:.2} {:.2}",
            show(bare),
            show(start),
            show(place),
            added[0] / least,
            added[1] / median,
        );
        if added[1] / median > MOST && libraries.iter().any(|library| version(library) == *name) {
            dear.push(name);
        }
    }
    ensure!(
        dear.is_empty(),
        "more than {MOST} times as dear as push: {dear:?}"
    );
    Ok(())
}

/// Of a driver, which the folder that it lies in is named after.
fn version(library: &Path) -> String {
    let folder = library.parent().and_then(Path::file_name);
    folder.unwrap_or_default().to_string_lossy().into_owned()
}

/// The simulated GPU's driver whose functions begin so.
fn simulated(name: &str, folder: &Path) -> Result<PathBuf> {
    let prologue = PROLOGUES.iter().find(|prologue| prologue.name == name);
    let program = std::env::current_exe()?;
    let driver = program.with_file_name("libsimgpu_cuda.so");
    ensure!(
        driver.is_file(),
        "{}: build simgpu-cuda first",
        driver.display()
    );
    prologues::build(*prologue.context("no such prologue")?, &driver, folder)
}

/// Copies of a driver, with probes as [`AT`] says.
fn copies(name: String, library: &Path, folder: &Path, probes: &mut Probes) -> Result<Driver> {
    let mut copies = Vec::new();
    let probed = |symbol: &str| FUNCTIONS.iter().find(|on| on.symbol == symbol);
    let functions = [ALLOC, FREE].map(probed);
    let functions: Vec<_> = functions.into_iter().flatten().copied().collect();
    let functions: &'static [Function] = functions.leak();
    for (number, at) in AT.into_iter().enumerate() {
        let copy = folder.join(format!("copy-{number}.so"));
        fs::copy(library, &copy)?;
        let subject = Subject::new(Library::open(&copy)?, ALLOC, FREE)?;
        if let Some(at) = at {
            let attached = probes.attach_to(&copy, functions, at)?;
            ensure!(attached == 2, "attached to {attached}");
        }
        copies.push(subject);
    }
    Ok(Driver { name, copies })
}
