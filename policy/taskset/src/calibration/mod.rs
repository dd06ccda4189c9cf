//! The calibration of a GPU: what `rtswapctl calibrate` measured, as rtswapd keeps it and `rtswapctl plan --on` reads
//! it. `read` knows the keys and the rules, `write` has the text, `date` the calendar.

mod date;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use date::rfc3339;
pub use read::parse;
pub(crate) use read::{gpu, measured};
pub(crate) use write::{fraction, quoted};

use rtswap_policy::cost::SwapCost;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

/// The longest `base` and `per_chunk`.
pub const MAX_COST: Nanos = Nanos(10_000_000_000);

/// One more than the most GiB/s that a calibration may give.
pub const RATE_LIMIT: u64 = 1_000_000;

/// The most notes of a calibration.
pub const MAX_NOTES: usize = 64;

/// What swapping costs on one GPU, by measurement. [`parse`] checks that the costs are at most [`MAX_COST`], rates and
/// `duplex` above 0, and δ a multiple of [`crate::GRANULARITY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The UUID of the GPU or MIG instance as NVML writes it.
    pub gpu: String,
    /// The product's name, for people.
    pub name: Option<String>,
    /// The time of the measurement, in seconds since 1970.
    pub measured: u64,
    /// The δ that was chosen, in bytes.
    pub chunk: Bytes,
    /// ρ: the rate of a copy engine while the other one copies too over its rate alone, of the worse direction.
    pub duplex: Ppm,
    /// The cost while the other copy engine is idle.
    pub swap_cost: SwapCost,
    /// What else was measured, by name, for people.
    pub notes: Vec<(String, String)>,
}
