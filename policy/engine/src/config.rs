//! What the administrator's file makes of the daemon and of each GPU.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use rtswap_policy::admission::Test;
pub use rtswap_policy::assign::Objective;
pub use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler;
pub use rtswap_policy::scheduler::{Overrun, Sharing, Undrained};
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use crate::Uuid;
use crate::owners::Subordinates;
use crate::rules::{RuleSet, Rules};

/// GPUs at most: the blocks of a control page.
pub const MAX_GPUS: usize = 8;

/// What cuMemCreate allocates at the least.
const GRANULARITY: u64 = 2 << 20;

/// The part of a GPU's memory that a driver may not hand out.
const RESERVE_PART: u64 = 64;

/// The part of a GPU's memory that is left to best-effort: about one context.
const BEST_EFFORT_PART: u64 = 32;

/// The part of a GPU's memory that no program is told it may have, so that later ones find room for their contexts.
const NEWCOMERS_PART: u64 = 16;

/// The part of the host's memory that backing stores leave to all else.
const HOST_PART: u64 = 16;

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What a reload may change.
    pub settings: Settings,
    /// What its file says for everybody where the policy says nothing; a reload may change it.
    pub everybody: Rules,
    /// What policy.toml says; a reload may change it.
    pub rules: RuleSet,
    /// The same for the schedulers of all GPUs.
    pub scheduler: SchedulerConfig,
    /// At most [`MAX_GPUS`]; none where GPUs are learned from NVML or from the CUDA driver.
    pub gpus: Vec<GpuConfig>,
    /// The user ids that were given to users.
    pub subordinates: Subordinates,
    /// Sessions at a time, for which the daemon has descriptors.
    pub max_sessions: usize,
}

/// What a reload may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a registration waits for a process.
    pub claim_timeout: Nanos,
    /// How long the memory of a dead process stays counted where NVML cannot tell.
    pub release_grace: Nanos,
    /// How often NVML is read.
    pub nvml_period: Nanos,
    /// What follows where a stopped process keeps others from the GPU.
    pub on_stopped: OnStopped,
    /// The bytes of host memory that backing stores leave to all else; none: a part of all.
    pub host_reserve: Option<Bytes>,
}

impl Settings {
    /// The bytes of a host memory of `total` that backing stores leave to all else.
    pub fn host_reserve(&self, total: Bytes) -> Bytes {
        self.host_reserve.unwrap_or(Bytes(total.0 / HOST_PART))
    }
}

/// What follows where a stopped process (SIGSTOP, a debugger) keeps others from the GPU: nothing but its
/// end frees its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStopped {
    /// Others go on beside it as far as memory goes, and are told of it.
    Wait,
    /// It gets SIGKILL.
    Kill,
}

/// The consequence for a task that under-reports, exceeds its budget or ignores a swap request. The
/// violation is logged and announced in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnViolation {
    /// The violation has no further consequence.
    Warn,
    /// The task is best-effort from then on.
    Demote,
    /// The process gets SIGKILL.
    Kill,
}

impl OnViolation {
    /// Its name in files and on D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warn => "warn",
            Self::Demote => "demote",
            Self::Kill => "kill",
        }
    }
}

/// The same for the schedulers of all GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Which jobs may hold a GPU at the same time: [`scheduler::Config::sharing`].
    pub sharing: Sharing,
    /// What happens to a job past its WCET: [`scheduler::Config::overrun`].
    pub overrun: Overrun,
    /// Whether a process is killed that does not leave the GPU: [`scheduler::Config::undrained`].
    pub kills_undrained: bool,
    /// How long its end takes at most.
    pub kill_bound: Nanos,
    /// What the plan minimises: [`scheduler::Config::objective`].
    pub objective: Objective,
    /// The admission test: [`scheduler::Config::test`].
    pub test: Test,
    /// The part of the time that endless best-effort programs may lose to swapping:
    /// [`scheduler::Config::swap_share`].
    pub swap_share: Ppm,
    /// How long a best-effort job waits at most for its turn: [`scheduler::Config::longest_wait`].
    pub longest_wait: Nanos,
    /// After how long of idleness an undeclared job is complete: [`scheduler::Config::idle_gap`].
    pub idle_gap: Nanos,
    /// The drain bound, [`scheduler::Config::drain`]; none: derived from the GPU's swap cost.
    pub drain: Option<Nanos>,
    /// The latency from a decision to its effect, ε: [`scheduler::Config::dispatch_latency`].
    pub dispatch_latency: Nanos,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            sharing: Sharing::Auto,
            overrun: Overrun::Continue,
            kills_undrained: false,
            kill_bound: Nanos(250_000_000),
            objective: Objective::Time,
            test: Test::Demand,
            swap_share: Ppm(100_000),
            longest_wait: Nanos(15_000_000_000),
            idle_gap: Nanos(2_000_000),
            drain: None,
            dispatch_latency: Nanos(200_000),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            claim_timeout: Nanos(30_000_000_000),
            release_grace: Nanos(250_000_000),
            nvml_period: Nanos(500_000_000),
            on_stopped: OnStopped::Wait,
            host_reserve: None,
        }
    }
}

/// One GPU as the administrator describes it, completed by what the driver shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuConfig {
    /// The GPU, or the MIG instance.
    pub uuid: Uuid,
    /// All memory that rtswap may use, in bytes; none while it is not known.
    pub memory: Option<Bytes>,
    /// The bytes of it that are never handed out.
    pub reserve: Option<Bytes>,
    /// The bytes of it that the plan leaves to best-effort.
    pub best_effort_reserve: Option<Bytes>,
    /// The bytes of it that no best-effort program is told it may have, for the contexts of those to come.
    pub newcomers_reserve: Option<Bytes>,
    /// δ, in bytes. It is fixed here; `rtswapctl plan` searches for the best one, from measured swap costs.
    /// The daemon could do so only with costs of this machine, which the built-in ones are not.
    pub chunk: Bytes,
    /// ρ: the rate of a copy engine while the other one copies too over its rate alone, of the direction that
    /// suffers more.
    pub duplex: Ppm,
    /// The cost of swapping, measured with the other copy engine idle.
    pub swap_cost: SwapCost,
    /// Which of the last three the file gives.
    pub configured: Configured,
}

/// Which values of a GPU its file gives. They go before measured ones, and these before those that are built in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// The chunk size, δ.
    pub chunk: bool,
    /// The loaded rate of a copy engine, ρ.
    pub duplex: bool,
    /// The cost of swapping out.
    pub out: bool,
    /// The cost of swapping in.
    pub in_: bool,
}

/// What was measured on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The time of the measurement, in seconds since 1970.
    pub measured: u64,
    /// δ, in bytes.
    pub chunk: Bytes,
    /// The loaded rate of a copy engine: [`GpuConfig::duplex`].
    pub duplex: Ppm,
    /// The cost of swapping, measured with the other copy engine idle.
    pub swap_cost: SwapCost,
}

/// What the costs of a GPU rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostSource {
    /// The file, at least in part beside a calibration.
    Configured,
    /// A calibration alone.
    Calibrated,
    /// The built-in values, at least in part.
    Assumed,
}

impl CostSource {
    /// Its name on D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Calibrated => "calibrated",
            Self::Assumed => "assumed",
        }
    }
}

impl GpuConfig {
    /// A GPU that no file describes, with built-in values: the paper's fit (Fig. 4) to an RTX 3090 on
    /// PCIe 3.0. Its memory is yet to be learned.
    pub const fn learned(uuid: Uuid) -> Self {
        const fn cost(per_chunk: u64, bytes_per_second: u64) -> DirectionCost {
            DirectionCost {
                base: Nanos(0),
                per_chunk: Nanos(per_chunk),
                bytes_per_second,
            }
        }
        Self {
            uuid,
            memory: None,
            reserve: None,
            best_effort_reserve: None,
            newcomers_reserve: None,
            chunk: Bytes(16 << 20),
            duplex: Ppm::ONE,
            swap_cost: SwapCost {
                // 12.08 and 11.18 GiB/s.
                out: cost(73_600, 12_970_801_233),
                in_: cost(79_500, 12_004_433_592),
            },
            configured: Configured {
                chunk: false,
                duplex: false,
                out: false,
                in_: false,
            },
        }
    }

    /// With what was measured, where no file says otherwise.
    #[must_use]
    pub fn calibrated(self, measured: &Calibration) -> Self {
        let Configured {
            chunk,
            duplex,
            out,
            in_,
        } = self.configured;
        let or = |configured, own, measured| if configured { own } else { measured };
        Self {
            chunk: if chunk { self.chunk } else { measured.chunk },
            duplex: if duplex { self.duplex } else { measured.duplex },
            swap_cost: SwapCost {
                out: or(out, self.swap_cost.out, measured.swap_cost.out),
                in_: or(in_, self.swap_cost.in_, measured.swap_cost.in_),
            },
            ..self
        }
    }

    /// The text of why a measurement cannot count for it under the `shared` configuration; none where it can.
    pub fn refuses(&self, measured: &Calibration, shared: &SchedulerConfig) -> Option<String> {
        let Configured {
            chunk, out, in_, ..
        } = self.configured;
        // The calls for a chunk hide behind copies, or do not: its costs are those of one chunk size.
        if chunk && self.chunk != measured.chunk && !(out && in_) {
            return Some(format!(
                "it is of chunks of {}, and rtswapd.toml says {}; leave gpu.chunk out there",
                measured.chunk, self.chunk
            ));
        }
        self.calibrated(measured).unschedulable(shared)
    }

    /// What its costs rest on, where it was calibrated and where not.
    pub fn cost_source(&self, is_calibrated: bool) -> CostSource {
        let Configured {
            duplex, out, in_, ..
        } = self.configured;
        if out && in_ || is_calibrated && (duplex || out || in_) {
            CostSource::Configured
        } else if is_calibrated {
            CostSource::Calibrated
        } else {
            CostSource::Assumed
        }
    }

    /// All memory that rtswap may use, in bytes; zero while it is not known.
    pub fn memory(&self) -> Bytes {
        self.memory.unwrap_or(Bytes::ZERO)
    }

    /// The bytes of it that are never handed out.
    pub fn reserve(&self) -> Bytes {
        let part = Bytes(self.memory().0 / RESERVE_PART);
        self.reserve.unwrap_or(part)
    }

    /// The bytes of it that no best-effort program is told it may have.
    pub fn newcomers_reserve(&self) -> Bytes {
        let part = Bytes(self.memory().0 / NEWCOMERS_PART);
        self.newcomers_reserve.unwrap_or(part)
    }

    /// mᴰ where no process without an agent holds anything: memory less reserve, in bytes.
    pub fn capacity(&self) -> Bytes {
        self.memory().saturating_sub(self.reserve())
    }

    /// Takes `total` bytes, of which the driver keeps `reserved`, for what no file says. A file may
    /// say less memory than there is, not more.
    #[must_use]
    pub fn completed(self, total: Bytes, reserved: Bytes) -> Self {
        let memory = self.memory.map_or(total, |memory| memory.min(total));
        let headroom = Bytes(memory.0 / RESERVE_PART);
        Self {
            memory: Some(memory),
            reserve: Some(self.reserve.unwrap_or(reserved + headroom)),
            ..self
        }
    }

    /// The text of what is wrong with it; none where it can be managed.
    pub fn complaint(&self) -> Option<String> {
        let chunk = self.chunk.0;
        if chunk == 0 || !chunk.is_multiple_of(GRANULARITY) {
            return Some(format!(
                "chunk is {chunk} bytes; it must be a multiple of 2MiB, the least that CUDA maps"
            ));
        }
        if self.memory.is_some() && self.capacity().0 < chunk {
            return Some(format!(
                "memory less reserve is {}, which is less than one chunk of {}",
                self.capacity(),
                self.chunk
            ));
        }
        None
    }

    /// One chunk and one base in the slower direction, the other copy engine loaded: the shortest drain bound that
    /// can be kept.
    pub fn least_drain(&self) -> Nanos {
        let SwapCost { out, in_ } = self.swap_cost.loaded(self.duplex);
        out.bound(self.chunk, self.chunk)
            .max(in_.bound(self.chunk, self.chunk))
    }

    /// The text of what is wrong with it under the `shared` configuration; none where it can be scheduled.
    pub fn unschedulable(&self, shared: &SchedulerConfig) -> Option<String> {
        self.complaint().or_else(|| {
            let (drain, least) = (shared.drain?, self.least_drain());
            (drain < least).then(|| {
                format!(
                    "drain_ms of rtswapd.toml is {drain}, but by these costs a best-effort swap operation stops \
                     only after one base and one chunk, within {least}; write more there, or leave it out"
                )
            })
        })
    }

    /// The configuration of its scheduler.
    pub fn scheduler(&self, shared: &SchedulerConfig) -> scheduler::Config {
        // Beside the least that can be kept, time for the kernels in flight.
        const KERNELS: Nanos = Nanos(10_000_000);
        let part = Bytes(self.memory().0 / BEST_EFFORT_PART);
        let (swap_cost, duplex) = match shared.test {
            Test::Pipelined => (self.swap_cost, self.duplex),
            // Also a running job's own copies load the other engine.
            Test::Demand | Test::Theorem1 => (self.swap_cost.loaded(self.duplex), Ppm::ONE),
        };
        scheduler::Config {
            capacity: self.capacity(),
            chunk: self.chunk,
            swap_cost,
            best_effort_reserve: self.best_effort_reserve.unwrap_or(part),
            drain: shared.drain.unwrap_or(self.least_drain() + KERNELS),
            sharing: shared.sharing,
            dispatch_latency: shared.dispatch_latency,
            overrun: shared.overrun,
            undrained: if shared.kills_undrained {
                Undrained::Kill(shared.kill_bound)
            } else {
                Undrained::Beside
            },
            swap_share: shared.swap_share,
            longest_wait: shared.longest_wait,
            idle_gap: shared.idle_gap,
            objective: shared.objective,
            test: shared.test,
            duplex,
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
    fn a_test_that_knows_no_duplex_rate_charges_loaded_swaps() {
        let gpu = GpuConfig {
            duplex: Ppm(500_000),
            ..GpuConfig::learned(Uuid::of([1; 16]))
        };
        let by = |test| {
            let config = gpu.scheduler(&SchedulerConfig {
                test,
                ..SchedulerConfig::default()
            });
            let chunk = config.swap_cost.out.chunk_time(config.chunk);
            assert!(config.drain > chunk.slowed(config.duplex), "{test:?}");
            (chunk, config.duplex)
        };
        let alone = gpu.swap_cost.out.chunk_time(gpu.chunk);
        assert_eq!(by(Test::Pipelined), (alone, gpu.duplex));
        for test in [Test::Demand, Test::Theorem1] {
            let (chunk, duplex) = by(test);
            assert_eq!(duplex, Ppm::ONE);
            assert!(chunk >= alone.slowed(gpu.duplex), "{chunk}");
        }
    }

    #[test]
    fn a_file_goes_before_the_driver_but_makes_no_memory() {
        let uuid = Uuid::of([1; 16]);
        let (total, reserved) = (Bytes(24 << 30), Bytes(300 << 20));
        let learned = GpuConfig::learned(uuid).completed(total, reserved);
        assert_eq!(learned.capacity(), Bytes((24 << 30) - (684 << 20)));
        let described = |memory, reserve| GpuConfig {
            memory: Some(Bytes(memory)),
            reserve,
            ..GpuConfig::learned(uuid)
        };
        let less = described(16 << 30, Some(Bytes(1 << 30))).completed(total, reserved);
        assert_eq!(less.capacity(), Bytes(15 << 30));
        let more = described(48 << 30, None).completed(total, reserved);
        assert_eq!(more.capacity(), learned.capacity());
    }
}
