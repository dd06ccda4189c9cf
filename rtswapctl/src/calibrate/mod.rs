//! `rtswapctl calibrate`: what swapping costs on this machine, by real swaps of a private daemon.
//!
//! `measure` takes the samples by a `holder` whose memory is swapped, and has `calls` time the driver's calls; `model` makes
//! the costs, ρ and δ of them, `target` is the daemon that is to use them, `text` what is told.

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
    let file = found.calibration(&place).to_toml();
    // First the file: what the daemon refuses is not lost.
    if let Some(path) = export {
        fs::write(path, &file).map_err(|source| unwritable(path, source))?;
    }
    let used = match has_daemon.then(|| target::store(runtime_dir, &file)) {
        // The file has it.
        Some(Err(failure)) if export.is_some() => {
            output::note(&format!("not given to rtswapd: {failure}"));
            None
        }
        used => used.transpose()?,
    };
    if options.json {
        output::json(&Answer::new(&place, &found, used))
    } else {
        output::text(&text::told(&place, &found, used, export))
    }
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
        })
    }

    /// As the daemon keeps it.
    fn calibration(&self, place: &Place) -> Calibration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let note = |key: &str, value: String| (key.to_owned(), value);
        let mut notes = vec![
            note("swaps", self.swaps.to_string()),
            note("host_stalls", self.stalls.to_string()),
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
