//! The GPUs of the comparison.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing, Undrained};
use rtswap_policy::task::MemoryProfile;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::{MILLISECOND, SECOND};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A GPU, and how much of it each program of a mix takes: more than half, so that no two fit together.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// What tables call it.
    pub name: &'static str,
    /// mᴰ.
    pub capacity: Bytes,
    /// Of one program, with the half GiB of a CUDA context that cannot be swapped.
    pub footprint: Bytes,
    /// What swapping costs.
    pub swap_cost: SwapCost,
}

impl Card {
    /// 24 GiB on PCIe 3.0 with the costs of the RT-Swap paper's machine, and programs of 14 GiB.
    pub const SMALL: Self = Self {
        name: "24 GiB",
        capacity: Bytes(24 * GIB),
        footprint: Bytes(14 * GIB),
        swap_cost: SwapCost::PAPER,
    };

    /// 80 GiB on PCIe 5.0, and programs of 44 GiB. The link is assumed to copy 50 GiB/s each way, of 63 that
    /// it has, and a chunk to cost as much as on the other card.
    pub const LARGE: Self = {
        const LINK: DirectionCost = DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos(80_000),
            bytes_per_second: 50 << 30,
        };
        Self {
            name: "80 GiB",
            capacity: Bytes(80 * GIB),
            footprint: Bytes(44 * GIB),
            swap_cost: SwapCost {
                out: LINK,
                in_: LINK,
            },
        }
    };

    /// The memory of one program.
    pub fn memory(&self) -> MemoryProfile {
        MemoryProfile {
            footprint: self.footprint,
            swappable: self.footprint.saturating_sub(Bytes(GIB / 2)),
        }
    }

    /// The scheduler's configuration with the daemon's defaults for best-effort. A program leaves the GPU
    /// within 50 ms.
    pub fn config(&self) -> Config {
        Config {
            capacity: self.capacity,
            chunk: Bytes(64 * MIB),
            swap_cost: self.swap_cost,
            best_effort_reserve: Bytes::ZERO,
            drain: Nanos(50 * MILLISECOND),
            undrained: Undrained::Beside,
            sharing: Sharing::Exclusive,
            dispatch_latency: Nanos(50_000),
            overrun: Overrun::Continue,
            swap_share: Ppm(100_000),
            longest_wait: Nanos(15 * SECOND),
            idle_gap: Nanos(2_000_000),
            objective: Objective::Time,
            test: Test::Demand,
            duplex: Ppm::ONE,
        }
    }
}
