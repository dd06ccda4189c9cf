//! `rtswapctl calibrate`: what swapping costs on this machine, by real swaps of a private daemon.
//!
//! `measure` swaps the memory of a `holder`, and times the driver's calls by `calls`. `model` computes the costs, ρ and δ
//! from these samples. `target` is the daemon that is to use them, `text` the report.

mod calls;
mod holder;
mod measure;
mod model;
mod target;
mod text;

use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rtswap_policy::cost::{FitError, SwapCost};
use rtswap_policy::units::{Bytes, Ppm};
use rtswap_taskset::calibration::Calibration;
use rtswapctl::cli::CalibrateOptions;

use crate::agent;
use crate::failure::Failure;
use crate::output;
use crate::trial::interrupt::Interrupt;
use crate::trial::place::Place;
use calls::Calls;
use measure::{Bench, Measured};
use model::Way;
use text::Answer;

/// Measures, and has the daemon use what was measured.
pub(crate) fn calibrate(
    runtime_dir: Option<&Path>,
    options: &CalibrateOptions,
) -> Result<(), Failure> {
    let place = Place::find(options.gpu.as_deref())?;
    let preload = agent::preload(&agent::find(options.agent.as_deref())?)?;
    let export = options.export.as_deref();
    export.map_or(Ok(()), check_export)?;
    let has_daemon = target::check(runtime_dir, &place.uuid, options.export.is_none())?;
    let interrupt = Interrupt::watch()?;
    let bench = Bench::new(&place, &preload, &interrupt);
    let found = Findings::of(&place, bench)?;
    target::check_again(runtime_dir, &place.uuid)?;
    let store = |file: &str| target::store(runtime_dir, file);
    let file = found.calibration(&place).to_toml();
    let taken = keep(&file, export, &interrupt, has_daemon.then_some(store))?;
    if options.json {
        output::json(&Answer::new(&place, &found, &taken))?;
    } else {
        output::text(&text::told(&place, &found, &taken, export))?;
    }
    match taken {
        Taken::Refused(failure) if export.is_none() => Err(failure),
        // The file has it.
        Taken::Refused(failure) => {
            output::note(&format!("not given to rtswapd: {failure}"));
            Ok(())
        }
        Taken::Now | Taken::Later | Taken::Untold => Ok(()),
    }
}

/// What the daemon made of a calibration.
#[derive(Debug)]
enum Taken {
    /// It uses it from now on.
    Now,
    /// It keeps it, and uses it once nothing rests on what was before.
    Later,
    /// It did not take it.
    Refused(Failure),
    /// There is none to tell.
    Untold,
}

/// Keeps what was measured, unless the signal came: in the file first, because the daemon may refuse it.
fn keep(
    file: &str,
    export: Option<&Path>,
    interrupt: &Interrupt,
    store: Option<impl FnOnce(&str) -> Result<bool, Failure>>,
) -> Result<Taken, Failure> {
    interrupt.check()?;
    if let Some(path) = export {
        fs::write(path, file).map_err(|source| unwritable(path, source))?;
    }
    Ok(match store.map(|store| store(file)) {
        None => Taken::Untold,
        Some(Ok(true)) => Taken::Now,
        Some(Ok(false)) => Taken::Later,
        // What took a minute to measure is told all the same.
        Some(Err(failure)) => Taken::Refused(failure),
    })
}

/// An error if the file could not be written: told before anything is measured. The file stays as it is.
fn check_export(path: &Path) -> Result<(), Failure> {
    let tried = match fs::metadata(path) {
        Ok(found) if found.is_file() || found.is_dir() => {
            fs::OpenOptions::new().write(true).open(path)
        }
        // A pipe is nothing before its reader comes.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))
        }
        Err(error) => Err(error),
    };
    tried.map(drop).map_err(|source| unwritable(path, source))
}

fn unwritable(path: &Path, source: io::Error) -> Failure {
    Failure::Unwritable {
        file: path.to_owned(),
        source,
    }
}

/// What was found of one chunk size, with both copy engines idle.
#[derive(Clone, Copy, Debug)]
struct Size {
    chunk: Bytes,
    out: Way,
    into: Way,
    calls: Calls,
}

impl Size {
    /// The cost of a swap without what the slowest one took more.
    fn typical(&self) -> SwapCost {
        SwapCost {
            out: self.out.typical(),
            in_: self.into.typical(),
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
struct Findings {
    /// Of each chunk size, the smallest first.
    sizes: Vec<Size>,
    /// With the best chunk size.
    out: Way,
    into: Way,
    /// ρ.
    duplex: Ppm,
    /// The δ that serves best.
    chunk: Bytes,
    /// How many swaps were measured.
    swaps: usize,
    /// How often the host stood still.
    stalls: u64,
    /// How many of the swaps it held up in each try.
    stalled: usize,
}

impl Findings {
    fn of(place: &Place, mut bench: Bench<'_>) -> Result<Self, Failure> {
        let Measured { alone, calls, .. } = bench.sweep()?;
        let sizes = calls.iter().map(|(chunk, calls)| {
            Ok::<_, FitError>(Size {
                chunk: *chunk,
                out: Way::of(&alone.out, *chunk)?,
                into: Way::of(&alone.into, *chunk)?,
                calls: *calls,
            })
        });
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        let costs = sizes.iter().map(|size| (size.chunk, size.typical()));
        let chunk = model::choose(&costs.collect::<Vec<_>>(), Bytes(place.memory));
        let (mut out, mut into) = (Way::of(&alone.out, chunk)?, Way::of(&alone.into, chunk)?);
        let Measured {
            alone,
            loaded,
            stalls,
            stalled,
            ..
        } = bench.load(chunk)?;
        let duplex = model::duplex((&out, &into), &loaded);
        out.raise(&loaded.out, duplex);
        into.raise(&loaded.into, duplex);
        let swaps = [&alone, &loaded].map(|both| both.out.len() + both.into.len());
        Ok(Self {
            sizes,
            out,
            into,
            duplex,
            chunk,
            swaps: swaps.iter().sum(),
            stalls,
            stalled,
        })
    }

    /// As the daemon keeps it.
    fn calibration(&self, place: &Place) -> Calibration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let note = |key: &str, value: String| (key.to_owned(), value);
        let mut notes = vec![
            note("swaps", self.swaps.to_string()),
            note("host_stalls", self.stalls.to_string()),
            note("stalled_swaps", self.stalled.to_string()),
        ];
        let own = self.sizes.iter().find(|size| size.chunk == self.chunk);
        let calls = own.iter().flat_map(|size| size.calls.named());
        notes.extend(calls.map(|(call, us)| note(&format!("{call}_us"), format!("{us:.1}"))));
        if !place.driver.is_empty() {
            notes.push(note("driver", place.driver.clone()));
        }
        Calibration {
            gpu: place.uuid.clone(),
            name: Some(place.name.clone()).filter(|name| !name.is_empty()),
            measured: now.map_or(0, |since| since.as_secs()),
            chunk: self.chunk,
            duplex: self.duplex,
            swap_cost: SwapCost {
                out: self.out.cost,
                in_: self.into.cost,
            },
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::TrialError;

    #[test]
    fn what_the_daemon_refuses_is_no_loss_and_nothing_is_kept_after_the_signal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let refuse = |_: &str| Err(Failure::NoHome);
        let interrupt = Interrupt::watch().unwrap();
        let taken = keep("text", Some(&path), &interrupt, Some(refuse)).unwrap();
        assert!(
            matches!(taken, Taken::Refused(Failure::NoHome)),
            "{taken:?}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let interrupted = keep("other", Some(&path), &Interrupt::told(), Some(refuse));
        assert!(
            matches!(interrupted, Err(Failure::Trial(TrialError::Interrupted))),
            "{interrupted:?}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let take = |used| keep("text", None, &interrupt, Some(move |_: &str| Ok(used)));
        assert!(matches!(take(true), Ok(Taken::Now)));
        assert!(matches!(take(false), Ok(Taken::Later)));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_and_one_that_can_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        check_export(&file).unwrap();
        assert!(!file.exists());
        fs::write(&file, "old").unwrap();
        check_export(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        for wrong in [
            folder.path().to_owned(),
            folder.path().join("no/a"),
            file.join("a"),
        ] {
            let told = check_export(&wrong);
            assert!(matches!(told, Err(Failure::Unwritable { .. })), "{wrong:?}");
        }
    }
}
