//! What the simulated machine is made of: one TOML file, environment on top.
//!
//! The file is named by `SIMGPU_CONFIG`. Each key can be overridden by the
//! variable `SIMGPU_<KEY>`, which then holds for every GPU.

mod text;

use std::{env, fmt, fs, path::Path};

use serde::{Deserialize, Serialize};

pub use text::Size;
use text::{Gpus, Version};

/// Bytes of one granule: the unit in which device memory is handed out.
pub const GRANULE: u64 = 2 << 20;
/// The most GPUs one machine has.
pub const MAX_GPUS: usize = 8;
/// The version of CUDA whose driver this stands for unless the configuration says otherwise: 12.8.
pub const CUDA_VERSION: i32 = 12_080;
/// The first version of CUDA 13.
pub const CUDA_13: i32 = 13_000;
/// The versions that can be asked for, 12.0 to 13.9.
const CUDA_VERSIONS: std::ops::RangeInclusive<i32> = 12_000..=13_090;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{path}: cannot be read: {source}; set SIMGPU_CONFIG to a readable TOML file")]
    Unreadable {
        /// The file asked for.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not a configuration.
    #[error("{origin}: {}", one_line(source))]
    Invalid {
        /// The file or environment variable at fault.
        origin: String,
        /// Line, key and what would be right.
        source: Box<toml::de::Error>,
    },
    /// A value is out of its range.
    #[error("{origin}: gpu {gpu}: {key} = {value}: {wants}")]
    Range {
        /// The file, or "environment".
        origin: String,
        /// Ordinal of the GPU.
        gpu: usize,
        /// The key at fault.
        key: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        wants: &'static str,
    },
    /// There must be at least one GPU and at most [`MAX_GPUS`].
    #[error("{origin}: {count} gpus; give a number from 1 to 8")]
    Count {
        /// The file, or "environment".
        origin: String,
        /// How many were asked for.
        count: usize,
    },
}

macro_rules! gpu_keys {
    ($($(#[$doc:meta])* $key:ident: $type:ty = $default:expr,)*) => {
        /// One simulated GPU.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct GpuConfig {
            $($(#[$doc])* pub $key: $type,)*
        }

        impl Default for GpuConfig {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }

        /// A `[[gpus]]` table: what it leaves out is taken from the top level.
        #[derive(Clone, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct GpuKeys {
            $($key: Option<$type>,)*
        }

        impl GpuKeys {
            fn over(self, base: &GpuConfig) -> GpuConfig {
                GpuConfig { $($key: self.$key.unwrap_or_else(|| base.$key.clone()),)* }
            }
        }

        /// The file. The keys of a GPU at the top level hold for all of them.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Text {
            #[serde(rename = "version")]
            _version: Option<Version>,
            gpus: Option<Gpus>,
            release_lag_ms: Option<f64>,
            scrub: Option<bool>,
            cuda_version: Option<i32>,
            foreign_kernels: Option<ForeignKernels>,
            $($key: Option<$type>,)*
        }

        impl Text {
            const KEYS: &[&str] = &[
                "version",
                "gpus",
                "release_lag_ms",
                "scrub",
                "cuda_version",
                "foreign_kernels",
                $(stringify!($key),)*
            ];

            /// The keys of a GPU; how many there are.
            fn split(self) -> (GpuKeys, Option<Gpus>) {
                (GpuKeys { $($key: self.$key,)* }, self.gpus)
            }
        }
    };
}

// The default is the paper's RTX 3090 on PCIe 3.0, sizes and bandwidths both
// divided by 32 so that times stay the paper's. The costs per call add up to
// the published 73.6 µs a chunk out and 79.5 µs a chunk in. The compute rate is
// what its models reach at batch 1 (5.2 GiB touched in 63 ms), over 32.
gpu_keys! {
    /// Product name.
    name: String = "Simulated RTX 3090 (1/32)".into(),
    /// Device memory; a multiple of 2 MiB.
    memory: Size = Size(768 << 20),
    /// Rate of the copy engine device to host, GiB/s.
    d2h_gib_per_s: f64 = 12.08 / 32.0,
    /// Rate of the copy engine host to device, GiB/s.
    h2d_gib_per_s: f64 = 11.18 / 32.0,
    /// Rate of a copy engine while the other one copies too, as a share of its rate alone: above 0, at most 1.
    #[serde(default = "no_sharing", skip_serializing_if = "is_no_sharing")]
    duplex: f64 = no_sharing(),
    /// Latency of one copy or set, µs.
    copy_us: f64 = 10.0,
    /// Further latency of a copy between host and device that begins on an engine that stood idle, µs.
    #[serde(default, skip_serializing_if = "is_nothing")]
    copy_start_us: f64 = 0.0,
    /// cuMemCreate, µs.
    create_us: f64 = 35.0,
    /// cuMemMap, µs.
    map_us: f64 = 9.5,
    /// cuMemSetAccess, µs.
    access_us: f64 = 25.0,
    /// cuMemUnmap, µs.
    unmap_us: f64 = 30.0,
    /// cuMemRelease, µs.
    release_us: f64 = 33.6,
    /// Rate at which a kernel touches device memory, GiB/s.
    compute_gib_per_s: f64 = 2.6,
    /// Latency of one launch, µs.
    launch_us: f64 = 5.0,
    /// Device memory that each context takes; rounded up to 2 MiB.
    context_bytes: Size = Size(8 << 20),
    /// Whether it calls itself a part of the host's chip, with one memory for both.
    integrated: bool = false,
    /// Whether it has virtual memory management (cuMemCreate and what goes with it).
    virtual_memory: bool = true,
    /// Number, from 0, of the GPU in MIG mode that it is an instance of: GPUs with the same number
    /// are instances of one. None for a GPU of its own.
    mig_parent: Option<u32> = None,
}

/// The whole simulated machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How long a dead process's memory stays taken, ms from its discovery.
    pub release_lag_ms: f64,
    /// Whether memory that another process had is zeroed before it is handed on. CUDA promises
    /// nothing ("the memory is not cleared", cuMemAlloc), but NVIDIA's Linux driver scrubs what is
    /// freed on every GPU from Turing on, unless it is loaded with `RMDisableScrubOnFree=1`
    /// (open-gpu-kernel-modules: `bScrubOnFreeEnabled`, `memmgrScrubRegistryOverrides`). What a
    /// process had itself is never zeroed here: no program may count on it.
    pub scrub: bool,
    /// The version of CUDA whose driver this is, as cuDriverGetVersion tells it (1000·major + 10·minor). Functions that came
    /// later are not found by cuGetProcAddress.
    #[serde(
        default = "default_cuda_version",
        skip_serializing_if = "is_default_cuda_version"
    )]
    pub cuda_version: i32,
    /// What a launch of a kernel that is not computed here comes to.
    #[serde(default, skip_serializing_if = "ForeignKernels::is_default")]
    pub foreign_kernels: ForeignKernels,
    /// The GPUs by ordinal.
    pub gpus: Vec<GpuConfig>,
}

/// What becomes of kernels that are in images of others: nothing here could compute them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ForeignKernels {
    /// Their launch fails with CUDA_ERROR_NO_BINARY_FOR_GPU.
    #[default]
    Refuse,
    /// Their launch succeeds and does nothing.
    Ignore,
}

impl ForeignKernels {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde passes it")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The share of `duplex` at which copy engines do not slow each other down.
fn no_sharing() -> f64 {
    1.0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde passes it")]
fn is_no_sharing(duplex: &f64) -> bool {
    *duplex >= no_sharing()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde passes it")]
fn is_nothing(us: &f64) -> bool {
    *us <= 0.0
}

fn default_cuda_version() -> i32 {
    CUDA_VERSION
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde passes it")]
fn is_default_cuda_version(version: &i32) -> bool {
    *version == CUDA_VERSION
}

impl Default for Config {
    fn default() -> Self {
        Self {
            release_lag_ms: 0.0,
            scrub: true,
            cuda_version: CUDA_VERSION,
            foreign_kernels: ForeignKernels::default(),
            gpus: vec![GpuConfig::default()],
        }
    }
}

impl Config {
    /// What the environment asks for, or none if it says nothing.
    pub fn from_env() -> Result<Option<Self>, ConfigError> {
        let path = env::var("SIMGPU_CONFIG").ok();
        let overrides = env_overrides();
        if path.is_none() && overrides.is_empty() {
            return Ok(None);
        }
        let text = match &path {
            None => String::new(),
            Some(path) => {
                fs::read_to_string(Path::new(path)).map_err(|source| ConfigError::Unreadable {
                    path: path.clone(),
                    source,
                })?
            }
        };
        let origin = path.as_deref().unwrap_or("environment");
        Self::parse(origin, &text, &overrides).map(Some)
    }

    /// Reads a configuration.
    ///
    /// `origin` names the text in errors; `overrides` are keys in lower case
    /// with their values as text.
    pub fn parse(
        origin: &str,
        text: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let mut file: Text = toml::from_str(text).map_err(|source| invalid(origin, source))?;
        let mut config = Self::default();
        config.take(&mut file);
        let (keys, gpus) = file.split();
        let mut top = keys.over(&GpuConfig::default());
        let mut gpus = match gpus.unwrap_or(Gpus::Count(1)) {
            Gpus::Count(count) => vec![top.clone(); count.min(MAX_GPUS + 1)],
            Gpus::Tables(tables) => tables.into_iter().map(|table| table.over(&top)).collect(),
        };
        for (key, value) in overrides {
            let mut over = parse_override(key, value)?;
            config.take(&mut over);
            let (keys, count) = over.split();
            top = keys.clone().over(&top);
            for gpu in &mut gpus {
                *gpu = keys.clone().over(gpu);
            }
            if let Some(Gpus::Count(count)) = count {
                gpus.resize(count.min(MAX_GPUS + 1), top.clone());
            }
        }
        config.gpus = gpus;
        config.check(origin)?;
        Ok(config)
    }

    /// Takes over what a text says of the machine as a whole.
    fn take(&mut self, text: &mut Text) {
        self.release_lag_ms = text.release_lag_ms.take().unwrap_or(self.release_lag_ms);
        self.scrub = text.scrub.take().unwrap_or(self.scrub);
        self.cuda_version = text.cuda_version.take().unwrap_or(self.cuda_version);
        self.foreign_kernels = text.foreign_kernels.take().unwrap_or(self.foreign_kernels);
    }

    /// The configuration as text, every key spelt out but for those that came later and have their default: equal
    /// machines have equal texts, and the text of a machine stays, from which its UUIDs are made.
    pub(crate) fn canonical(&self) -> String {
        toml::to_string(self).expect("a configuration is plain tables of plain values")
    }

    /// Reads what [`Config::canonical`] wrote; what it never writes is refused.
    pub(crate) fn from_canonical(text: &str) -> Option<Self> {
        let config: Self = toml::from_str(text).ok()?;
        config.check("the machine").is_ok().then_some(config)
    }

    /// The UUID of GPU `ordinal`: the same for the same configuration.
    pub fn uuid(&self, ordinal: usize) -> [u8; 16] {
        self.uuid_of(ordinal)
    }

    /// The UUID of what is called so in this configuration.
    pub(crate) fn uuid_of(&self, what: impl fmt::Display) -> [u8; 16] {
        let text = format!("{}#{what}", self.canonical());
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&fnv1a(0xcbf2_9ce4_8422_2325, text.as_bytes()).to_be_bytes());
        uuid[8..].copy_from_slice(&fnv1a(0x9ae1_6a3b_2f90_404f, text.as_bytes()).to_be_bytes());
        // Version 8, variant 1: a UUID of our own making (RFC 9562).
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }

    fn check(&self, origin: &str) -> Result<(), ConfigError> {
        if self.gpus.is_empty() || self.gpus.len() > MAX_GPUS {
            return Err(ConfigError::Count {
                origin: origin.into(),
                count: self.gpus.len(),
            });
        }
        if !CUDA_VERSIONS.contains(&self.cuda_version) {
            return Err(ConfigError::Range {
                origin: origin.into(),
                gpu: 0,
                key: "cuda_version",
                value: self.cuda_version.to_string(),
                wants: "give a number from 12000 to 13090, such as 13000 for CUDA 13.0",
            });
        }
        for (gpu, values) in self.gpus.iter().enumerate() {
            let refuse = |key, value: String, wants| {
                Err(ConfigError::Range {
                    origin: origin.into(),
                    gpu,
                    key,
                    value,
                    wants,
                })
            };
            let memory = values.memory.0;
            if memory < GRANULE || !memory.is_multiple_of(GRANULE) || memory > 1 << 40 {
                let wants = "give a multiple of 2MiB up to 1TiB";
                return refuse("memory", memory.to_string(), wants);
            }
            if let Some(parent) = values.mig_parent
                && parent as usize >= MAX_GPUS
            {
                return refuse(
                    "mig_parent",
                    parent.to_string(),
                    "give a number from 0 to 7",
                );
            }
            if values.context_bytes.0 > memory {
                let wants = "give less than the memory";
                return refuse("context_bytes", values.context_bytes.0.to_string(), wants);
            }
            for (key, rate) in [
                ("d2h_gib_per_s", values.d2h_gib_per_s),
                ("h2d_gib_per_s", values.h2d_gib_per_s),
                ("compute_gib_per_s", values.compute_gib_per_s),
            ] {
                if !(rate.is_finite() && rate > 0.0) {
                    return refuse(key, rate.to_string(), "give a number above 0, in GiB/s");
                }
            }
            if !(values.duplex > 0.0 && values.duplex <= 1.0) {
                let wants = "give a share above 0, at most 1";
                return refuse("duplex", values.duplex.to_string(), wants);
            }
            for (key, us) in [
                ("copy_us", values.copy_us),
                ("copy_start_us", values.copy_start_us),
                ("create_us", values.create_us),
                ("map_us", values.map_us),
                ("access_us", values.access_us),
                ("unmap_us", values.unmap_us),
                ("release_us", values.release_us),
                ("launch_us", values.launch_us),
                ("release_lag_ms", self.release_lag_ms),
            ] {
                if !(0.0..=1e6).contains(&us) {
                    return refuse(key, us.to_string(), "give a number from 0 to 1000000");
                }
            }
        }
        Ok(())
    }
}

/// 64-bit FNV-1a from a given basis.
pub(crate) fn fnv1a(basis: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(basis, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

fn invalid(origin: &str, source: toml::de::Error) -> ConfigError {
    ConfigError::Invalid {
        origin: origin.into(),
        source: Box::new(source),
    }
}

/// The place and the fault, without the picture of the line.
fn one_line(error: &toml::de::Error) -> String {
    let text = error.to_string();
    match text.split_once('\n') {
        Some((place, _)) if error.span().is_some() => {
            format!("{place}: {}", error.message().trim_end())
        }
        _ => text,
    }
}

fn env_overrides() -> Vec<(String, String)> {
    Text::KEYS
        .iter()
        .filter(|key| **key != "version")
        .filter_map(|key| {
            let value = env::var(format!("SIMGPU_{}", key.to_uppercase())).ok()?;
            Some(((*key).to_owned(), value))
        })
        .collect()
}

/// A value from the environment is what stands right of `=` in the file, with
/// or without quotes.
fn parse_override(key: &str, value: &str) -> Result<Text, ConfigError> {
    let origin = format!("SIMGPU_{}", key.to_uppercase());
    toml::from_str(&format!("{key} = {value}"))
        .or_else(|plain: toml::de::Error| {
            let quoted = toml::Value::String(value.into());
            toml::from_str(&format!("{key} = {quoted}")).map_err(|_| plain)
        })
        .map_err(|source| invalid(&origin, source))
}

#[cfg(test)]
mod tests;
