//! How values stand in the text: sizes with units, GPUs counted or described.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{GpuKeys, MAX_GPUS};

/// Bytes; in text a whole number or a string such as "768MiB".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("whole bytes or a size such as \"768MiB\" (KiB, MiB, GiB)")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
                let bytes = u64::try_from(value);
                bytes
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                let unit = [("KiB", 10), ("MiB", 20), ("GiB", 30)]
                    .into_iter()
                    .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
                let (digits, shift) = unit.unwrap_or((text, 0));
                let number = digits.trim().parse::<u64>().ok();
                let bytes = number.and_then(|number| number.checked_mul(1 << shift));
                bytes
                    .map(Size)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// The version of the file; only 1 is known.
pub(super) struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            1 => Ok(Self),
            other => Err(de::Error::invalid_value(
                de::Unexpected::Signed(other),
                &"version 1",
            )),
        }
    }
}

/// `gpus = 2`, or a table for each.
pub(super) enum Gpus {
    Count(usize),
    Tables(Vec<GpuKeys>),
}

impl<'de> Deserialize<'de> for Gpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct GpusVisitor;
        impl<'de> Visitor<'de> for GpusVisitor {
            type Value = Gpus;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number of GPUs from 1 to 8, or one [[gpus]] table for each")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Gpus, E> {
                let count = usize::try_from(value)
                    .ok()
                    .filter(|n| (1..=MAX_GPUS).contains(n));
                let count = count.map(Gpus::Count);
                count.ok_or_else(|| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Gpus, A::Error> {
                let mut tables = Vec::new();
                while let Some(table) = seq.next_element()? {
                    tables.push(table);
                }
                Ok(Gpus::Tables(tables))
            }
        }
        deserializer.deserialize_any(GpusVisitor)
    }
}
