//! The options.

use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::failure::Failure;
use crate::reference::WIDTH;
use crate::text;

/// A periodic neural-network-like CUDA workload that checks every result.
///
/// It fills its weights on the GPU, then runs one job a period: reset the activations, chain a
/// kernel over all layers, take the checksum and compare it with what the CPU worked out at start.
///
/// Exit codes: 0 ok, 1 wrong results, 2 bad input or no GPU, 3 CUDA error.
#[derive(Parser, Debug, Clone)]
#[command(version)]
pub(crate) struct Options {
    /// What the report calls this workload.
    #[arg(long, default_value = "dnn")]
    pub name: String,
    /// The GPU's index.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub gpu: u32,
    /// Size of all weights together.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = text::size)]
    pub memory: u64,
    /// In place of --memory: per cent of the memory that the driver says is free, weights and all else together. Says
    /// `takes N of M bytes` on standard error.
    #[arg(long, value_name = "PERCENT", conflicts_with = "memory", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub share: Option<u64>,
    /// Layers the weights are split over, an allocation each.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub layers: u64,
    /// Time from one release to the next.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = text::duration)]
    pub period: Duration,
    /// Time from release within which a job must complete; the period unless given.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub deadline: Option<Duration>,
    /// Jobs to count; endless without this and --duration.
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub jobs: Option<u64>,
    /// How long to release jobs that count.
    #[arg(long, value_name = "TIME", value_parser = text::duration)]
    pub duration: Option<Duration>,
    /// Jobs to run before those that count.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: u64,
    /// Passes over all layers in one job.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub work: u32,
    /// Seed of weights and activations.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u32,
    /// Wait before the first release.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = text::duration)]
    pub phase: Duration,
    /// Say `job N` on standard error after each job that counts.
    #[arg(long)]
    pub progress: bool,
    /// Say `times WAIT RESPONSE right` (or `wrong`) on standard error after each job that counts: µs from its release
    /// to its first GPU work being accepted, and to its completion.
    #[arg(long)]
    pub times: bool,
    /// After the report, keep the GPU memory until standard input ends.
    #[arg(long)]
    pub hold: bool,
    /// Copy all of --memory again and again between pinned host memory and the GPU in place of jobs, a layer at a time,
    /// until standard input ends or for --duration; says `ready` on standard error.
    #[arg(
        long,
        value_enum,
        value_name = "DIRECTION",
        conflicts_with_all = ["jobs", "period", "deadline", "warmup", "work", "phase", "progress", "times", "hold", "info"]
    )]
    pub copy: Option<Copies>,
    /// Time the driver's calls that map and unmap memory, in chunks of each SIZE, in place of jobs.
    #[arg(
        long,
        value_name = "SIZE,…",
        value_delimiter = ',',
        value_parser = text::size,
        conflicts_with_all = ["memory", "share", "layers", "jobs", "period", "deadline", "duration", "warmup", "work", "phase", "progress", "times", "hold", "copy", "info"]
    )]
    pub calls: Option<Vec<u64>>,
    /// Report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Print the GPUs as JSON and end.
    #[arg(long)]
    pub info: bool,
}

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Copies {
    /// From the host to the GPU.
    In,
    /// From the GPU to the host.
    Out,
    /// At the same time in both directions, each with as much memory.
    Both,
}

impl Options {
    /// Reads the command line. Ends the program where help or the version was asked for.
    pub(crate) fn of_process() -> Result<Self, Failure> {
        Self::try_parse().map_err(|error| {
            let text = error.render().to_string();
            match text.strip_prefix("error: ") {
                Some(text) => Failure::Input(one_line(text)),
                None => error.exit(),
            }
        })
    }

    /// The relative deadline.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline.unwrap_or(self.period)
    }

    /// Refuses what cannot be run.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let refuse = |text: String| Err(Failure::Input(text));
        if self.layers == 0 || self.work == 0 {
            return refuse("--layers and --work must be at least 1".into());
        }
        let least = self.layers.saturating_mul(WIDTH * 4);
        if self.memory < least {
            return refuse(format!(
                "--memory {} is too little for {} layers: give {least} bytes or fewer layers",
                self.memory, self.layers
            ));
        }
        if self.period.is_zero() {
            return refuse("--period must be above 0".into());
        }
        Ok(())
    }
}

/// What clap says is wrong and what it takes to be meant, without its usage.
fn one_line(text: &str) -> String {
    let ends =
        |line: &&str| line.starts_with("Usage: ") || line.starts_with("For more information");
    let lines = text.lines().take_while(|line| !ends(line));
    let lines = lines.map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<_> = lines.collect();
    let said = said.join(" ").replace(" tip: ", "; ");
    // The standard library's words.
    let said = said.replace("invalid digit found in string", "write it in digits alone");
    format!("{said}; --help says more")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Options {
        Options::try_parse_from([&["dnn"], args].concat()).unwrap()
    }

    #[test]
    fn the_deadline_is_the_period_unless_given() {
        assert_eq!(
            options(&["--period", "40ms"]).deadline(),
            Duration::from_millis(40)
        );
        let given = options(&["--period", "40ms", "--deadline", "30ms"]);
        assert_eq!(given.deadline(), Duration::from_millis(30));
    }

    #[test]
    fn a_share_is_a_part_of_what_is_free() {
        assert_eq!(options(&["--share", "90"]).share, Some(90));
        for wrong in [
            &["--share=0"][..],
            &["--share=101"],
            &["--share=9", "--memory=1MiB"],
        ] {
            let taken = Options::try_parse_from([&["dnn"], wrong].concat());
            assert!(taken.is_err(), "{wrong:?} was taken");
        }
    }

    #[test]
    fn copies_take_the_place_of_jobs() {
        assert_eq!(options(&["--copy", "both"]).copy, Some(Copies::Both));
        for job in ["--jobs=1", "--period=1ms", "--hold", "--info"] {
            let both = Options::try_parse_from(["dnn", "--copy", "in", job]);
            assert!(both.is_err(), "{job} was taken");
        }
    }

    #[test]
    fn calls_are_timed_for_several_sizes() {
        assert_eq!(
            options(&["--calls", "2MiB,16MiB"]).calls,
            Some(vec![2 << 20, 16 << 20])
        );
        let both = Options::try_parse_from(["dnn", "--calls", "2MiB", "--copy", "in"]);
        assert!(both.is_err());
    }

    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        let told = |args: &[&str]| {
            let error = Options::try_parse_from([&["dnn"], args].concat()).unwrap_err();
            one_line(error.render().to_string().trim_start_matches("error: "))
        };
        assert_eq!(
            told(&["--perod", "3ms"]),
            "unexpected argument '--perod' found; a similar argument exists: '--period'; --help says more"
        );
    }

    #[test]
    fn what_cannot_run_is_refused() {
        assert!(options(&[]).check().is_ok());
        for bad in [
            ["--layers", "0"],
            ["--work", "0"],
            ["--period", "0ms"],
            ["--memory", "1MiB"],
            ["--layers", "1000"],
            ["--layers", "18446744073709551615"],
        ] {
            assert!(options(&bad).check().is_err(), "{bad:?} was taken");
        }
    }
}
