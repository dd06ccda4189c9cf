//! Sizes and times as files and D-Bus options write them.

use std::fmt;

use rtswap_policy::units::{Bytes, Nanos, Ppm};
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The forms of a size, as error messages name them.
pub(super) const SIZE_FORM: &str =
    "whole bytes or a number with a unit, such as \"6.2GiB\" or \"500MB\"";

const UNITS: [(&str, u64); 10] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a size: digits, at most one point, then nothing (bytes), or a unit of 1000s or 1024s.
/// Fractions of a byte are cut off.
pub fn parse_size(text: &str) -> Option<Bytes> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim_start();
    if unit.is_empty() {
        return number.parse().ok().map(Bytes);
    }
    let (_, scale) = *UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    // In integers, so that no size is rounded.
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let part = match fraction {
        "" => 0,
        digits => {
            let value = digits.parse::<u128>().ok()? * u128::from(scale);
            (value / 10_u128.pow(digits.len() as u32)) as u64
        }
    };
    whole.checked_add(part).map(Bytes)
}

/// A size in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) Bytes);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(SIZE_FORM)
            }

            fn visit_i64<E: Error>(self, bytes: i64) -> Result<Size, E> {
                let bytes = u64::try_from(bytes)
                    .map_err(|_| E::custom(format_args!("{bytes} is not a size: {SIZE_FORM}")))?;
                Ok(Size(Bytes(bytes)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text)
                    .map(Size)
                    .ok_or_else(|| E::custom(format_args!("{text:?} is not a size: {SIZE_FORM}")))
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

/// A time in a file, a number of `UNIT` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<const UNIT: u64>(pub(super) Nanos);

/// A time that the file gives in seconds.
pub(super) type Seconds = Span<1_000_000_000>;

/// A time that the file gives in milliseconds.
pub(super) type Millis = Span<1_000_000>;

/// A time that the file gives in microseconds.
pub(super) type Micros = Span<1_000>;

impl<'de, const UNIT: u64> Deserialize<'de> for Span<UNIT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a number, 0 or more, in the unit that the key names";
        let read = |value: f64| {
            // A century, longer than any time here.
            const MOST: f64 = 3.2e18;
            let nanos = value * UNIT as f64;
            (0.0..=MOST)
                .contains(&nanos)
                .then(|| Self(Nanos(nanos.round() as u64)))
                .ok_or_else(|| format!("{value} is not a time of 0 or more"))
        };
        deserializer.deserialize_any(NumberVisitor(expecting, read))
    }
}

/// A share in a file: above 0, at most `MOST` percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share<const MOST: u32>(pub(super) Ppm);

impl<'de, const MOST: u32> Deserialize<'de> for Share<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let most = f64::from(MOST) / 100.0;
        let read = |value: f64| {
            // Rounded down, so that no more is promised than there is.
            let millionths = (value * f64::from(Ppm::ONE.0)).floor();
            (value <= most && millionths >= 1.0)
                .then_some(Self(Ppm(millionths as u32)))
                .ok_or_else(|| format!("{value} is no share: above 0 and at most {most}"))
        };
        let expecting = format!("a number above 0 and at most {most}");
        deserializer.deserialize_any(NumberVisitor(&expecting, read))
    }
}

/// Takes what is expected, in words, from any number; the function says why one will not do.
struct NumberVisitor<'a, F>(&'a str, F);

impl<T, F: FnOnce(f64) -> Result<T, String>> Visitor<'_> for NumberVisitor<'_, F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        (self.1)(value).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        assert_eq!(parse_size("6.2GiB"), Some(Bytes(6_657_199_308)));
        assert_eq!(parse_size("500MB"), Some(Bytes(500_000_000)));
        assert_eq!(parse_size(" 16 MiB "), Some(Bytes(16 << 20)));
        assert_eq!(parse_size("4096"), Some(Bytes(4096)));
        assert_eq!(parse_size("0.5KiB"), Some(Bytes(512)));
        assert_eq!(parse_size("1TiB"), Some(Bytes(1 << 40)));
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "GiB",
            "1.2",
            "-1GiB",
            "1..2GiB",
            ".5GiB",
            "1 XiB",
            "1gib",
            "99999999TiB",
            "1e9",
        ] {
            assert_eq!(parse_size(text), None, "{text:?}");
        }
    }
}
