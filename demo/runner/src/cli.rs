//! The options.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Four tasks that together need 1.9 times the GPU's memory: first on the bare GPU, then under rtswap.
///
/// Exit codes: 0 ok, 1 wrong results or a broken session, 2 bad input.
#[derive(Parser, Debug)]
#[command(name = "rtswap-demo", version)]
pub(crate) struct Options {
    /// Folder with rtswapd, rtswapctl, dnn and librtswap_cuda.so, and simgpu/ with the simulated
    /// GPU's libcuda.so.1.
    #[arg(long, value_name = "DIR")]
    pub bin_dir: PathBuf,
    /// The GPU to use.
    #[arg(long, value_enum, default_value_t = GpuKind::Simulated)]
    pub gpu: GpuKind,
    /// Jobs of the task with the longest period; the others run as long.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: u32,
    /// Endless best-effort programs to run beside them under rtswap, of half the GPU's memory each.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=8))]
    pub best_effort: u32,
    /// Report as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which GPU the demonstration runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GpuKind {
    /// A GPU made of shared memory and waiting.
    Simulated,
    /// This machine's GPU 0, through its own driver.
    Real,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_is_simulated_unless_asked_otherwise() {
        let parse = |args: &[&str]| {
            Options::try_parse_from([&["rtswap-demo", "--bin-dir", "b"], args].concat())
        };
        assert_eq!(parse(&[]).unwrap().gpu, GpuKind::Simulated);
        assert_eq!(parse(&["--gpu", "real"]).unwrap().gpu, GpuKind::Real);
        assert!(parse(&["--jobs", "0"]).is_err());
        assert!(parse(&["--best-effort", "9"]).is_err());
    }
}
