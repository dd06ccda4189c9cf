//! Sizes with a unit.

use super::error::Fault;
use super::number::{Decimal, Round};
use super::unit::nanos_of;
use rtswap_policy::units::Bytes;

/// Suggestions are taken from the first five. A letter alone counts in 1024s, as in systemd's and docker's options.
const UNITS: [(&str, u64); 13] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads a size as people write it: whole bytes, or a number with a unit in upper or lower case, such as `6.2GiB`,
/// `100M` or `500 MB`. Fractions of a byte are cut off.
pub fn parse_size(text: &str) -> Result<Bytes, Fault> {
    match text.trim().parse() {
        Ok(bytes) => Ok(Bytes(bytes)),
        Err(_) => parse(text),
    }
}

/// Reads a size that must have its unit.
pub(super) fn parse(text: &str) -> Result<Bytes, Fault> {
    let (number, unit) = split(text);
    let decimal = match Decimal::parse(number) {
        Err(Fault::NotANumber(_)) => return Err(Fault::NotASize(text.into())),
        decimal => decimal?,
    };
    let Some(scale) = scale(unit) else {
        return Err(wrong_unit(text, number, unit));
    };
    let bytes = decimal.times(scale, Round::Down);
    bytes
        .map(Bytes)
        .ok_or_else(|| Fault::SizeTooLarge(text.into()))
}

/// The bytes of a unit.
fn scale(unit: &str) -> Option<u64> {
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit));
    known.map(|(_, scale)| *scale)
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
    !number.is_empty() && (meant(unit).is_some() || scale(unit).is_some())
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

/// The unit of the same letter: what else could `GX` be?
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
            ("100M", 100 << 20),
            ("1.5g", 3 << 29),
            ("6 gib", 6 << 30),
            ("3tb", 3_000_000_000_000),
            ("5b", 5),
            ("16777215.99999999999TiB", u64::MAX - 10),
        ] {
            assert_eq!(parse(text), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn whole_bytes_need_no_unit_where_a_size_stands_alone() {
        assert_eq!(parse_size(" 4096 "), Ok(Bytes(4_096)));
        assert_eq!(parse_size("100M"), Ok(Bytes(100 << 20)));
        for text in ["1.2", "-1", "1e9", "0x10", "18446744073709551616"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wrong_unit_is_told_with_the_right_one() {
        let unit = |text| match parse(text) {
            Err(Fault::SizeUnit { instead, .. }) => instead,
            other => panic!("{text}: {other:?}"),
        };
        for (text, instead) in [("24GX", "24GiB"), ("1.5gs", "1.5GiB"), ("64mbit", "64MiB")] {
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
