//! Times as people write them: `33ms`, `0.5s`, `800us`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error("a time needs a unit: {0}ns, {0}us, {0}ms or {0}s")]
    NoUnit(String),
    #[error("{0} is no unit of time; use ns, us, ms, s or min")]
    Unit(String),
    #[error("{0:?} is no number that is 0 or more; write one before the unit, such as 33ms")]
    Number(String),
}

/// Parses a number and its unit, nothing between them or a space.
pub(crate) fn parse(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    let split = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "" => return Err(DurationError::NoUnit(text.to_owned())),
        _ => return Err(DurationError::Unit(unit.to_owned())),
    };
    let wrong = || DurationError::Number(number.to_owned());
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse("33ms"), Ok(Duration::from_millis(33)));
        assert_eq!(parse("0.5 s"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("800us"), Ok(Duration::from_micros(800)));
        assert_eq!(parse("800µs"), Ok(Duration::from_micros(800)));
        assert_eq!(parse("2min"), Ok(Duration::from_mins(2)));
    }

    #[test]
    fn what_is_no_time_is_said() {
        assert_eq!(parse("33"), Err(DurationError::NoUnit("33".into())));
        assert_eq!(parse("3 weeks"), Err(DurationError::Unit("weeks".into())));
        assert_eq!(parse("-1ms"), Err(DurationError::Number("-1".into())));
        assert_eq!(parse("ms"), Err(DurationError::Number(String::new())));
        let eons = "9".repeat(40);
        assert_eq!(parse(&format!("{eons}s")), Err(DurationError::Number(eons)));
    }
}
