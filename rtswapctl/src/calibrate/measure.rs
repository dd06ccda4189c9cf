//! What is measured: the driver's calls for a chunk, and real swaps by a private daemon, over chunk sizes and volumes, each direction beside a copier in the
//! other one at last.

use std::ffi::OsString;

use indicatif::{ProgressBar, ProgressStyle};
use rtswap_policy::cost::Sample;
use rtswap_policy::units::{Bytes, Nanos};

use super::calls::{self, Calls};
use super::holder::{Holder, Pair};
use crate::trial::TrialError;
use crate::trial::daemon::PrivateDaemon;
use crate::trial::interrupt::Interrupt;
use crate::trial::neighbor::{Copies, Neighbor};
use crate::trial::place::Place;
use crate::trial::stalls::StallWitness;

/// The smallest chunk that CUDA maps.
const LEAST_CHUNK: u64 = 2 << 20;
/// The largest that is tried.
const MOST_CHUNK: u64 = 256 << 20;
/// A GPU has at least so many chunks: fewer are no choice for the planner.
const LEAST_CHUNKS: u64 = 16;

/// How long a swap of the larger volume takes about: long enough that what the host adds is little.
const SPAN: Nanos = Nanos(150_000_000);
/// The larger volume at most.
const MOST_VOLUME: u64 = 1 << 30;
/// The part of the GPU's memory that it takes at most.
const VOLUME_PART: u64 = 6;
/// By how much the smaller volume is smaller.
const SMALLER: u64 = 8;
/// What the first swaps move, to know the speed about.
const FIRST_CHUNKS: u64 = 2;

/// How often each volume is swapped.
const ROUNDS: usize = 5;

/// What is known of the private daemon's GPU before it was measured: slower than any link, so that no swap is overdue.
const SLOWEST: &str = "base_us = 100000.0\nper_chunk_us = 2000.0\ngib_per_s = 0.02\n";

/// All samples of one machine.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The driver's calls for a chunk, by its size.
    pub(super) calls: Vec<(Bytes, Calls)>,
    /// Each direction with the other copy engine idle.
    pub(super) alone: Both,
    /// The same with the other copy engine loaded, at one chunk size.
    pub(super) loaded: Both,
    /// How often the host stood still.
    pub(super) stalls: u64,
    /// How many samples count although the host stood still in each try. The witness does not tell which direction of a
    /// pair it held up.
    pub(super) stalled: usize,
}

/// Samples of both directions.
#[derive(Debug, Default)]
pub(super) struct Both {
    pub(super) out: Vec<Sample>,
    pub(super) into: Vec<Sample>,
}

impl Measured {
    /// Counts both directions of a pair.
    fn add(&mut self, pair: Pair) {
        self.alone.out.push(pair.out);
        self.alone.into.push(pair.into);
        self.stalled += 2 * usize::from(pair.is_stalled);
    }

    /// Counts the direction against these copies, which alone was measured under load.
    fn add_loaded(&mut self, pair: Pair, copies: Copies) {
        match copies {
            Copies::Out => self.loaded.into.push(pair.into),
            _ => self.loaded.out.push(pair.out),
        }
        self.stalled += usize::from(pair.is_stalled);
    }
}

/// A machine that is measured.
pub(super) struct Bench<'a> {
    place: &'a Place,
    preload: &'a OsString,
    interrupt: &'a Interrupt,
    stalls: StallWitness,
    bar: ProgressBar,
    /// The larger volume, once it is known.
    volume: Bytes,
    measured: Measured,
}

impl<'a> Bench<'a> {
    /// `preload` is what makes a program one of an agent.
    pub(super) fn new(place: &'a Place, preload: &'a OsString, interrupt: &'a Interrupt) -> Self {
        // The calls, the first chunk size, those that are tried, and two directions under load.
        let steps = 2 + chunks_of(place.memory).count() as u64 + 2;
        let style = ProgressStyle::with_template("{msg:<28} {bar:40} {pos}/{len}");
        let bar = ProgressBar::new(steps);
        Self {
            place,
            preload,
            interrupt,
            stalls: StallWitness::start(),
            bar: match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            },
            volume: Bytes::ZERO,
            measured: Measured::default(),
        }
    }

    /// Times the calls for chunks of all sizes, and swaps by each, with the other copy engine idle.
    pub(super) fn sweep(&mut self) -> Result<&Measured, TrialError> {
        self.step("the driver's calls".into());
        let sizes: Vec<_> = chunks_of(self.place.memory).collect();
        self.measured.calls = calls::time(self.place, &sizes, self.interrupt)?;
        self.volume = self.find_volume()?;
        for chunk in sizes {
            self.step(format!("swaps by {} MiB", chunk.0 >> 20));
            let daemon = self.daemon(chunk)?;
            let large = self.large(chunk);
            let mut sizes = vec![large, (large / SMALLER).max(1)];
            sizes.dedup();
            for chunks in sizes {
                let pairs = self.rounds(&daemon, chunk, chunks)?;
                for pair in pairs {
                    self.measured.add(pair);
                }
            }
        }
        Ok(&self.measured)
    }

    /// Swaps in chunks of this size beside a program that copies in the other direction.
    pub(super) fn load(mut self, chunk: Bytes) -> Result<Measured, TrialError> {
        let chunks = self.large(chunk);
        let daemon = self.daemon(chunk)?;
        for copies in [Copies::In, Copies::Out] {
            self.step(match copies {
                Copies::Out => "swaps in beside copies out".into(),
                _ => "swaps out beside copies in".into(),
            });
            let neighbor = Neighbor::start(self.place, copies, self.interrupt)?;
            let pairs = self.rounds(&daemon, chunk, chunks)?;
            neighbor.finish(self.interrupt)?;
            for pair in pairs {
                self.measured.add_loaded(pair, copies);
            }
        }
        self.measured.stalls = self.stalls.count();
        self.bar.finish_and_clear();
        Ok(self.measured)
    }

    /// The larger volume, by the speed of some first swaps.
    fn find_volume(&self) -> Result<Bytes, TrialError> {
        self.step("the first swaps".into());
        let chunks: Vec<_> = chunks_of(self.place.memory).collect();
        let chunk = chunks[chunks.len() / 2];
        let daemon = self.daemon(chunk)?;
        let mut holder = self.holder(&daemon, chunk, FIRST_CHUNKS)?;
        let Pair { out, into, .. } = holder.swap()?;
        let slower = out.took.max(into.took).0.max(1);
        let moved = out.chunks * chunk.0;
        let volume = u128::from(moved) * u128::from(SPAN.0) / u128::from(slower);
        let most = MOST_VOLUME.min(self.place.memory / VOLUME_PART);
        Ok(Bytes(u64::try_from(volume).unwrap_or(u64::MAX).min(most)))
    }

    /// The chunks of the larger volume.
    fn large(&self, chunk: Bytes) -> u64 {
        (self.volume.0 / chunk.0).max(1)
    }

    fn rounds(
        &self,
        daemon: &PrivateDaemon,
        chunk: Bytes,
        chunks: u64,
    ) -> Result<Vec<Pair>, TrialError> {
        let mut holder = self.holder(daemon, chunk, chunks)?;
        // The first swap pins the backing store.
        holder.swap()?;
        (0..ROUNDS).map(|_| holder.swap()).collect()
    }

    fn holder<'b>(
        &'b self,
        daemon: &'b PrivateDaemon,
        chunk: Bytes,
        chunks: u64,
    ) -> Result<Holder<'b>, TrialError> {
        let what = (self.preload, chunk, chunks);
        Holder::start(self.place, daemon, what, (self.interrupt, &self.stalls))
    }

    fn daemon(&self, chunk: Bytes) -> Result<PrivateDaemon, TrialError> {
        let (uuid, chunk) = (&self.place.uuid, chunk.0);
        let configuration = format!(
            "version = 1\n[daemon]\nprobes = false\n[[gpu]]\nuuid = \"{uuid}\"\nchunk = \"{}MiB\"\n\
             [gpu.swap_cost.out]\n{SLOWEST}[gpu.swap_cost.in]\n{SLOWEST}",
            chunk >> 20
        );
        PrivateDaemon::start(&configuration, self.interrupt)
    }

    fn step(&self, what: String) {
        self.bar.set_message(what);
        self.bar.inc(1);
    }
}

/// The chunk sizes to choose from on a GPU with so much memory, the smallest first.
pub(super) fn chunks_of(memory: u64) -> impl Iterator<Item = Bytes> {
    let most = MOST_CHUNK.min(memory / LEAST_CHUNKS).max(LEAST_CHUNK);
    let sizes = std::iter::successors(Some(LEAST_CHUNK), |size| size.checked_mul(2));
    sizes.take_while(move |size| *size <= most).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_of_any_size_has_a_chunk() {
        let of = |mib: u64| -> Vec<_> { chunks_of(mib << 20).map(|it| it.0 >> 20).collect() };
        assert_eq!(of(16), [2]);
        assert_eq!(of(64), [2, 4]);
        assert_eq!(of(768), [2, 4, 8, 16, 32]);
        assert_eq!(of(141 << 10).len(), 8);
    }

    #[test]
    fn samples_of_a_host_that_stood_still_are_counted() {
        let sample = Sample {
            chunks: 1,
            chunk: Bytes(LEAST_CHUNK),
            took: Nanos(1),
        };
        let pair = |is_stalled| Pair {
            out: sample,
            into: sample,
            is_stalled,
        };
        let mut measured = Measured::default();
        measured.add(pair(false));
        measured.add_loaded(pair(false), Copies::In);
        assert_eq!(measured.stalled, 0);
        measured.add(pair(true));
        measured.add_loaded(pair(true), Copies::Out);
        assert_eq!(measured.stalled, 3);
        let Measured { alone, loaded, .. } = measured;
        let counts = [&alone, &loaded].map(|both| (both.out.len(), both.into.len()));
        assert_eq!(counts, [(2, 2), (1, 1)]);
    }
}
