//! The `[[gpu]]` and `[scheduler]` tables, and what the engine is told of them.

use rtswap_engine::Uuid;
use rtswap_engine::config::{
    Configured, DirectionCost, GpuConfig, Objective, Overrun, SchedulerConfig, Sharing, SwapCost,
    Test,
};
use rtswap_policy::units::{Nanos, Ppm};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::value::{Micros, Millis, Seconds, Share, Size};

/// `[scheduler]`: the same for all GPUs. What is left out takes the engine's value.
#[derive(Deserialize)]
#[serde(
    remote = "SchedulerConfig",
    deny_unknown_fields,
    default = "SchedulerConfig::default"
)]
pub(super) struct SchedulerTable {
    #[serde(with = "SharingWord")]
    sharing: Sharing,
    #[serde(with = "OverrunWord")]
    overrun: Overrun,
    #[serde(rename = "undrainable", deserialize_with = "kills")]
    kills_undrained: bool,
    #[serde(rename = "kill_ms", deserialize_with = "millis")]
    kill_bound: Nanos,
    #[serde(with = "ObjectiveWord")]
    objective: Objective,
    #[serde(with = "TestWord")]
    test: Test,
    #[serde(deserialize_with = "swap_share")]
    swap_share: Ppm,
    #[serde(rename = "longest_wait_s", deserialize_with = "longest_wait")]
    longest_wait: Nanos,
    /// Set in `[daemon]`.
    #[serde(skip)]
    idle_gap: Nanos,
    #[serde(rename = "drain_ms", deserialize_with = "some_millis")]
    drain: Option<Nanos>,
    #[serde(rename = "dispatch_latency_us", deserialize_with = "micros")]
    dispatch_latency: Nanos,
}

#[derive(Deserialize)]
#[serde(remote = "Sharing", rename_all = "kebab-case")]
enum SharingWord {
    Exclusive,
    Shared,
    Auto,
}

#[derive(Deserialize)]
#[serde(remote = "Overrun", rename_all = "kebab-case")]
enum OverrunWord {
    Continue,
    Demote,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UndrainedWord {
    Beside,
    Kill,
}

#[derive(Deserialize)]
#[serde(remote = "Objective", rename_all = "kebab-case")]
enum ObjectiveWord {
    Time,
    Volume,
}

#[derive(Deserialize)]
#[serde(remote = "Test", rename_all = "kebab-case")]
enum TestWord {
    Theorem1,
    Demand,
    Pipelined,
}

fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    Millis::deserialize(deserializer).map(|span| span.0)
}

/// Where more than half of the time is swapping, less is computed than moved.
fn swap_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ppm, D::Error> {
    Share::<50>::deserialize(deserializer).map(|share| share.0)
}

fn longest_wait<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    /// Below this a swap takes longer than the turn that it is for.
    const LEAST: Nanos = Nanos(100_000_000);
    let wait = Seconds::deserialize(deserializer)?.0;
    if wait < LEAST {
        return Err(D::Error::custom(format_args!(
            "longest_wait_s is {wait}; it must be at least 0.1"
        )));
    }
    Ok(wait)
}

fn kills<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    UndrainedWord::deserialize(deserializer).map(|word| matches!(word, UndrainedWord::Kill))
}

fn some_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Nanos>, D::Error> {
    millis(deserializer).map(Some)
}

fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
    Micros::deserialize(deserializer).map(|span| span.0)
}

/// What is wrong with the drain bound on `gpus`, in words. Where there are none, GPUs are learned.
pub(super) fn drain_complaint(config: &SchedulerConfig, gpus: &[GpuConfig]) -> Option<String> {
    let drain = config.drain?;
    let (least, cost_source) = gpus
        .iter()
        .map(|gpu| (gpu.least_drain(), format!("the costs of {}", gpu.uuid)))
        .max()
        .unwrap_or_else(|| {
            let gpu = GpuConfig::learned(Uuid::of([0; 16]));
            (gpu.least_drain(), "the built-in costs".to_owned())
        });
    // Rounded up, so that the suggested bound suffices.
    let micros = least.0.div_ceil(1_000);
    (drain < least).then(|| {
        format!(
            "drain_ms is {drain}, but by {cost_source} a best-effort swap operation stops only after \
             one base and one chunk, within {least}; write {}.{:03} or more, or leave it out",
            micros / 1_000,
            micros % 1_000
        )
    })
}

/// One `[[gpu]]`. What is left out takes the engine's value.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GpuTable {
    #[serde(deserialize_with = "uuid")]
    uuid: Uuid,
    memory: Option<Size>,
    reserve: Option<Size>,
    best_effort_reserve: Option<Size>,
    newcomers_reserve: Option<Size>,
    chunk: Option<Size>,
    duplex: Option<Share<100>>,
    #[serde(default)]
    swap_cost: SwapCostTables,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SwapCostTables {
    out: Option<CostTable>,
    r#in: Option<CostTable>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    base_us: Micros,
    per_chunk_us: Micros,
    gib_per_s: f64,
}

fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse()
        .map_err(|error| D::Error::custom(format_args!("{text:?} {error}")))
}

impl GpuTable {
    /// What it makes of the GPU.
    pub(super) fn config(&self) -> GpuConfig {
        let built_in = GpuConfig::learned(self.uuid);
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        let SwapCostTables { out, r#in } = self.swap_cost;
        GpuConfig {
            uuid: self.uuid,
            memory: bytes(self.memory),
            reserve: bytes(self.reserve),
            best_effort_reserve: bytes(self.best_effort_reserve),
            newcomers_reserve: bytes(self.newcomers_reserve),
            chunk: self.chunk.map_or(built_in.chunk, |size| size.0),
            duplex: self.duplex.map_or(built_in.duplex, |share| share.0),
            swap_cost: SwapCost {
                out: out.map_or(built_in.swap_cost.out, CostTable::cost),
                in_: r#in.map_or(built_in.swap_cost.in_, CostTable::cost),
            },
            configured: Configured {
                chunk: self.chunk.is_some(),
                duplex: self.duplex.is_some(),
                out: out.is_some(),
                in_: r#in.is_some(),
            },
        }
    }

    /// What is wrong with it, in words.
    pub(super) fn complaint(&self) -> Option<String> {
        self.config().complaint().or_else(|| {
            let tables = [("out", self.swap_cost.out), ("in", self.swap_cost.r#in)];
            tables.into_iter().find_map(|(name, table)| {
                let speed = table?.gib_per_s;
                // A NaN is no speed either.
                let is_sound = speed > 0.0 && speed < 1e6;
                (!is_sound).then(|| {
                    format!("gpu.swap_cost.{name}.gib_per_s is {speed}; it must be above 0")
                })
            })
        })
    }
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
