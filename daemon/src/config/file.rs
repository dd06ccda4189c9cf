//! The shape of rtswapd.toml.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rtswap_engine::Uuid;
use rtswap_engine::config::{
    Config as EngineConfig, GpuConfig, MAX_GPUS, OnStopped, SchedulerConfig, Settings,
};
use rtswap_engine::rules::{RuleSet, Rules};
use rtswap_policy::units::Nanos;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::gpu::{GpuTable, SchedulerTable, drain_complaint};
use super::users;
use super::value::{Micros, Millis, Size, Violation};
use crate::sys::descriptor;

/// The whole configuration, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings that only the daemon uses.
    pub daemon: DaemonConfig,
    /// The settings by which the engine decides.
    pub engine: EngineConfig,
}

/// The settings that the engine does not use: those of the agents and of the daemon's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaemonConfig {
    /// Time in ms for which an agent waits for a lost daemon before it goes on alone.
    pub orphan_timeout_ms: u32,
    /// Time in µs for which streams must be idle before an implicit job is complete.
    pub idle_gap_us: u32,
    /// Longest time in ms in which an agent must drain its gate.
    pub drain_bound_ms: u32,
    /// Calls that a process may have in flight on a GPU before the next one waits, so that a drain
    /// stays short; 0 for any number. Drivers themselves hold a launch back at about as many.
    pub max_in_flight: u32,
    /// The time between two readings of NVML, at least 1 ms.
    pub nvml_period: Duration,
    /// Whether eBPF probes count what processes ask the driver for, where the kernel lets them.
    pub probes: bool,
}

/// `[daemon]`. What is left out takes the built-in value.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DaemonTable {
    claim_timeout_s: Option<u32>,
    orphan_timeout_ms: Option<Millis>,
    idle_gap_us: Option<Micros>,
    drain_bound_ms: Option<Millis>,
    release_grace_ms: Option<Millis>,
    nvml_period_ms: Option<Millis>,
    on_violation: Option<Violation>,
    on_stopped: Option<StoppedWord>,
    probes: Option<bool>,
    max_in_flight: Option<u32>,
    max_tasks_per_user: Option<usize>,
    host_reserve: Option<Size>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoppedWord {
    Wait,
    Kill,
}

/// The shortest period of NVML readings.
const LEAST_PERIOD: Nanos = Nanos(1_000_000);

impl DaemonTable {
    fn settings(&self) -> Settings {
        let built_in = Settings::default();
        let claim = |seconds| Nanos(u64::from(seconds) * 1_000_000_000);
        let nanos = |said: Option<Millis>, built_in| said.map_or(built_in, |span| span.0);
        Settings {
            claim_timeout: self.claim_timeout_s.map_or(built_in.claim_timeout, claim),
            release_grace: nanos(self.release_grace_ms, built_in.release_grace),
            nvml_period: nanos(self.nvml_period_ms, built_in.nvml_period).max(LEAST_PERIOD),
            on_stopped: self
                .on_stopped
                .map_or(built_in.on_stopped, |word| match word {
                    StoppedWord::Wait => OnStopped::Wait,
                    StoppedWord::Kill => OnStopped::Kill,
                }),
            host_reserve: self.host_reserve.map(|size| size.0),
        }
    }

    /// What it says for everybody where policy.toml says nothing.
    fn everybody(&self) -> Rules {
        Rules {
            max_tasks: self.max_tasks_per_user,
            on_violation: self.on_violation.map(Into::into),
            ..Rules::default()
        }
    }

    fn own(&self) -> DaemonConfig {
        let millis = |said: Option<Millis>, built_in: u32| {
            said.map_or(built_in, |span| whole(span.0.0 / 1_000_000))
        };
        DaemonConfig {
            orphan_timeout_ms: millis(self.orphan_timeout_ms, 10_000),
            idle_gap_us: self
                .idle_gap_us
                .map_or(2_000, |span| whole(span.0.0 / 1_000)),
            drain_bound_ms: millis(self.drain_bound_ms, 1_000),
            max_in_flight: self.max_in_flight.unwrap_or(1024),
            nvml_period: Duration::from_nanos(self.settings().nvml_period.0),
            probes: self.probes.unwrap_or(true),
        }
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
    daemon: DaemonTable,
    scheduler: Option<Spanned<Scheduler>>,
    #[serde(default)]
    gpu: Vec<Spanned<GpuTable>>,
}

#[derive(Default, Deserialize)]
struct Scheduler(#[serde(with = "SchedulerTable")] SchedulerConfig);

impl Default for Config {
    /// The settings of an empty file.
    fn default() -> Self {
        Self::of(
            &DaemonTable::default(),
            SchedulerConfig::default(),
            Vec::new(),
        )
    }
}

impl Config {
    fn of(daemon: &DaemonTable, scheduler: SchedulerConfig, gpus: Vec<GpuConfig>) -> Self {
        Self {
            daemon: daemon.own(),
            engine: EngineConfig {
                settings: daemon.settings(),
                everybody: daemon.everybody(),
                rules: RuleSet::new(),
                scheduler: SchedulerConfig {
                    idle_gap: Nanos(u64::from(daemon.own().idle_gap_us) * 1_000),
                    ..scheduler
                },
                gpus,
                subordinates: users::subordinates(),
                max_sessions: descriptor::limit() / DESCRIPTORS,
            },
        }
    }
}

/// The descriptors of the daemon for one session: socket, page, eventfd and pidfd, the pidfd of its swap
/// thread, and as many again for connections, leases and all else.
const DESCRIPTORS: usize = 10;

/// Reads the file `path`, or takes the built-in values where it is not there and not `named` by
/// the user.
pub fn load(path: &Path, named: bool) -> Result<Config, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !named => Ok(Config::default()),
        Err(error) => Err(ConfigError::unreadable(path)(error)),
    }
}

fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let file: File =
        toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
    check_version(path, text, &file.version)?;
    let mut seen: Vec<Uuid> = Vec::new();
    let mut gpus = Vec::new();
    for table in &file.gpu {
        let gpu = table.get_ref().config();
        let complaint = if seen.len() == MAX_GPUS {
            Some(format!("more than {MAX_GPUS} GPUs"))
        } else if seen.contains(&gpu.uuid) {
            Some(format!("{} is described twice", gpu.uuid))
        } else {
            table.get_ref().complaint()
        };
        if let Some(complaint) = complaint {
            return Err(ConfigError::at(path, text, table.span().start, complaint));
        }
        seen.push(gpu.uuid);
        gpus.push(gpu);
    }
    let said = file.scheduler.as_ref().map_or(0, |said| said.span().start);
    let Scheduler(scheduler) = file.scheduler.map(Spanned::into_inner).unwrap_or_default();
    if let Some(complaint) = drain_complaint(&scheduler, &gpus) {
        return Err(ConfigError::at(path, text, said, complaint));
    }
    Ok(Config::of(&file.daemon, scheduler, gpus))
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
    use rtswap_engine::config::{OnViolation, Overrun, Test};
    use rtswap_engine::rules::MAX_TASKS_PER_USER;
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
        assert_eq!(config.engine.settings.claim_timeout, Nanos(5_000_000_000));
        assert_eq!(config.daemon.idle_gap_us, 1500);
        assert_eq!(config.daemon.max_in_flight, 64);
        let everybody = Rules {
            on_violation: Some(OnViolation::Demote),
            ..Rules::default()
        };
        assert_eq!(config.engine.everybody, everybody);
        assert_eq!(config.daemon.orphan_timeout_ms, 10_000);
        let gpu = config.engine.gpus[0].scheduler(&config.engine.scheduler);
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
            config.engine.gpus[0].scheduler(&config.engine.scheduler)
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
        assert_eq!(config.daemon, built_in.daemon);
        assert_eq!(config.engine.settings, built_in.engine.settings);
        let everybody = Rules {
            max_tasks: Some(MAX_TASKS_PER_USER),
            on_violation: Some(OnViolation::Warn),
            ..Rules::default()
        };
        assert_eq!(config.engine.everybody, everybody);
        let said = config.engine.gpus[0].scheduler(&config.engine.scheduler);
        let learned = GpuConfig::learned(config.engine.gpus[0].uuid);
        let learned = learned.completed(Bytes(24 << 30), Bytes::ZERO);
        let learned = learned.scheduler(&built_in.engine.scheduler);
        assert_eq!(
            (said.swap_cost, said.chunk, said.duplex),
            (learned.swap_cost, learned.chunk, learned.duplex)
        );
        assert_eq!(said.swap_share, learned.swap_share);
        assert_eq!(said.longest_wait, learned.longest_wait);
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
             best_effort_reserve, newcomers_reserve, chunk, duplex, swap_cost"
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
            complaint(&size).starts_with("f.toml:5:9: \"3 elephants\" has no unit that is known"),
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
    fn the_turns_of_best_effort_have_their_bounds() {
        let with = |line: &str| format!("version = 1\n[scheduler]\n{line}\n");
        let read = |line: &str| parse(Path::new("f.toml"), &with(line)).unwrap();
        let built_in = read("").engine.scheduler;
        assert_eq!(built_in.swap_share, Ppm(100_000));
        assert_eq!(built_in.longest_wait, Nanos(15_000_000_000));
        let said = read("swap_share = 0.5\nlongest_wait_s = 0.1")
            .engine
            .scheduler;
        assert_eq!(said.swap_share, Ppm(500_000));
        assert_eq!(said.longest_wait, Nanos(100_000_000));
        let whole = read("longest_wait_s = 60").engine.scheduler;
        assert_eq!(whole.longest_wait, Nanos(60_000_000_000));
        for wrong in ["0", "0.51", "1", "-0.1", "nan"] {
            let said = complaint(&with(&format!("swap_share = {wrong}")));
            assert!(
                said.starts_with("f.toml:3:14: ")
                    && said.ends_with("is no share: above 0 and at most 0.5"),
                "{said}"
            );
        }
        assert_eq!(
            complaint(&with("longest_wait_s = 0.0999")),
            "f.toml:3:18: longest_wait_s is 99.900 ms; it must be at least 0.1"
        );
        assert_eq!(
            complaint(&with("longest_wait_s = -1")),
            "f.toml:3:18: -1 is not a time of 0 or more"
        );
        assert!(complaint(&with("longest_wait_s = \"15\"")).starts_with("f.toml:3:18: "));
        assert_eq!(
            complaint(&with("best_effort_quantum_ms = 100.0")),
            "f.toml:3:1: key `best_effort_quantum_ms` is gone; `swap_share` and `longest_wait_s` in \
             [scheduler] say now how long best-effort turns are"
        );
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
        assert!(load(path, false).unwrap().engine.gpus.is_empty());
        let error = load(path, true).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read /nonexistent/rtswapd.toml: "),
            "{error}"
        );
    }
}
