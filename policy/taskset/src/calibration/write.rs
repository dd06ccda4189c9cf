//! The text of a calibration: what [`super::parse`] reads from it is the same again.

use std::fmt::Write;

use rtswap_policy::cost::DirectionCost;

use super::{Calibration, rfc3339};
use crate::unit::Unit;

impl Calibration {
    /// The calibration as TOML.
    pub fn to_toml(&self) -> String {
        let mut text = format!("version = 1\ngpu = {}\n", quoted(&self.gpu));
        if let Some(name) = &self.name {
            let _ = writeln!(text, "name = {}", quoted(name));
        }
        let _ = write!(
            text,
            "measured = {}\nchunk = \"{}MiB\"\nduplex = {}\n",
            rfc3339(self.measured),
            self.chunk.0 >> 20,
            fraction(u64::from(self.duplex.0), 1_000_000),
        );
        for (name, cost) in [("out", &self.swap_cost.out), ("in", &self.swap_cost.in_)] {
            let _ = write!(
                text,
                "\n[swap_cost.{name}]\nbase_us = {}\nper_chunk_us = {}\ngib_per_s = {}\n",
                Unit::Micros.write(cost.base),
                Unit::Micros.write(cost.per_chunk),
                gib_per_s(cost),
            );
        }
        if !self.notes.is_empty() {
            text.push_str("\n[measured_with]\n");
        }
        for (name, note) in &self.notes {
            let _ = writeln!(text, "{} = {}", key(name), quoted(note));
        }
        text
    }
}

/// The fewest decimals that are read as the same number of bytes per second, which rounds down.
fn gib_per_s(cost: &DirectionCost) -> String {
    let rate = u128::from(cost.bytes_per_second);
    // Ten decimals are finer than a byte.
    let scales = (0..=10).map(|digits| 10_u128.pow(digits));
    let mut tried = scales.map(|scale| ((rate * scale).div_ceil(1 << 30), scale));
    let (number, scale) = tried
        .find(|(number, scale)| (number << 30) / scale == rate)
        .expect("10¹⁰ is more than 2³⁰");
    fraction(number as u64, scale as u64)
}

/// `number` over a power of ten, in decimal.
pub(crate) fn fraction(number: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    let rest = format!("{:0digits$}", number % scale);
    match rest.trim_end_matches('0') {
        "" => (number / scale).to_string(),
        rest => format!("{}.{rest}", number / scale),
    }
}

/// A text without control characters as a basic string of TOML.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if !name.is_empty() && name.bytes().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}
