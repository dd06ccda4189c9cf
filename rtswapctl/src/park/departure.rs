//! How far a parked task has left the GPU.

use rtswap_dbus::TaskProperties;

use crate::table::bytes;

/// What became of a task since it was parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Departure {
    /// It has ended.
    Ended,
    /// It was resumed since.
    Resumed,
    /// It has no process.
    Absent,
    /// All of it has left that can be swapped.
    Left { swapped: u64, resident: u64 },
    /// It has not left yet.
    Pending { resident: u64, why: String },
}

impl Departure {
    /// Of a task that was parked; none once it has ended.
    pub(super) fn of(task: Option<&TaskProperties>) -> Self {
        let Some(task) = task else {
            return Self::Ended;
        };
        match task.phase.as_str() {
            _ if !task.parked => Self::Resumed,
            "parked" if task.process_ids.is_empty() => Self::Absent,
            "parked" => Self::Left {
                swapped: task.swapped_bytes,
                resident: task.resident_bytes,
            },
            phase => Self::Pending {
                resident: task.resident_bytes,
                why: obstacle(task, phase),
            },
        }
    }

    /// Whether it has yet to leave.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self, Self::Pending { .. })
    }

    /// The line about the task of this name.
    pub(super) fn line(&self, name: &str) -> String {
        match self {
            Self::Ended => format!("{name}: has ended\n"),
            Self::Resumed => format!("{name}: was resumed meanwhile\n"),
            Self::Absent => format!("{name}: is parked, and has no process\n"),
            Self::Left {
                swapped,
                resident: 0,
            } => format!("{name}: {} off the GPU\n", bytes(*swapped)),
            Self::Left { swapped, resident } => {
                format!(
                    "{name}: {} off the GPU, {} stay (its context and what cannot be swapped)\n",
                    bytes(*swapped),
                    bytes(*resident)
                )
            }
            Self::Pending { resident, why } => format!(
                "{name}: {} still on the GPU: {why}; it is parked and leaves later\n",
                bytes(*resident)
            ),
        }
    }
}

/// What keeps a parked task on the GPU.
fn obstacle(task: &TaskProperties, phase: &str) -> String {
    if !task.waits.is_empty() && !task.waits.starts_with("parked: ") {
        return task.waits.clone();
    }
    let why = match phase {
        "running" => "its job runs, and ends first",
        "swapping-out" => "its memory is being copied, or waits until realtime tasks pause",
        "lost" => "its agent does not answer",
        _ => return format!("it is {phase}"),
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The line about a parked task with one process.
    fn line(change: impl Fn(&mut TaskProperties)) -> (bool, String) {
        let mut task = TaskProperties {
            phase: "parked".into(),
            parked: true,
            process_ids: vec![7],
            swapped_bytes: 1229 * MIB,
            resident_bytes: 312 * MIB,
            waits: "parked: rtswapctl resume yolo brings it back".into(),
            ..TaskProperties::default()
        };
        change(&mut task);
        let departure = Departure::of(Some(&task));
        (departure.is_pending(), departure.line("yolo"))
    }

    #[test]
    fn one_that_has_left_says_what_left_and_what_stays() {
        let left =
            "yolo: 1.2 GiB off the GPU, 312 MiB stay (its context and what cannot be swapped)\n";
        assert_eq!(line(|_| ()), (false, left.into()));
        assert_eq!(
            line(|task| task.resident_bytes = 0).1,
            "yolo: 1.2 GiB off the GPU\n"
        );
        assert_eq!(
            line(|task| task.process_ids.clear()).1,
            "yolo: is parked, and has no process\n"
        );
        assert_eq!(Departure::of(None).line("yolo"), "yolo: has ended\n");
        assert!(!line(|task| task.parked = false).0);
    }

    #[test]
    fn one_that_has_not_says_what_keeps_it() {
        assert_eq!(
            line(|task| task.phase = "running".into()),
            (
                true,
                "yolo: 312 MiB still on the GPU: its job runs, and ends first; it is parked and leaves later\n"
                    .into()
            )
        );
        let stopped = line(|task| {
            task.phase = "swapping-out".into();
            task.waits = "process 7 is stopped".into();
        });
        assert!(stopped.1.contains("still on the GPU: process 7 is stopped"));
    }
}
