//! What is told: a line of JSON for each figure, as soon as there is one, so that what ends this program hides none before.

use std::io::{Write as _, stdout};

use anyhow::Result;
use serde::Serialize;

/// GiB/s from the GPU and to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// From the GPU.
    pub out: f64,
    /// To it.
    #[serde(rename = "in")]
    pub into: f64,
}

/// One chunk size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Size {
    /// δ.
    pub chunk_mib: u64,
    /// How many of them were moved at a time.
    pub chunks: u64,
    /// Plain copies to and from pinned memory, δ at a time.
    pub raw: Option<Rates>,
    /// The agent, from the request to its acknowledgement.
    pub swap: Option<Rates>,
    /// What the calls for one chunk take.
    pub calls_us: Option<Calls>,
}

/// Medians in µs of the virtual memory calls for one chunk.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Calls {
    pub create: f64,
    pub map: f64,
    pub access: f64,
    pub unmap: f64,
    pub release: f64,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// A chunk size; what could not be measured of it was told in a line before.
    Size(Size),
    /// The smallest δ that comes near enough to the best, see [`choose`], and how many of them were moved at a time.
    Chosen { chosen_chunk_mib: u64, chunks: u64 },
    /// ρ of plain copies: the slower direction alone over both at once.
    RawDuplex { raw_duplex: f64 },
    /// A kernel's time while both copy engines are busy, over its time alone.
    Inflation { kernel_inflation: f64 },
    /// How fast chunks are fingerprinted.
    Fingerprint { fingerprint_gib_per_s: f64 },
    /// ρ of two agents, at the chosen δ.
    SwapDuplex { swap_duplex: f64 },
    /// The driver's own checkpoint of a process that holds as much, in s.
    Checkpoint {
        bytes: u64,
        lock_s: f64,
        checkpoint_s: f64,
        restore_s: f64,
        unlock_s: f64,
    },
    /// What could not be measured, and why.
    Missing { what: String, error: String },
}

/// Prints a line.
pub(crate) fn tell(line: &Line) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}

/// Remembers whether anything is missing, and tells what.
#[derive(Default)]
pub(crate) struct Teller {
    missing: u32,
}

impl Teller {
    /// What was measured; an error is told as what is missing.
    pub(crate) fn measured<T>(&mut self, what: &str, measured: Result<T>) -> Result<Option<T>> {
        match measured {
            Ok(measured) => Ok(Some(measured)),
            Err(error) => {
                self.missing += 1;
                let (what, error) = (what.to_owned(), format!("{error:#}"));
                tell(&Line::Missing { what, error })?;
                Ok(None)
            }
        }
    }

    /// How many figures are missing.
    pub(crate) fn missing(&self) -> u32 {
        self.missing
    }
}

/// Within this of the best rate a smaller δ is the better one: evictions are by whole chunks.
const NEAR: f64 = 0.98;

/// The smallest δ whose slower direction is near the best, of those whose raw copies and swaps were measured.
pub(crate) fn choose(sizes: &[Size]) -> Option<&Size> {
    let slower = |size: &Size| {
        let (raw, swap) = (size.raw?, size.swap?);
        Some((swap.out / raw.out).min(swap.into / raw.into))
    };
    let best = sizes.iter().filter_map(slower).fold(0.0, f64::max);
    let is_near = |size: &&Size| slower(size).is_some_and(|slower| slower >= best * NEAR);
    let near = sizes.iter().filter(is_near);
    near.min_by_key(|size| size.chunk_mib)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(chunk_mib: u64, share: f64) -> Size {
        let rates = |rate| Rates {
            out: rate,
            into: 2.0 * rate,
        };
        let calls_us = Calls {
            create: 1.0,
            map: 1.0,
            access: 1.0,
            unmap: 1.0,
            release: 1.0,
        };
        Size {
            chunk_mib,
            chunks: 1,
            raw: Some(rates(10.0)),
            swap: Some(rates(10.0 * share)),
            calls_us: Some(calls_us),
        }
    }

    #[test]
    fn the_smallest_near_the_best_is_chosen() {
        let sizes = [
            size(2, 0.5),
            size(16, 0.94),
            size(64, 0.95),
            size(256, 0.93),
        ];
        let chosen = |sizes: &[Size]| choose(sizes).map(|size| size.chunk_mib);
        assert_eq!(chosen(&sizes), Some(16));
        assert_eq!(chosen(&sizes[..1]), Some(2));
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_size_that_was_not_measured_is_not_chosen() {
        let mut sizes = [size(2, 0.95), size(4, 0.94), size(8, 0.95)];
        sizes[0].swap = None;
        sizes[1].raw = None;
        assert_eq!(choose(&sizes).map(|size| size.chunk_mib), Some(8));
        assert!(choose(&sizes[..2]).is_none());
    }

    #[test]
    fn an_error_is_counted_and_hides_nothing_after_it() -> Result<()> {
        let mut teller = Teller::default();
        let broken = Err::<f64, _>(anyhow::anyhow!("broken"));
        assert!(teller.measured("a figure", broken)?.is_none());
        assert_eq!(teller.measured("another", Ok(1.0))?, Some(1.0));
        assert_eq!(teller.missing(), 1);
        Ok(())
    }

    #[test]
    fn a_line_says_what_it_is_of_by_its_keys() -> Result<()> {
        let line = Line::Size(size(2, 0.5));
        let told = serde_json::to_value(&line)?;
        assert_eq!(told["chunk_mib"], 2);
        assert_eq!(told["raw"]["in"], 20.0);
        let (what, error) = ("ρ".to_owned(), "broken".to_owned());
        let told = serde_json::to_string(&Line::Missing { what, error })?;
        assert_eq!(told, r#"{"what":"ρ","error":"broken"}"#);
        Ok(())
    }
}
