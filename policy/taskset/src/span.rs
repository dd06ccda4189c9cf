//! Times: numbers in the unit that the key names.

use super::error::Fault;
use super::number::{Decimal, Round};
use super::size;
use super::unit::{Unit, nanos_of};
use rtswap_policy::units::Nanos;

/// Reads a number of `unit`.
pub(super) fn parse(number: &str, unit: Unit, round: Round) -> Result<Nanos, Fault> {
    let nanos = Decimal::parse(number)?.times(unit.nanos(), round);
    nanos.map(Nanos).ok_or_else(|| Fault::TimeTooLong {
        number: number.into(),
        unit: unit.name(),
    })
}

/// What is wrong with a text where a number of `unit` belongs, and the number if it has one.
pub(super) fn wrong_text(text: &str, unit: Unit) -> Fault {
    let (number, name) = size::split(text);
    let span = nanos_of(name).and_then(|nanos| {
        let span = Decimal::parse(number).ok()?.times(nanos, Round::Up)?;
        Some(unit.write(Nanos(span)))
    });
    match span.or_else(|| (name.is_empty() && !number.is_empty()).then(|| number.into())) {
        Some(instead) => Fault::TimeAsText {
            text: text.into(),
            unit: unit.name(),
            instead,
        },
        None if size::looks_like(text) => Fault::SizeForTime {
            text: text.into(),
            unit: unit.name(),
        },
        None => Fault::NotATime {
            text: text.into(),
            unit: unit.name(),
        },
    }
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
            let span = parse(text, Unit::Millis, Round::Down);
            assert_eq!(span, Ok(Nanos(nanos)));
            assert_eq!(Unit::Millis.write(Nanos(nanos)), text);
        }
        assert_eq!(Unit::Micros.write(Nanos(73_600)), "73.6");
    }

    #[test]
    fn a_text_is_told_the_number_that_it_means() {
        let instead = |text| match wrong_text(text, Unit::Millis) {
            Fault::TimeAsText { instead, .. } => Some(instead),
            _ => None,
        };
        assert_eq!(instead("33 ms").as_deref(), Some("33"));
        assert_eq!(instead("4s").as_deref(), Some("4000"));
        assert_eq!(instead("73.6us").as_deref(), Some("0.0736"));
        assert_eq!(instead("33").as_deref(), Some("33"));
        assert!(matches!(
            wrong_text("24GiB", Unit::Millis),
            Fault::SizeForTime { .. }
        ));
        assert!(matches!(
            wrong_text("soon", Unit::Millis),
            Fault::NotATime { .. }
        ));
    }
}
