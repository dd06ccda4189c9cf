//! What is told, as JSON.

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
    pub raw: Rates,
    /// The agent, from the request to its acknowledgement.
    pub swap: Rates,
    /// What the calls for one chunk take.
    pub calls_us: Calls,
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

/// The driver's own checkpoint of a process that holds as much, in s.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Checkpoint {
    /// Each step.
    Took {
        bytes: u64,
        lock_s: f64,
        checkpoint_s: f64,
        restore_s: f64,
        unlock_s: f64,
    },
    /// Why there is none.
    Not { why: String },
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// By chunk size.
    pub sizes: Vec<Size>,
    /// The smallest δ that comes near enough to the best, see [`choose`].
    pub chosen_chunk_mib: u64,
    /// ρ of plain copies: the slower direction alone over both at once.
    pub raw_duplex: f64,
    /// ρ of two agents, at the chosen δ.
    pub swap_duplex: f64,
    /// How fast chunks are fingerprinted.
    pub fingerprint_gib_per_s: f64,
    /// A kernel's time while both copy engines are busy, over its time alone.
    pub kernel_inflation: f64,
    /// The driver's own way.
    pub checkpoint: Checkpoint,
}

/// Within this of the best rate a smaller δ is the better one: evictions are by whole chunks.
const NEAR: f64 = 0.98;

/// The smallest δ whose slower direction is near the best; there is at least one size.
pub(crate) fn choose(sizes: &[Size]) -> &Size {
    let slower = |size: &Size| (size.swap.out / size.raw.out).min(size.swap.into / size.raw.into);
    let best = sizes.iter().map(slower).fold(0.0, f64::max);
    let near = sizes.iter().filter(|size| slower(size) >= best * NEAR);
    near.min_by_key(|size| size.chunk_mib).unwrap_or(&sizes[0])
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
            raw: rates(10.0),
            swap: rates(10.0 * share),
            calls_us,
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
        assert_eq!(choose(&sizes).chunk_mib, 16);
        assert_eq!(choose(&sizes[..1]).chunk_mib, 2);
    }
}
