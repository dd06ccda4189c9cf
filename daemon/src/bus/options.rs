//! The options of `Register`, and the values of options, each in any of the D-Bus types that clients send for it.

use std::collections::HashMap;

use rtswap_engine::Claimant;
use rtswap_engine::registry::TaskOptions;
use rtswap_policy::task::Weight;
use rtswap_policy::units::{Bytes, Nanos};
use rtswap_taskset::parse_size;
use zbus::{OwnedVariant, Variant};

use crate::sys::peer::{has_ended, pidfd_id, start_ticks};

/// Reads all options. The error says which one is wrong, and why.
pub(super) fn read(
    name: &str,
    options: HashMap<String, OwnedVariant>,
) -> Result<(TaskOptions, Option<Claimant>), String> {
    let mut task = TaskOptions {
        name: name.to_owned(),
        ..TaskOptions::default()
    };
    let mut process = None;
    for (key, value) in options {
        let value: &Variant<'_> = &value;
        match key.as_str() {
            "period_us" => task.period = Some(time(&key, value)?),
            "deadline_us" => task.deadline = Some(time(&key, value)?),
            "wcet_us" => task.wcet = Some(time(&key, value)?),
            "footprint" => task.footprint = Some(size(&key, value)?),
            "swappable" => task.swappable = Some(size(&key, value)?),
            "weight" => task.weight = Some(weight(&key, value)?),
            "idle_after_us" => task.idle_after = Some(time(&key, value)?),
            "gpu" => {
                let index = integer(value).map(|index| index.to_string());
                task.gpu = Some(index.map_or_else(|| text(&key, value), Ok)?);
            }
            "needs_executor" => task.needs_executor = boolean(&key, value)?,
            "class" => task.class = Some(text(&key, value)?),
            "pidfd" => {
                let wrong = "pidfd must be a descriptor of a living process (pidfd_open)";
                process = Some(claimant(value).ok_or(wrong)?);
            }
            _ => {
                return Err(format!(
                    "option {key:?} is not known; known are period_us, deadline_us, wcet_us, \
                     footprint, swappable, weight, idle_after_us, gpu, class, needs_executor, pidfd"
                ));
            }
        }
    }
    Ok((task, process))
}

/// Any of D-Bus's integer types; none where it is negative or no integer.
pub(super) fn integer(value: &Variant<'_>) -> Option<u64> {
    match *value {
        Variant::U8(number) => Some(number.into()),
        Variant::U16(number) => Some(number.into()),
        Variant::U32(number) => Some(number.into()),
        Variant::U64(number) => Some(number),
        Variant::I16(number) => number.try_into().ok(),
        Variant::I32(number) => number.try_into().ok(),
        Variant::I64(number) => number.try_into().ok(),
        _ => None,
    }
}

/// A time of at most a day.
pub(super) fn time(key: &str, value: &Variant<'_>) -> Result<Nanos, String> {
    /// The longest time, a day: no GPU job is longer, and no task that idles need stay longer.
    const MOST_US: u64 = 86_400_000_000;
    match integer(value) {
        Some(micros @ 1..=MOST_US) => Ok(Nanos(micros * 1000)),
        _ => Err(format!(
            "{key} must be an integer from 1 to {MOST_US} (a day), in microseconds"
        )),
    }
}

/// A size in bytes, or as text with a unit.
pub(super) fn size(key: &str, value: &Variant<'_>) -> Result<Bytes, String> {
    let read = match value {
        Variant::Str(text) => parse_size(text).ok(),
        other => integer(other).map(Bytes),
    };
    // More than any GPU has is refused, because sums of it could overflow.
    read.filter(|bytes| bytes.0 <= 1 << 50).ok_or_else(|| {
        format!(
            "{key} must be a size of at most 1024TiB: whole bytes, or text such as \"6.2GiB\" or \
             \"500MB\""
        )
    })
}

/// A weight that there can be.
pub(super) fn weight(key: &str, value: &Variant<'_>) -> Result<u32, String> {
    let said = integer(value).and_then(|weight| u32::try_from(weight).ok());
    said.filter(|said| Weight::new(*said).is_some())
        .ok_or_else(|| format!("{key} must be an integer from 1 to {}", Weight::MOST))
}

/// A short text.
pub(super) fn text(key: &str, value: &Variant<'_>) -> Result<String, String> {
    /// The most bytes of a text; no class, index or UUID is longer.
    const LONGEST: usize = 64;
    match value {
        Variant::Str(text) if text.len() <= LONGEST => Ok(text.as_str().to_owned()),
        _ => Err(format!("{key} must be text of at most {LONGEST} bytes")),
    }
}

/// A boolean: no integer stands for one.
fn boolean(key: &str, value: &Variant<'_>) -> Result<bool, String> {
    match value {
        Variant::Bool(value) => Ok(*value),
        _ => Err(format!("{key} must be true or false")),
    }
}

/// The process of a pidfd, by pid and start, which tell it from a later one with the same pid.
fn claimant(value: &Variant<'_>) -> Option<Claimant> {
    let Variant::Fd(fd) = value else {
        return None;
    };
    let pid = pidfd_id(fd)?;
    let start_ticks = start_ticks(pid)?;
    // If the process still lives, what was read is its own, and not of a later one with its pid.
    (!has_ended(fd)).then_some(Claimant { pid, start_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_one(key: &str, value: Variant<'_>) -> Result<TaskOptions, String> {
        let value = OwnedVariant::try_from(value).unwrap();
        let options = HashMap::from([(key.to_owned(), value)]);
        read("x", options).map(|(task, _)| task)
    }

    #[test]
    fn every_integer_type_will_do() {
        let all = [
            Variant::U8(100),
            Variant::U16(100),
            Variant::U32(100),
            Variant::U64(100),
            Variant::I16(100),
            Variant::I32(100),
            Variant::I64(100),
        ];
        for value in all {
            let read = read_one("period_us", value).unwrap();
            assert_eq!(read.period, Some(Nanos(100_000)));
        }
        for value in [Variant::U8(200), Variant::I64(200)] {
            assert_eq!(read_one("weight", value).unwrap().weight, Some(200));
        }
        let idle = read_one("idle_after_us", Variant::U32(500_000)).unwrap();
        assert_eq!(idle.idle_after, Some(Nanos(500_000_000)));
        let read = read_one("footprint", Variant::from("6.2GiB")).unwrap();
        assert_eq!(read.footprint, Some(Bytes(6_657_199_308)));
        let read = read_one("swappable", Variant::I32(0)).unwrap();
        assert_eq!(read.swappable, Some(Bytes(0)));
        for index in [Variant::U8(3), Variant::I64(3), Variant::from("3")] {
            let read = read_one("gpu", index).unwrap();
            assert_eq!(read.gpu.as_deref(), Some("3"));
        }
    }

    #[test]
    fn an_executor_is_needed_only_where_that_is_said() {
        let read = |value| read_one("needs_executor", value).unwrap();
        assert!(read(Variant::Bool(true)).needs_executor);
        assert_eq!(
            read(Variant::Bool(false)),
            TaskOptions::best_effort("x".into())
        );
    }

    #[test]
    fn nonsense_is_named() {
        for value in [
            Variant::I64(-1),
            Variant::U64(0),
            Variant::U64(u64::MAX),
            Variant::F64(1.0),
            Variant::from("33ms"),
        ] {
            assert_eq!(
                read_one("wcet_us", value).unwrap_err(),
                "wcet_us must be an integer from 1 to 86400000000 (a day), in microseconds"
            );
        }
        for value in [
            Variant::I16(-1),
            Variant::U8(0),
            Variant::U32(10_001),
            Variant::U64((1 << 32) + 100),
            Variant::from("100"),
        ] {
            assert_eq!(
                read_one("weight", value).unwrap_err(),
                "weight must be an integer from 1 to 10000"
            );
        }
        assert!(
            read_one("footprint", Variant::from("big"))
                .unwrap_err()
                .contains("footprint")
        );
        assert_eq!(
            read_one("class", Variant::U32(0)).unwrap_err(),
            "class must be text of at most 64 bytes"
        );
        assert!(read_one("gpu", Variant::I32(-1)).is_err());
        assert!(read_one("gpu", Variant::from("0".repeat(65))).is_err());
        assert!(
            read_one("perod_us", Variant::U32(1))
                .unwrap_err()
                .starts_with("option \"perod_us\"")
        );
        for value in [Variant::U8(1), Variant::from("true")] {
            assert_eq!(
                read_one("needs_executor", value).unwrap_err(),
                "needs_executor must be true or false"
            );
        }
        let (pipe, _) = rustix::pipe::pipe().unwrap();
        let fd = Variant::Fd(zbus::Fd::from(pipe));
        assert!(
            read_one("pidfd", fd)
                .unwrap_err()
                .starts_with("pidfd must be")
        );
    }
}
