//! What was measured beside what is true, as a table and as a list of what is too far off.

use std::fmt::Write as _;
use std::time::Duration;

use rtswap_taskset::profile::{Execution, Profile};

use crate::measure::{Truth, percentile};

/// By default an undeclared job ends this long after the last call (docs/configuration.md, `idle_gap_us`). Its agent
/// looks twice a gap, so that it holds the GPU for up to half of one longer.
const GAP: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_millis(1);

/// How far the times of a profile may be off, in per cent.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Of the median from what the configuration says.
    pub(crate) known: f64,
    /// Of the median and the high quantile from what the program saw.
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// A comparison of models with their profiles.
pub(crate) struct Judge {
    bounds: Bounds,
    table: String,
    /// Sizes that are not exact.
    pub(crate) sizes: Vec<String>,
    /// Times that are too far off.
    pub(crate) times: Vec<String>,
}

impl Judge {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            table: String::new(),
            sizes: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Compares one model with its profile.
    pub(crate) fn add(&mut self, profile: &Profile, truth: &Truth) {
        let name = &profile.name;
        let chunk = profile.chunk.0;
        let sizes = [
            ("footprint", profile.memory.footprint.0, truth.footprint),
            ("swappable", profile.memory.swappable.0, truth.swappable),
        ];
        for (what, measured, real) in sizes {
            let (measured, real) = (measured.div_ceil(chunk), real.div_ceil(chunk));
            self.line(format_args!(
                "{name:<8} {what:<17} {real:>7} chunks   {measured:>7} chunks"
            ));
            if measured != real {
                let fault = format!("{name}: {what} {measured} chunks for {real}");
                self.sizes.push(fault);
            }
        }
        // Copies are work of the host here, and make its kernels slower than the configuration says.
        let known = Some(truth.known);
        let runs = [
            ("alone", &profile.alone, known),
            ("loaded", &profile.loaded, None),
        ];
        for ((run, measured, known), own) in runs.into_iter().zip(&truth.own) {
            // The last jobs may have begun after the recorder was asked for the last time.
            let own = &own[..own.len().min(measured.count as usize)];
            self.run(&format!("{name:<8} {run}"), measured, known, own);
        }
    }

    fn run(&mut self, run: &str, measured: &Execution, known: Option<Duration>, own: &[Duration]) {
        let (share, high) = measured.high;
        let share = share.0 as usize / 10_000;
        let held = |time: Duration| time + GAP + LOOK / 2;
        let known = known.map(|known| {
            (
                "median known",
                measured.median,
                held(known),
                self.bounds.known,
            )
        });
        let pairs = [
            (
                "median",
                measured.median,
                held(percentile(own, 50)),
                self.bounds.median,
            ),
            ("high", high, held(percentile(own, share)), self.bounds.high),
        ];
        for (what, measured, real, bound) in known.into_iter().chain(pairs) {
            let off = self.time(run, what, measured.0, real);
            if off.abs() > bound {
                self.times.push(format!("{run}: {what} off by {off:+.2} %"));
            }
        }
        // The longest is reported: nobody saw a longer one.
        let longest = percentile(own, 100);
        self.time(run, "max", measured.max.0, held(longest));
        if u128::from(measured.max.0) < (longest + GAP).as_nanos() {
            let (max, longest) = (measured.max, longest);
            self.times
                .push(format!("{run}: max {max} for {longest:?} and the gap"));
        }
    }

    fn time(&mut self, run: &str, what: &str, measured: u64, real: Duration) -> f64 {
        let (measured, real) = (measured as f64 / 1e6, real.as_secs_f64() * 1e3);
        let off = (measured / real - 1.0) * 100.0;
        self.line(format_args!(
            "{run:<15} {what:<12} {real:>9.3} ms {measured:>12.3} ms  {off:>+6.2} %"
        ));
        off
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.table, "{line}");
    }

    /// What was compared.
    pub(crate) fn table(&self) -> String {
        format!(
            "MODEL    WHAT                   TRUE           PROFILED     OFF\n{}",
            self.table
        )
    }
}
