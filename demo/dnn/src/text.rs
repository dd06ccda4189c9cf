//! Sizes and durations as people write them.

use std::time::Duration;

const SIZE_UNITS: [(&str, u64); 8] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
    ("", 1),
];

const TIME_UNITS: [(&str, f64); 5] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
];

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end].parse::<f64>().ok()?;
    Some((number, text[end..].trim()))
}

/// Bytes from `400MiB`, `1.5GiB` or whole bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = split(text).and_then(|(number, unit)| {
        let (_, factor) = SIZE_UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let bytes = number * factor as f64;
        (bytes.fract() < 1e-3 || factor > 1).then_some(bytes.round())
    });
    match bytes {
        Some(bytes) if bytes < 2_f64.powi(63) => Ok(bytes as u64),
        _ => Err("write a size such as 400MiB, 1.5GiB or whole bytes".into()),
    }
}

/// A duration from `33ms`, `0.5s` or `800us`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let nanos = split(text).and_then(|(number, unit)| {
        let (_, factor) = TIME_UNITS.into_iter().find(|(name, _)| *name == unit)?;
        Some((number * factor).round())
    });
    match nanos {
        Some(nanos) if nanos < 2_f64.powi(63) => Ok(Duration::from_nanos(nanos as u64)),
        _ => Err("write a duration such as 33ms, 0.5s or 800us".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("400MiB"), Ok(400 << 20));
        assert_eq!(size("1.5 GiB"), Ok(3 << 29));
        assert_eq!(size("4096"), Ok(4096));
        for bad in ["", "MiB", "4 TiB2", "-1", "1.5", "1e9", "9999999999GiB"] {
            assert!(size(bad).is_err(), "{bad} was taken");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("33ms"), Ok(Duration::from_millis(33)));
        assert_eq!(duration("0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("800us"), Ok(Duration::from_micros(800)));
        for bad in ["", "33", "ms", "-1ms", "1h", "99999999999s"] {
            assert!(duration(bad).is_err(), "{bad} was taken");
        }
    }
}
