//! Sizes, times, shares and words as files write them.

use std::fmt;

use rtswap_engine::config::OnViolation;
use rtswap_engine::rules::idle_complaint;
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_taskset::parse_size;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// The forms of a size, as error messages name them.
const SIZE_FORM: &str = "whole bytes or a number with a unit, such as \"6.2GiB\" or \"500MB\"";

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
                parse_size(text).map(Size).map_err(E::custom)
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

/// How long a task may idle on the GPU, in a file: milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleMillis(pub(super) Nanos);

impl<'de> Deserialize<'de> for IdleMillis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Span(span) = Millis::deserialize(deserializer)?;
        match idle_complaint(span) {
            Some(complaint) => Err(D::Error::custom(complaint)),
            None => Ok(Self(span)),
        }
    }
}

/// What follows from a violation, in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Violation {
    Warn,
    Demote,
    Kill,
}

impl From<Violation> for OnViolation {
    fn from(said: Violation) -> Self {
        match said {
            Violation::Warn => Self::Warn,
            Violation::Demote => Self::Demote,
            Violation::Kill => Self::Kill,
        }
    }
}

/// A whole number in a file, from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole<const LEAST: u32, const MOST: u32>(pub(super) u32);

impl<'de, const LEAST: u32, const MOST: u32> Deserialize<'de> for Whole<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WholeVisitor<const LEAST: u32, const MOST: u32>;

        impl<const LEAST: u32, const MOST: u32> Visitor<'_> for WholeVisitor<LEAST, MOST> {
            type Value = Whole<LEAST, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {LEAST} to {MOST}")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                let read = u32::try_from(value).ok();
                let read = read.filter(|value| (LEAST..=MOST).contains(value));
                read.map(Whole)
                    .ok_or_else(|| E::custom(format_args!("{value} is not from {LEAST} to {MOST}")))
            }
        }

        deserializer.deserialize_i64(WholeVisitor::<LEAST, MOST>)
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
