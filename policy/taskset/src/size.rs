//! Sizes with a unit.

use super::error::Fault;
use super::number::{Decimal, Round};
use super::unit::nanos_of;
use rtswap_policy::units::Bytes;

/// Those that are suggested come first.
const UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads `6.2GiB` or `500 MB`; fractions of a byte are cut off, as the daemon does.
pub(super) fn parse(text: &str) -> Result<Bytes, Fault> {
    let (number, unit) = split(text);
    let decimal = match Decimal::parse(number) {
        Err(Fault::NotANumber(_)) => return Err(Fault::NotASize(text.into())),
        decimal => decimal?,
    };
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(wrong_unit(text, number, unit));
    };
    let bytes = decimal.times(*scale, Round::Down);
    bytes
        .map(Bytes)
        .ok_or_else(|| Fault::SizeTooLarge(text.into()))
}

/// The number and the unit, without the space between them.
pub(super) fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '-' | '+'));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim_start())
}

/// Whether it has a unit of size, written well or not.
pub(super) fn looks_like(text: &str) -> bool {
    let (number, unit) = split(text);
    !number.is_empty() && (meant(unit).is_some() || UNITS.iter().any(|(name, _)| *name == unit))
}

fn wrong_unit(text: &str, number: &str, unit: &str) -> Fault {
    let text = text.into();
    if unit.is_empty() {
        Fault::SizeWithoutUnit {
            text,
            number: number.into(),
        }
    } else if nanos_of(unit).is_some() {
        Fault::TimeForSize(text)
    } else {
        let instead = meant(unit).map(|meant| format!("{number}{meant}"));
        Fault::SizeUnit { text, instead }
    }
}

/// The unit of the same letter: what else could `gib` or `GX` be?
fn meant(unit: &str) -> Option<&'static str> {
    let letter = unit.chars().next()?.to_ascii_uppercase();
    let binary = UNITS
        .iter()
        .take(5)
        .find(|(name, _)| name.starts_with(letter));
    binary
        .filter(|_| unit.chars().count() <= 4)
        .map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        for (text, bytes) in [
            ("6.2GiB", 6_657_199_308),
            ("500MB", 500_000_000),
            (" 16 MiB ", 16 << 20),
            ("0.5KiB", 512),
            ("1TiB", 1 << 40),
            ("4096B", 4_096),
            ("16777215.99999999999TiB", u64::MAX - 10),
        ] {
            assert_eq!(parse(text), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn a_wrong_unit_is_told_with_the_right_one() {
        let unit = |text| match parse(text) {
            Err(Fault::SizeUnit { instead, .. }) => instead,
            other => panic!("{text}: {other:?}"),
        };
        for (text, instead) in [
            ("24GX", "24GiB"),
            ("24 gib", "24GiB"),
            ("1.5g", "1.5GiB"),
            ("64mib", "64MiB"),
            ("3tb", "3TiB"),
            ("5b", "5B"),
        ] {
            assert_eq!(unit(text).as_deref(), Some(instead), "{text}");
        }
        assert_eq!(unit("1 XiB"), None);
        assert_eq!(unit("3 grapefruits"), None);
        assert!(matches!(parse("24"), Err(Fault::SizeWithoutUnit { .. })));
        assert!(matches!(parse("24ms"), Err(Fault::TimeForSize(_))));
        assert!(matches!(parse("-1GiB"), Err(Fault::Negative(_))));
        assert!(matches!(parse("16777216TiB"), Err(Fault::SizeTooLarge(_))));
        for text in ["", "GiB", "1..2GiB", ".5GiB", "1+2GiB"] {
            assert!(matches!(parse(text), Err(Fault::NotASize(_))), "{text}");
        }
    }
}
