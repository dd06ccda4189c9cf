//! The units of time: those that keys name, and those that a text may have.

use rtswap_policy::units::Nanos;

/// The unit that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Micros,
    Millis,
}

impl Unit {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Micros => "µs",
            Self::Millis => "ms",
        }
    }

    pub(super) const fn nanos(self) -> u64 {
        match self {
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }

    /// `span` as a number of them, exactly.
    pub(super) fn write(self, span: Nanos) -> String {
        let (whole, rest) = (span.0 / self.nanos(), span.0 % self.nanos());
        let digits = self.nanos().ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        match fraction.trim_end_matches('0') {
            "" => format!("{whole}"),
            fraction => format!("{whole}.{fraction}"),
        }
    }
}

/// The nanoseconds of a unit of time by its name.
pub(super) fn nanos_of(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    })
}
