//! The shape of rtswapd.toml.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rtswap_policy::units::Nanos;
use rtswap_wire::MAX_DEVICES;
use serde::Deserialize;
use toml::Spanned;

use super::value::{Micros, Millis};
use super::{ConfigError, GpuConfig, SchedulerConfig, Uuid};

/// All of it, checked.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `[daemon]`.
    pub daemon: DaemonConfig,
    /// `[scheduler]`.
    pub scheduler: SchedulerConfig,
    /// `[[gpu]]`, at most [`MAX_DEVICES`]; where there is none, GPUs are learned from NVML or from
    /// agents.
    pub gpus: Vec<GpuConfig>,
}

/// `[daemon]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DaemonConfig {
    claim_timeout_s: u32,
    orphan_timeout_ms: Millis,
    idle_gap_us: Micros,
    drain_bound_ms: Millis,
    release_grace_ms: Millis,
    nvml_period_ms: Millis,
    /// What follows from a violation.
    pub on_violation: OnViolation,
    /// Whether eBPF probes count what processes ask the driver for, where the kernel lets them.
    pub probes: bool,
    /// Calls that a process may have in flight on a GPU before the next one waits, so that a drain
    /// stays short; 0 for any number. Drivers themselves hold a launch back at about as many.
    pub max_in_flight: u32,
    /// Tasks that one user may have at a time, best-effort ones included.
    pub max_tasks_per_user: usize,
}

/// What follows where a task holds more than it says or may, or does not swap when asked to. It is
/// said in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnViolation {
    /// Nothing more.
    Warn,
    /// The task is best-effort from then on.
    Demote,
    /// The process gets SIGKILL.
    Kill,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            claim_timeout_s: 30,
            orphan_timeout_ms: Millis::from_nanos(10_000_000_000),
            idle_gap_us: Micros::from_nanos(2_000_000),
            drain_bound_ms: Millis::from_nanos(1_000_000_000),
            release_grace_ms: Millis::from_nanos(250_000_000),
            nvml_period_ms: Millis::from_nanos(500_000_000),
            on_violation: OnViolation::Warn,
            probes: true,
            max_in_flight: 1024,
            max_tasks_per_user: 512,
        }
    }
}

impl DaemonConfig {
    /// How long a registration waits for a process.
    pub fn claim_timeout(&self) -> Nanos {
        Nanos(u64::from(self.claim_timeout_s) * 1_000_000_000)
    }

    /// How long an agent waits for a lost daemon, in ms.
    pub fn orphan_timeout_ms(&self) -> u32 {
        whole(self.orphan_timeout_ms.0.0 / 1_000_000)
    }

    /// How long streams are idle before an implicit job is complete, in µs.
    pub fn idle_gap_us(&self) -> u32 {
        whole(self.idle_gap_us.0.0 / 1_000)
    }

    /// How long an agent may take to drain its gate, in ms.
    pub fn drain_bound_ms(&self) -> u32 {
        whole(self.drain_bound_ms.0.0 / 1_000_000)
    }

    /// How long the memory of a dead process counts on where NVML cannot tell.
    pub fn release_grace(&self) -> Nanos {
        self.release_grace_ms.0
    }

    /// How often NVML is read; at least a millisecond lies between.
    pub fn nvml_period(&self) -> Duration {
        Duration::from_nanos(self.nvml_period_ms.0.0.max(1_000_000))
    }
}

fn whole(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u64>,
    #[serde(default)]
    daemon: DaemonConfig,
    scheduler: Option<Spanned<SchedulerConfig>>,
    #[serde(default)]
    gpu: Vec<Spanned<GpuConfig>>,
}

/// Reads the file `path`, or takes the built-in values where it is not there and not `named` by
/// the user.
pub fn load(path: &Path, named: bool) -> Result<Config, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !named => Ok(Config::default()),
        Err(cause) => Err(ConfigError::Unreadable {
            path: path.to_owned(),
            cause,
        }),
    }
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let file: File =
        toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
    check_version(path, text, &file.version)?;
    let mut seen: Vec<Uuid> = Vec::new();
    for gpu in &file.gpu {
        let complaint = if seen.len() == MAX_DEVICES {
            Some(format!("more than {MAX_DEVICES} GPUs"))
        } else if seen.contains(&gpu.get_ref().uuid) {
            Some(format!("{} is described twice", gpu.get_ref().uuid))
        } else {
            gpu.get_ref().complaint()
        };
        if let Some(complaint) = complaint {
            return Err(ConfigError::at(path, text, gpu.span().start, complaint));
        }
        seen.push(gpu.get_ref().uuid);
    }
    let scheduler = match file.scheduler {
        None => SchedulerConfig::default(),
        Some(said) => {
            let gpus = file.gpu.iter().map(Spanned::get_ref);
            if let Some(complaint) = said.get_ref().complaint(gpus) {
                return Err(ConfigError::at(path, text, said.span().start, complaint));
            }
            said.into_inner()
        }
    };
    Ok(Config {
        daemon: file.daemon,
        scheduler,
        gpus: file.gpu.into_iter().map(Spanned::into_inner).collect(),
    })
}

/// Every file names the version of its format.
pub(super) fn check_version(
    path: &Path,
    text: &str,
    version: &Spanned<u64>,
) -> Result<(), ConfigError> {
    if *version.get_ref() == 1 {
        return Ok(());
    }
    let message = format!(
        "version {} is not known; this rtswapd reads version 1",
        version.get_ref()
    );
    Err(ConfigError::at(path, text, version.span().start, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtswap_policy::admission::Test;
    use rtswap_policy::scheduler::Overrun;
    use rtswap_policy::units::{Bytes, Ppm};

    const GPU: &str = "uuid = \"GPU-01234567-89ab-cdef-0123-456789abcdef\"\nmemory = \"24GiB\"\n";

    fn complaint(text: &str) -> String {
        parse(Path::new("f.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn everything_can_be_said() {
        let text = format!(
            "version = 1\n[daemon]\nclaim_timeout_s = 5\nidle_gap_us = 1500\nmax_in_flight = 64\n\
             on_violation = \"demote\"\n[scheduler]\n\
             overrun = \"demote\"\ntest = \"theorem1\"\ndrain_ms = 72.5\n[[gpu]]\n{GPU}reserve = 0\nchunk = \"64MiB\"\n\
             best_effort_reserve = \"1GiB\"\n[gpu.swap_cost.out]\nbase_us = 10\n\
             per_chunk_us = 100\ngib_per_s = 1\n"
        );
        let config = parse(Path::new("f.toml"), &text).unwrap();
        assert_eq!(config.daemon.claim_timeout(), Nanos(5_000_000_000));
        assert_eq!(config.daemon.idle_gap_us(), 1500);
        assert_eq!(config.daemon.max_in_flight, 64);
        assert_eq!(config.daemon.on_violation, OnViolation::Demote);
        assert_eq!(config.daemon.orphan_timeout_ms(), 10_000);
        let gpu = config.gpus[0].scheduler(&config.scheduler);
        assert_eq!(gpu.capacity, Bytes(24 << 30));
        assert_eq!(gpu.best_effort_reserve, Bytes(1 << 30));
        assert_eq!(gpu.drain, Nanos(72_500_000));
        assert_eq!((gpu.overrun, gpu.test), (Overrun::Demote, Test::Theorem1));
        assert_eq!(gpu.swap_cost.out.base, Nanos(10_000));
        assert_eq!(gpu.swap_cost.out.bytes_per_second, 1 << 30);
        assert_eq!(gpu.swap_cost.in_.per_chunk, Nanos(79_500), "built in");
    }

    #[test]
    fn a_pipelined_gpu_takes_its_duplex_rate() {
        let with = |said: &str| {
            let text =
                format!("version = 1\n[scheduler]\ntest = \"pipelined\"\n[[gpu]]\n{GPU}{said}\n");
            let config = parse(Path::new("f.toml"), &text).unwrap();
            config.gpus[0].scheduler(&config.scheduler)
        };
        let said = with("duplex = 0.8");
        assert_eq!((said.test, said.duplex), (Test::Pipelined, Ppm(800_000)));
        assert_eq!(with("").duplex, Ppm::ONE, "built in");
        assert_eq!(with("duplex = 1").duplex, Ppm::ONE);
    }

    #[test]
    fn the_documented_file_is_taken_and_says_the_built_in_values() {
        let document = include_str!("../../../docs/configuration.md");
        let block = document.split("```toml\n").nth(1).unwrap();
        let text = block.split("```").next().unwrap();
        let config = parse(Path::new("docs/configuration.md"), text).unwrap();
        let built_in = parse(Path::new("f.toml"), "version = 1\n").unwrap();
        assert_eq!(
            format!("{:?}", config.daemon),
            format!("{:?}", built_in.daemon)
        );
        let said = config.gpus[0].scheduler(&config.scheduler);
        let learned = GpuConfig::learned(config.gpus[0].uuid);
        let learned = learned.completed(Bytes(24 << 30), Bytes::ZERO);
        let learned = learned.scheduler(&built_in.scheduler);
        assert_eq!(
            (said.swap_cost, said.chunk, said.duplex),
            (learned.swap_cost, learned.chunk, learned.duplex)
        );
        assert_eq!(said.best_effort_quantum, learned.best_effort_quantum);
        assert_eq!(said.dispatch_latency, learned.dispatch_latency);
        assert_eq!((said.test, learned.test), (Test::Demand, Test::Demand));
    }

    #[test]
    fn a_wrong_file_says_where_and_what_was_meant() {
        assert_eq!(
            complaint("version = 1\n[daemon]\nclaim_timeot_s = 3\n"),
            "f.toml:3:1: unknown key `claim_timeot_s`; did you mean `claim_timeout_s`?"
        );
        assert_eq!(
            complaint(&format!("version = 1\n[[gpu]]\n{GPU}colour = 3\n")),
            "f.toml:5:1: unknown key `colour`; known here: uuid, memory, reserve, \
             best_effort_reserve, chunk, duplex, swap_cost"
        );
        assert_eq!(
            complaint("version = 2\n"),
            "f.toml:1:11: version 2 is not known; this rtswapd reads version 1"
        );
        assert_eq!(
            complaint("version = 1\n[[gpu]]\nuuid = \"0\"\nmemory = 1\n"),
            "f.toml:3:8: \"0\" is not a GPU's UUID, such as \
             GPU-01234567-89ab-cdef-0123-456789abcdef; `nvidia-smi -L` lists them"
        );
        let old = "MIG-GPU-01234567-89ab-cdef-0123-456789abcdef/1/0";
        let old = complaint(&format!("version = 1\n[[gpu]]\nuuid = \"{old}\"\n"));
        assert!(
            old.starts_with("f.toml:3:8: \"MIG-GPU-")
                && old.contains("write the instance's own UUID, such as MIG-"),
            "{old}"
        );
        let twice = format!("version = 1\n[[gpu]]\n{GPU}[[gpu]]\n{GPU}");
        assert!(complaint(&twice).ends_with("is described twice"));
        let instance = twice.replacen("GPU-", "MIG-", 1);
        assert!(
            complaint(&instance).ends_with("is described twice"),
            "the bytes alone tell which"
        );
        let odd = format!("version = 1\n[[gpu]]\n{GPU}chunk = \"3MiB\"\n");
        assert!(
            complaint(&odd).contains("must be a multiple of 2MiB"),
            "{}",
            complaint(&odd)
        );
        let size = format!("version = 1\n[[gpu]]\n{GPU}chunk = \"3 elephants\"\n");
        assert!(
            complaint(&size).starts_with("f.toml:5:9: \"3 elephants\" is not a size"),
            "{}",
            complaint(&size)
        );
        assert_eq!(
            complaint("version = 1\n[scheduler]\ntest = \"theorem2\"\n"),
            "f.toml:3:8: unknown variant `theorem2`, expected one of `theorem1`, `demand`, `pipelined`"
        );
        assert_eq!(
            complaint("version = 1\n[daemon]\non_violation = \"shout\"\n"),
            "f.toml:3:16: unknown variant `shout`, expected one of `warn`, `demote`, `kill`"
        );
        for wrong in ["0", "0.0000001", "1.01", "-0.5", "nan", "inf"] {
            let said = complaint(&format!("version = 1\n[[gpu]]\n{GPU}duplex = {wrong}\n"));
            assert!(
                said.starts_with("f.toml:5:10: ")
                    && said.contains("is no share: above 0 and at most 1"),
                "{said}"
            );
        }
        assert!(complaint("version = 1\n[daemon\n").starts_with("f.toml:2:"));
        assert!(complaint("").contains("missing field `version`"));
    }

    #[test]
    fn best_effort_needs_time_to_stop_an_operation() {
        // One chunk of 16 MiB in by the built-in costs: 79.5 µs, and 1.3976 ms at 11.18 GiB/s.
        let built_in = "version = 1\n[scheduler]\ndrain_ms = ";
        assert_eq!(
            complaint(&format!("{built_in}0\n")),
            "f.toml:2:1: drain_ms is 0 ns, but by the built-in costs a best-effort swap operation \
             stops only after one base and one chunk, within 1.477 ms; write 1.478 or more, or leave \
             it out"
        );
        assert!(parse(Path::new("f.toml"), &format!("{built_in}1.478\n")).is_ok());
        // The base counts, and the slower direction.
        let slow = |drain| {
            format!(
                "{built_in}{drain}\n[[gpu]]\n{GPU}[gpu.swap_cost.out]\nbase_us = 500\nper_chunk_us = 0\ngib_per_s = 1\n"
            )
        };
        let said = complaint(&slow("16.124"));
        assert!(
            said.contains("by the costs of GPU-01234567-89ab-cdef-0123-456789abcdef")
                && said.contains("write 16.125 or more"),
            "{said}"
        );
        assert!(parse(Path::new("f.toml"), &slow("16.125")).is_ok());
    }

    #[test]
    fn only_a_file_that_nobody_named_may_be_missing() {
        let path = Path::new("/nonexistent/rtswapd.toml");
        assert!(load(path, false).unwrap().gpus.is_empty());
        let error = load(path, true).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read /nonexistent/rtswapd.toml: "),
            "{error}"
        );
    }
}
