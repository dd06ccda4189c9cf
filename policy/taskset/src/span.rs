//! Times: numbers in the unit that the key names.

use super::error::Fault;
use super::number::{Decimal, Round};
use super::size;
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

    const fn nanos(self) -> u64 {
        match self {
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }

    /// Reads a number of them.
    pub(super) fn parse(self, number: &str, round: Round) -> Result<Nanos, Fault> {
        let nanos = Decimal::parse(number)?.times(self.nanos(), round);
        nanos.map(Nanos).ok_or_else(|| Fault::TimeTooLong {
            number: number.into(),
            unit: self.name(),
        })
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

    /// What is wrong with a text where a number of them belongs, and the number if it has one.
    pub(super) fn as_text(self, text: &str) -> Fault {
        let (number, name) = size::split(text);
        let span = unit(name).and_then(|nanos| {
            let span = Decimal::parse(number).ok()?.times(nanos, Round::Up)?;
            Some(self.write(Nanos(span)))
        });
        match span.or_else(|| (name.is_empty() && !number.is_empty()).then(|| number.into())) {
            Some(instead) => Fault::TimeAsText {
                text: text.into(),
                unit: self.name(),
                instead,
            },
            None if size::looks_like(text) => Fault::SizeForTime {
                text: text.into(),
                unit: self.name(),
            },
            None => Fault::NotATime {
                text: text.into(),
                unit: self.name(),
            },
        }
    }
}

/// Nanoseconds of a unit of time by its name.
pub(super) fn unit(name: &str) -> Option<u64> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_they_were_read() {
        for (text, nanos) in [
            ("33.3", 33_300_000),
            ("4000", 4_000_000_000),
            ("0.000001", 1),
        ] {
            let span = Unit::Millis.parse(text, Round::Down);
            assert_eq!(span, Ok(Nanos(nanos)));
            assert_eq!(Unit::Millis.write(Nanos(nanos)), text);
        }
        assert_eq!(Unit::Micros.write(Nanos(73_600)), "73.6");
    }

    #[test]
    fn a_text_is_told_the_number_that_it_means() {
        let instead = |text| match Unit::Millis.as_text(text) {
            Fault::TimeAsText { instead, .. } => Some(instead),
            _ => None,
        };
        assert_eq!(instead("33 ms").as_deref(), Some("33"));
        assert_eq!(instead("4s").as_deref(), Some("4000"));
        assert_eq!(instead("73.6us").as_deref(), Some("0.0736"));
        assert_eq!(instead("33").as_deref(), Some("33"));
        assert!(matches!(
            Unit::Millis.as_text("24GiB"),
            Fault::SizeForTime { .. }
        ));
        assert!(matches!(
            Unit::Millis.as_text("soon"),
            Fault::NotATime { .. }
        ));
    }
}
