//! The `[[gpu]]` and `[scheduler]` tables, and what they make of a GPU.

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{Config, Overrun, Sharing};
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use serde::Deserialize;

use super::Uuid;
use super::value::{Micros, Millis, Share, Size};

/// `[scheduler]`: the same for all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerConfig {
    sharing: SharingWord,
    overrun: OverrunWord,
    objective: ObjectiveWord,
    test: TestWord,
    best_effort_quantum_ms: Millis,
    drain_ms: Option<Millis>,
    dispatch_latency_us: Micros,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SharingWord {
    Exclusive,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OverrunWord {
    Continue,
    Demote,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ObjectiveWord {
    Time,
    Volume,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TestWord {
    Theorem1,
    Demand,
    Pipelined,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            sharing: SharingWord::Exclusive,
            overrun: OverrunWord::Continue,
            objective: ObjectiveWord::Time,
            test: TestWord::Demand,
            best_effort_quantum_ms: Millis::from_nanos(100_000_000),
            drain_ms: None,
            dispatch_latency_us: Micros::from_nanos(200_000),
        }
    }
}

impl SchedulerConfig {
    /// What is wrong with it on `gpus`, in words. Where there are none, GPUs are learned.
    pub(super) fn complaint<'a>(
        &self,
        gpus: impl Iterator<Item = &'a GpuConfig>,
    ) -> Option<String> {
        let drain = self.drain_ms?.0;
        let least = |gpu: &GpuConfig| least_drain(&gpu.swap_cost(), gpu.chunk());
        let (least, whose) = gpus
            .map(|gpu| (least(gpu), format!("the costs of {}", gpu.uuid)))
            .max()
            .unwrap_or_else(|| {
                let gpu = GpuConfig::learned(Uuid::of([0; 16]));
                (least(&gpu), "the built-in costs".to_owned())
            });
        // Rounded up, so that what is said is enough.
        let micros = least.0.div_ceil(1_000);
        (drain < least).then(|| {
            format!(
                "drain_ms is {drain}, but by {whose} a best-effort swap operation stops only after \
                 one base and one chunk, within {least}; write {}.{:03} or more, or leave it out",
                micros / 1_000,
                micros % 1_000
            )
        })
    }
}

/// One `[[gpu]]`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuConfig {
    /// Which, or which MIG instance.
    pub uuid: Uuid,
    memory: Option<Size>,
    reserve: Option<Size>,
    best_effort_reserve: Option<Size>,
    #[serde(default = "default_chunk")]
    chunk: Size,
    duplex: Option<Share>,
    #[serde(default)]
    swap_cost: SwapCostTables,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SwapCostTables {
    out: CostTable,
    r#in: CostTable,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    base_us: Micros,
    per_chunk_us: Micros,
    gib_per_s: f64,
}

impl Default for SwapCostTables {
    /// The fit to the paper's Fig. 4: an RTX 3090 on PCIe 3.0.
    fn default() -> Self {
        let table = |per_chunk, gib_per_s| CostTable {
            base_us: Micros::from_nanos(0),
            per_chunk_us: Micros::from_nanos(per_chunk),
            gib_per_s,
        };
        Self {
            out: table(73_600, 12.08),
            r#in: table(79_500, 11.18),
        }
    }
}

/// What a driver may hand out is smaller than the memory by about this part of it.
const RESERVE_PART: u64 = 64;

/// One context's worth is left to best-effort: about this part of the memory.
const BEST_EFFORT_PART: u64 = 32;

const fn default_chunk() -> Size {
    Size(Bytes(16 << 20))
}

impl GpuConfig {
    /// A GPU that no file describes, with built-in values. Its memory is yet to be learned.
    pub fn learned(uuid: Uuid) -> Self {
        Self {
            uuid,
            memory: None,
            reserve: None,
            best_effort_reserve: None,
            chunk: default_chunk(),
            duplex: None,
            swap_cost: SwapCostTables::default(),
        }
    }

    /// δ.
    pub fn chunk(&self) -> Bytes {
        self.chunk.0
    }

    /// All memory that rtswap may use; zero while it is not known.
    pub fn memory(&self) -> Bytes {
        self.memory.unwrap_or(Size(Bytes::ZERO)).0
    }

    /// What of it is never handed out.
    pub fn reserve(&self) -> Bytes {
        let part = Size(Bytes(self.memory().0 / RESERVE_PART));
        self.reserve.unwrap_or(part).0
    }

    /// mᴰ where nobody else holds anything: memory less reserve.
    pub fn capacity(&self) -> Bytes {
        self.memory().saturating_sub(self.reserve())
    }

    /// Takes `total` bytes, of which the driver keeps `reserved`, for what no file says. A file
    /// may say less memory than there is, not more.
    #[must_use]
    pub fn completed(self, total: Bytes, reserved: Bytes) -> Self {
        let memory = self.memory.map_or(total, |memory| memory.0.min(total));
        let headroom = Bytes(memory.0 / RESERVE_PART);
        Self {
            memory: Some(Size(memory)),
            reserve: Some(self.reserve.unwrap_or(Size(reserved + headroom))),
            ..self
        }
    }

    /// What is wrong with it, in words.
    pub fn complaint(&self) -> Option<String> {
        let chunk = self.chunk().0;
        if chunk == 0 || !chunk.is_multiple_of(GRANULARITY) {
            return Some(format!(
                "chunk is {chunk} bytes; it must be a multiple of 2MiB, the least that CUDA maps"
            ));
        }
        if self.memory.is_some() && self.capacity().0 < chunk {
            return Some(format!(
                "memory less reserve is {}, which is less than one chunk of {}",
                self.capacity(),
                self.chunk()
            ));
        }
        for (name, table) in [("out", self.swap_cost.out), ("in", self.swap_cost.r#in)] {
            // A NaN is no speed either.
            if !(table.gib_per_s > 0.0 && table.gib_per_s < 1e6) {
                return Some(format!(
                    "gpu.swap_cost.{name}.gib_per_s is {}; it must be above 0",
                    table.gib_per_s
                ));
            }
        }
        None
    }

    fn swap_cost(&self) -> SwapCost {
        SwapCost {
            out: self.swap_cost.out.cost(),
            in_: self.swap_cost.r#in.cost(),
        }
    }

    /// As the scheduler takes it.
    pub fn scheduler(&self, shared: &SchedulerConfig) -> Config {
        let swap_cost = self.swap_cost();
        let part = Size(Bytes(self.memory().0 / BEST_EFFORT_PART));
        Config {
            capacity: self.capacity(),
            chunk: self.chunk(),
            swap_cost,
            best_effort_reserve: self.best_effort_reserve.unwrap_or(part).0,
            drain: shared
                .drain_ms
                .map_or_else(|| default_drain(&swap_cost, self.chunk()), |span| span.0),
            sharing: match shared.sharing {
                SharingWord::Exclusive => Sharing::Exclusive,
                SharingWord::Shared => Sharing::Shared,
            },
            dispatch_latency: shared.dispatch_latency_us.0,
            overrun: match shared.overrun {
                OverrunWord::Continue => Overrun::Continue,
                OverrunWord::Demote => Overrun::Demote,
            },
            best_effort_quantum: shared.best_effort_quantum_ms.0,
            objective: match shared.objective {
                ObjectiveWord::Time => Objective::Time,
                ObjectiveWord::Volume => Objective::Volume,
            },
            test: match shared.test {
                TestWord::Theorem1 => Test::Theorem1,
                TestWord::Demand => Test::Demand,
                TestWord::Pipelined => Test::Pipelined,
            },
            duplex: self.duplex.map_or(Ppm::ONE, |share| share.0),
        }
    }
}

/// What cuMemCreate allocates at the least.
const GRANULARITY: u64 = 2 << 20;

/// One chunk and one base in the slower direction.
fn least_drain(cost: &SwapCost, chunk: Bytes) -> Nanos {
    let SwapCost { out, in_ } = cost;
    out.bound(chunk, chunk).max(in_.bound(chunk, chunk))
}

/// That, and time for the kernels in flight.
fn default_drain(cost: &SwapCost, chunk: Bytes) -> Nanos {
    const KERNELS: Nanos = Nanos(5_000_000);
    least_drain(cost, chunk) + KERNELS
}

impl CostTable {
    fn cost(self) -> DirectionCost {
        DirectionCost {
            base: self.base_us.0,
            per_chunk: self.per_chunk_us.0,
            bytes_per_second: (self.gib_per_s * f64::from(1_u32 << 30)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_learned_gpu_is_sound() {
        let gpu = GpuConfig::learned(Uuid::of([1; 16]));
        assert_eq!(gpu.complaint(), None);
        let gpu = gpu.completed(Bytes(24 << 30), Bytes::ZERO);
        assert_eq!(gpu.complaint(), None);
        let config = gpu.scheduler(&SchedulerConfig::default());
        assert_eq!(config.capacity, Bytes((24 << 30) - (384 << 20)));
        assert!(config.drain >= config.swap_cost.out.bound(config.chunk, config.chunk));
    }

    #[test]
    fn a_file_goes_before_the_driver_but_makes_no_memory() {
        let uuid = Uuid::of([1; 16]);
        let (total, reserved) = (Bytes(24 << 30), Bytes(300 << 20));
        let learned = GpuConfig::learned(uuid).completed(total, reserved);
        assert_eq!(learned.capacity(), Bytes((24 << 30) - (684 << 20)));
        let said = |memory, reserve| GpuConfig {
            memory: Some(Size(Bytes(memory))),
            reserve,
            ..GpuConfig::learned(uuid)
        };
        let less = said(16 << 30, Some(Size(Bytes(1 << 30)))).completed(total, reserved);
        assert_eq!(less.capacity(), Bytes(15 << 30));
        let more = said(48 << 30, None).completed(total, reserved);
        assert_eq!(more.capacity(), learned.capacity());
    }
}
