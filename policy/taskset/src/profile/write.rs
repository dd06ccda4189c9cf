//! The text of a profile: what [`super::parse`] reads from it is the same again.

use std::fmt::Write;

use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::{Execution, Profile};
use crate::calibration::{fraction, quoted, rfc3339};
use crate::unit::Unit;

impl Profile {
    /// The profile as TOML.
    pub fn to_toml(&self) -> String {
        let process = self.process.as_ref();
        let mut text = format!(
            "# What `rtswapctl profile` saw: measured, not proven.\nversion = 1\nname = {}\nmeasured = {}\n{}program = {}\n\
             jobs = \"{}\"\n",
            quoted(&self.name),
            rfc3339(self.measured),
            process.map_or_else(String::new, |whole| format!(
                "process = {}\n",
                quoted(whole)
            )),
            quoted(&self.program),
            self.jobs.name(),
        );
        let _ = writeln!(text, "\n[gpu]\nuuid = {}", quoted(&self.gpu));
        if let Some(name) = &self.gpu_name {
            let _ = writeln!(text, "name = {}", quoted(name));
        }
        let _ = write!(
            text,
            "chunk = {}\n\n[memory]\nfootprint = {}\nswappable = {}\n\n[period]\nmedian_ms = {}\nshortest_ms = {}\n\n\
             [execution]\nwcet_ms = {}\n",
            size(self.chunk),
            size(self.memory.footprint),
            size(self.memory.swappable),
            ms(self.period.0),
            ms(self.period.1),
            ms(self.wcet),
        );
        run(&mut text, "alone", &self.alone);
        run(&mut text, "loaded", &self.loaded);
        for allocation in &self.allocations {
            let _ = write!(
                text,
                "\n[[allocation]]\nbytes = {}\ncount = {}\nkind = \"{}\"\n",
                size(allocation.bytes),
                allocation.count,
                allocation.kind.name(),
            );
        }
        text
    }
}

fn run(text: &mut String, name: &str, run: &Execution) {
    let _ = write!(
        text,
        "\n[execution.{name}]\ncount = {}\nmedian_ms = {}\nhigh = {}\nhigh_ms = {}\nmax_ms = {}\nquantile = {}\n\
         confidence = {}\n",
        run.count,
        ms(run.median),
        share(run.high.0),
        ms(run.high.1),
        ms(run.max),
        share(run.quantile),
        share(run.confidence),
    );
}

fn ms(time: Nanos) -> String {
    Unit::Millis.write(time)
}

fn share(share: Ppm) -> String {
    fraction(u64::from(share.0), 1_000_000)
}

/// Whole MiB where it is a number of them, else bytes.
fn size(bytes: Bytes) -> String {
    match bytes.0 >> 20 {
        mib if mib > 0 && mib << 20 == bytes.0 => format!("\"{mib}MiB\""),
        _ => bytes.0.to_string(),
    }
}
