//! What a task declares, from D-Bus or from a file, and whether it can be.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::task::{Class, MemoryProfile, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos};

use crate::error::CallError;
use crate::rules::idle_complaint;

/// The longest name of a task, in bytes.
pub const MAX_NAME: usize = 63;

/// Whether `name` can name a task.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

/// As the user gave it: anything may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskOptions {
    /// The task's name.
    pub name: String,
    /// `realtime` or `best-effort`.
    pub class: Option<String>,
    /// The period T.
    pub period: Option<Nanos>,
    /// The relative deadline D.
    pub deadline: Option<Nanos>,
    /// The WCET C: wall time from grant to completion.
    pub wcet: Option<Nanos>,
    /// The footprint m: all GPU memory of the task, its context included.
    pub footprint: Option<Bytes>,
    /// The swappable part of the footprint, mˢ.
    pub swappable: Option<Bytes>,
    /// The weight; of a realtime task while it is treated as best-effort.
    pub weight: Option<u32>,
    /// How long it keeps its memory on the GPU without a job, while it is treated as best-effort.
    pub idle_after: Option<Nanos>,
    /// Index or UUID of a GPU.
    pub gpu: Option<String>,
    /// Whether its jobs run by a plan from its dataflow graph, which needs an executor.
    pub needs_executor: bool,
}

/// What a task declares, checked: 0 < C ≤ D ≤ T and mˢ ≤ m.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDeclaration {
    /// The task's name.
    pub name: String,
    /// Its class, with timing if it is realtime.
    pub class: Class,
    /// Its memory; zeros where nothing was said.
    pub memory: MemoryProfile,
    /// Its part of what realtime leaves, while it is treated as best-effort.
    pub weight: Weight,
    /// How long it keeps its memory on the GPU without a job, while it is treated as best-effort; none if until others need it.
    pub idle_after: Option<Nanos>,
    /// Index or UUID of a GPU, not looked up yet.
    pub gpu: Option<String>,
}

/// What only the privileged may register, because it takes from other users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// A realtime task, of any weight.
    Realtime,
    /// A best-effort task with a weight above the default.
    Weight,
}

impl TaskDeclaration {
    /// The right that its registration needs; none if everybody may register it.
    pub fn right(&self) -> Option<Right> {
        match self.class {
            Class::Realtime(_) => Some(Right::Realtime),
            Class::BestEffort => (self.weight > Weight::default()).then_some(Right::Weight),
        }
    }
}

impl TaskOptions {
    /// A best-effort task that declares nothing but a name.
    pub fn best_effort(name: String) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Checks the options. Fails with [`CallError::InvalidArgument`] or [`CallError::NeedsExecutor`].
    pub fn check(self) -> Result<TaskDeclaration, CallError> {
        if !is_name(&self.name) {
            return Err(CallError::InvalidArgument(format!(
                "{:?} cannot name a task: a name has 1 to {} of A-Z a-z 0-9 . _ -",
                self.name, MAX_NAME
            )));
        }
        // Before the WCET and the footprint: such a task has none that it could declare.
        if self.needs_executor {
            return Err(CallError::NeedsExecutor(self.name));
        }
        self.declare().map_err(CallError::InvalidArgument)
    }

    fn declare(self) -> Result<TaskDeclaration, String> {
        let class = match self.class.as_deref() {
            Some("realtime") => self.realtime()?,
            None if self.period.is_some() => self.realtime()?,
            Some("best-effort") | None => self.best_effort_class()?,
            Some(other) => {
                return Err(format!(
                    "class {other:?} is not known: say realtime or best-effort"
                ));
            }
        };
        let memory = MemoryProfile {
            footprint: self.footprint.or(self.swappable).unwrap_or_default(),
            swappable: self.swappable.unwrap_or_default(),
        };
        // Every CUDA program holds a context at least, and the plan must keep its memory.
        if matches!(class, Class::Realtime(_)) && memory.footprint == Bytes::ZERO {
            return Err(
                "footprint is 0: a realtime task holds at least its context; run it once as \
                 best-effort, and `rtswapctl status` shows what it holds"
                    .into(),
            );
        }
        if memory.swappable > memory.footprint {
            return Err(format!(
                "swappable is {}, which is more than the footprint of {}; it is the part of the \
                 footprint that may be swapped",
                memory.swappable, memory.footprint
            ));
        }
        if let Some(complaint) = self.idle_after.and_then(idle_complaint) {
            return Err(complaint);
        }
        Ok(TaskDeclaration {
            weight: self.weight()?,
            idle_after: self.idle_after,
            name: self.name,
            class,
            memory,
            gpu: self.gpu,
        })
    }

    fn realtime(&self) -> Result<Class, String> {
        let missing: Vec<_> = [
            ("period", self.period.is_none()),
            ("wcet", self.wcet.is_none()),
            ("footprint", self.footprint.is_none()),
            ("swappable", self.swappable.is_none()),
        ]
        .iter()
        .filter_map(|(name, missing)| missing.then_some(*name))
        .collect();
        let (Some(period), Some(wcet), []) = (self.period, self.wcet, &missing[..]) else {
            return Err(format!(
                "a realtime task declares period, wcet, footprint and swappable (0 if nothing may \
                 leave the GPU); missing: {}. Run it once as best-effort: `rtswapctl tasks` shows \
                 what it holds",
                missing.join(", ")
            ));
        };
        let deadline = self.deadline.unwrap_or(period);
        if !(Nanos::ZERO < wcet && wcet <= deadline && deadline <= period) {
            return Err(format!(
                "0 < wcet ≤ deadline ≤ period must hold, but wcet is {wcet}, deadline {deadline}, \
                 period {period}"
            ));
        }
        Ok(Class::Realtime(Timing {
            period,
            deadline,
            wcet,
        }))
    }

    fn weight(&self) -> Result<Weight, String> {
        let Some(said) = self.weight else {
            return Ok(Weight::default());
        };
        Weight::new(said).ok_or_else(|| {
            format!(
                "weight is {said}: it is from 1 to {}, {} where nothing is said",
                Weight::MOST,
                Weight::default().get()
            )
        })
    }

    fn best_effort_class(&self) -> Result<Class, String> {
        let timed: Vec<_> = [
            ("period", self.period),
            ("deadline", self.deadline),
            ("wcet", self.wcet),
        ]
        .iter()
        .filter_map(|(name, value)| value.map(|_| *name))
        .collect();
        if timed.is_empty() {
            return Ok(Class::BestEffort);
        }
        Err(format!(
            "a best-effort task has no {}: leave that out, or give a period and say class realtime",
            timed.join(", no ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn yolo() -> TaskOptions {
        TaskOptions {
            name: "yolo".into(),
            period: Some(Nanos(33_000_000)),
            wcet: Some(Nanos(8_000_000)),
            footprint: Some(Bytes(6 << 30)),
            swappable: Some(Bytes(5 << 30)),
            ..TaskOptions::default()
        }
    }

    #[test]
    fn a_period_makes_it_realtime_and_is_the_deadline() {
        let checked = yolo().check().unwrap();
        let Class::Realtime(timing) = checked.class else {
            panic!("{checked:?}");
        };
        assert_eq!(timing.deadline, Nanos(33_000_000));
    }

    #[test]
    fn a_task_that_needs_an_executor_is_refused_for_that() {
        let needs_executor = true;
        let refused = CallError::NeedsExecutor("yolo".into());
        let with_figures = TaskOptions {
            needs_executor,
            ..yolo()
        };
        assert_eq!(with_figures.check().unwrap_err(), refused);
        let with_period = TaskOptions {
            wcet: None,
            footprint: None,
            swappable: None,
            needs_executor,
            ..yolo()
        };
        assert_eq!(with_period.check().unwrap_err(), refused);
        let nameless = TaskOptions {
            name: "a b".into(),
            needs_executor,
            ..yolo()
        };
        assert!(matches!(
            nameless.check().unwrap_err(),
            CallError::InvalidArgument(_)
        ));
    }

    #[test]
    fn nothing_said_is_best_effort() {
        let checked = TaskOptions::best_effort("x".into()).check().unwrap();
        assert_eq!(checked.class, Class::BestEffort);
        assert_eq!(checked.memory, MemoryProfile::default());
    }

    #[test]
    fn every_task_has_a_weight() {
        let weighing = |weight| TaskOptions { weight, ..yolo() }.check();
        for (said, weight) in [(None, 100), (Some(1), 1), (Some(10_000), 10_000)] {
            assert_eq!(weighing(said).unwrap().weight.get(), weight);
        }
        for wrong in [0, 10_001, u32::MAX] {
            assert_eq!(
                weighing(Some(wrong)).unwrap_err().to_string(),
                format!("weight is {wrong}: it is from 1 to 10000, 100 where nothing is said")
            );
        }
    }

    #[test]
    fn idle_times_leave_room_between_jobs() {
        let idling = |nanos| {
            let idle_after = Some(Nanos(nanos));
            TaskOptions {
                idle_after,
                ..yolo()
            }
            .check()
        };
        let shortest = Nanos(100_000_000);
        assert_eq!(idling(shortest.0).unwrap().idle_after, Some(shortest));
        assert_eq!(
            idling(99_000_000).unwrap_err().to_string(),
            "an idle_after of 99.000 ms would move memory between jobs: it is at least 100.000 ms"
        );
    }

    #[test]
    fn only_what_takes_from_others_needs_a_right() {
        let right = |options: TaskOptions| options.check().unwrap().right();
        let weighing = |weight| TaskOptions {
            weight: Some(weight),
            ..TaskOptions::best_effort("x".into())
        };
        assert_eq!(right(weighing(100)), None);
        assert_eq!(right(weighing(101)), Some(Right::Weight));
        let weight = Some(101);
        assert_eq!(
            right(TaskOptions { weight, ..yolo() }),
            Some(Right::Realtime)
        );
    }

    #[test]
    fn what_is_missing_is_named_all_at_once() {
        let little = TaskOptions {
            name: "yolo".into(),
            class: Some("realtime".into()),
            period: Some(Nanos(1)),
            ..TaskOptions::default()
        };
        assert_eq!(
            little.check().unwrap_err().to_string(),
            "a realtime task declares period, wcet, footprint and swappable (0 if nothing may \
             leave the GPU); missing: wcet, footprint, swappable. Run it once as best-effort: `rtswapctl \
             tasks` shows what it holds"
        );
    }

    #[test]
    fn impossible_declarations_are_refused_with_their_numbers() {
        let late = TaskOptions {
            deadline: Some(Nanos(40_000_000)),
            ..yolo()
        };
        assert_eq!(
            late.check().unwrap_err().to_string(),
            "0 < wcet ≤ deadline ≤ period must hold, but wcet is 8.000 ms, deadline 40.000 ms, \
             period 33.000 ms"
        );
        let fat = TaskOptions {
            swappable: Some(Bytes(7 << 30)),
            ..yolo()
        };
        assert!(
            fat.check()
                .unwrap_err()
                .to_string()
                .contains("more than the footprint of 6.00 GiB")
        );
        let empty = TaskOptions {
            footprint: Some(Bytes::ZERO),
            swappable: Some(Bytes::ZERO),
            ..yolo()
        };
        assert!(
            empty
                .check()
                .unwrap_err()
                .to_string()
                .starts_with("footprint is 0: a realtime task holds at least")
        );
        let both = TaskOptions {
            class: Some("best-effort".into()),
            ..yolo()
        };
        assert_eq!(
            both.check().unwrap_err().to_string(),
            "a best-effort task has no period, no wcet: leave that out, or give a period and say \
             class realtime"
        );
        let odd = TaskOptions {
            class: Some("hard".into()),
            ..yolo()
        };
        assert!(
            odd.check()
                .unwrap_err()
                .to_string()
                .starts_with("class \"hard\" is not known")
        );
        let path = TaskOptions::best_effort("../x".into());
        assert!(
            path.check()
                .unwrap_err()
                .to_string()
                .starts_with("\"../x\" cannot name a task")
        );
    }
}
