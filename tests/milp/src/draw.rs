//! Random instances in three families.

use rtswap_policy::admission::{Platform, Test};
use rtswap_policy::assign::{Demand, Infeasible, Objective, assign};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::task::{MemoryProfile, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use crate::random::Random;

const MIB: u64 = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;
const MILLI: f64 = 1e6;

/// Table III of the paper: footprint and swappable memory in GB, WCET in ms, of four models in
/// three resolutions.
const MODELS: [(f64, f64, f64); 12] = [
    (1.4, 0.7, 29.0),
    (2.4, 1.4, 36.0),
    (3.8, 2.7, 48.0),
    (2.3, 1.1, 48.0),
    (3.6, 2.6, 51.0),
    (6.2, 5.2, 63.0),
    (1.0, 0.4, 31.0),
    (1.6, 0.9, 34.0),
    (2.7, 1.8, 42.0),
    (1.6, 1.0, 41.0),
    (3.2, 2.2, 45.0),
    (5.7, 4.5, 63.0),
];

/// How an instance is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// The paper's models, periods, GPU and costs.
    Paper,
    /// Models, periods, GPU and costs from wide ranges.
    Wild,
    /// An instance of the other two families, its times scaled so that the left side of Eq. (3) is
    /// near one.
    Edge,
}

impl Family {
    /// All families.
    pub(crate) const ALL: [Self; 3] = [Self::Paper, Self::Wild, Self::Edge];

    /// The family's name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper-like",
            Self::Wild => "wild",
            Self::Edge => "edge",
        }
    }
}

/// One problem for a fixed chunk size.
pub(crate) struct Instance {
    /// The GPU's costs, with δ.
    pub(crate) platform: Platform,
    /// The GPU's memory mᴰ.
    pub(crate) capacity: Bytes,
    /// The tasks.
    pub(crate) demands: Vec<Demand>,
}

impl Random {
    /// One instance of `family`.
    pub(crate) fn instance(&mut self, family: Family) -> Instance {
        match family {
            Family::Paper => self.paper(),
            Family::Wild => self.wild(),
            Family::Edge => {
                let drawn = if self.below(2) == 0 {
                    self.paper()
                } else {
                    self.wild()
                };
                self.near_the_edge(drawn)
            }
        }
    }

    fn paper(&mut self) -> Instance {
        let bases = if self.below(2) == 0 {
            0.0
        } else {
            self.between(0.0, 5.0) * MILLI
        };
        let direction = |gib: f64, per_chunk| DirectionCost {
            base: Nanos(bases as u64),
            per_chunk: Nanos(per_chunk),
            bytes_per_second: (gib * GIB) as u64,
        };
        let early = self.below(3) == 0;
        let tasks = 4 + self.below(10);
        let demand = |random: &mut Self| {
            let (footprint, swappable, wcet) = MODELS[random.below(12) as usize];
            let period = random.between(3_000.0, 5_000.0) * MILLI;
            let share = if early { random.between(0.6, 1.0) } else { 1.0 };
            Demand {
                timing: Timing {
                    period: Nanos(period as u64),
                    deadline: Nanos((period * share) as u64),
                    wcet: Nanos((wcet * MILLI) as u64),
                },
                memory: MemoryProfile {
                    footprint: Bytes((footprint * GIB) as u64),
                    swappable: Bytes((swappable * GIB) as u64),
                },
            }
        };
        Instance {
            platform: platform(
                direction(12.08, 73_600),
                direction(11.18, 79_500),
                (2 * MIB) << self.below(8),
            ),
            capacity: Bytes(24 << 30),
            demands: (0..tasks).map(|_| demand(self)).collect(),
        }
    }

    fn wild(&mut self) -> Instance {
        let with_bases = self.below(2) == 0;
        let mut direction = || DirectionCost {
            base: Nanos(if with_bases {
                self.scaled(1e4, 2e7) as u64
            } else {
                0
            }),
            per_chunk: Nanos(self.below(400_000)),
            bytes_per_second: (self.scaled(1.0, 50.0) * GIB) as u64,
        };
        let (out, in_) = (direction(), direction());
        let tasks = 1 + self.below(12);
        let scale = self.scaled(500.0, 20_000.0);
        let demand = |random: &mut Self| {
            let period = random.scaled(0.3, 1.5) * scale * MILLI;
            let deadline = period * random.between(0.5, 1.2).min(1.0);
            let footprint = random.scaled(0.1, 12.0) * GIB;
            Demand {
                timing: Timing {
                    period: Nanos(period as u64),
                    deadline: Nanos(deadline as u64),
                    wcet: Nanos((deadline * random.scaled(0.000_5, 0.05)) as u64),
                },
                memory: MemoryProfile {
                    footprint: Bytes(footprint as u64),
                    swappable: Bytes((footprint * random.between(0.6, 1.2).min(1.0)) as u64),
                },
            }
        };
        let demands: Vec<_> = (0..tasks).map(|_| demand(self)).collect();
        let sizes = || demands.iter().map(|d| d.memory.footprint.0);
        let (sum, most) = (
            sizes().sum::<u64>() as f64,
            sizes().max().unwrap_or(0) as f64,
        );
        let capacity = (sum * self.between(0.5, 1.05)).max(most * self.between(0.99, 1.5));
        Instance {
            platform: platform(out, in_, (2 * MIB) << self.below(8)),
            capacity: Bytes(capacity as u64),
            demands,
        }
    }

    fn near_the_edge(&mut self, mut instance: Instance) -> Instance {
        for _ in 0..4 {
            let Instance {
                platform,
                capacity,
                demands,
            } = &instance;
            let side = match assign(
                Test::Theorem1,
                platform,
                *capacity,
                demands,
                Objective::Time,
            ) {
                Ok(plan) => plan.analysis.demand,
                Err(Infeasible::NotSchedulable(tried)) => tried.analysis.demand,
                Err(_) => return instance,
            };
            let factor = side * (1.0 + self.between(-1.0, 1.0) * self.scaled(1e-6, 1e-2));
            for demand in &mut instance.demands {
                let timing = &mut demand.timing;
                let scaled = |span: Nanos| Nanos((span.0 as f64 * factor) as u64);
                timing.period = scaled(timing.period);
                timing.deadline = scaled(timing.deadline).max(timing.wcet);
            }
        }
        instance
    }
}

fn platform(out: DirectionCost, in_: DirectionCost, chunk: u64) -> Platform {
    Platform {
        cost: SwapCost { out, in_ },
        chunk: Bytes(chunk),
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
        duplex: Ppm::ONE,
    }
}
