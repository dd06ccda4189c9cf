//! What follows from the plan of a GPU, for status and log: the verdict of the admission test, and
//! which tasks outside the plan have too little left.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use rtswap_policy::admission::{Analysis, Candidate};
use rtswap_policy::scheduler::{Config, State, TaskStatus};
use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::Bytes;

/// How many tasks of a plan are named.
const NAMED: usize = 3;

/// The verdict of the admission test on one plan, kept until the plan changes: the test looks at many
/// deadlines, and status is published up to 20 times a second.
#[derive(Debug, Default)]
pub(super) struct Verdict(Option<(u64, Analysis)>);

impl Verdict {
    /// The verdict on the `candidates` of the plan of that revision.
    pub(super) fn of(
        &mut self,
        config: &Config,
        revision: u64,
        candidates: impl FnOnce() -> Vec<Candidate>,
    ) -> &Analysis {
        self.0.take_if(|(of, _)| *of != revision);
        let analyse = || config.test.analyse(&config.platform(), &candidates());
        let (_, analysis) = self.0.get_or_insert_with(|| (revision, analyse()));
        analysis
    }
}

/// The candidates of the plan in effect.
pub(super) fn in_effect(state: &State) -> Vec<Candidate> {
    let tasks = state.tasks();
    let candidates = tasks.filter_map(|task| candidate(&task, task.volume));
    candidates.collect()
}

/// The realtime tasks of the plan to come, and the same as candidates.
pub(super) fn to_come(state: &State) -> (Vec<TaskStatus>, Vec<Candidate>) {
    let tasks = state.tasks().filter_map(|task| {
        let candidate = candidate(&task, task.next_volume.or(task.volume))?;
        Some((task, candidate))
    });
    tasks.unzip()
}

fn candidate(task: &TaskStatus, volume: Option<Bytes>) -> Option<Candidate> {
    match (task.class, volume) {
        (Class::Realtime(timing), Some(volume)) => Some(Candidate { timing, volume }),
        _ => None,
    }
}

/// What stays on a GPU whatever others need, so that what is asked of many waiting tasks is computed
/// once.
#[derive(Debug)]
pub(crate) struct Planned<'a> {
    state: &'a State,
    /// The tasks under the plan with the bytes that each may keep, most bytes first.
    tasks: Vec<(TaskId, &'a str, Bytes)>,
    /// The other tasks with the bytes of each that cannot be swapped.
    unswappable: Vec<(TaskId, Bytes)>,
    /// The bytes of all.
    bytes: Bytes,
}

impl<'a> Planned<'a> {
    pub(super) fn new(state: &'a State) -> Self {
        let mut tasks: Vec<_> = state.planned_residents().collect();
        tasks.sort_by_key(|(_, _, bytes)| Reverse(*bytes));
        let unswappable: Vec<_> = state.unswappable().collect();
        let planned: Bytes = tasks.iter().map(|(_, _, bytes)| *bytes).sum();
        let bytes = planned + unswappable.iter().map(|(_, bytes)| *bytes).sum();
        Self {
            state,
            tasks,
            unswappable,
            bytes,
        }
    }

    /// What stays on the GPU of others than `id`, in bytes: of planned tasks, and of the others.
    pub(crate) fn kept(&self, id: Option<TaskId>) -> (Bytes, Bytes) {
        let planned = self.tasks.iter().filter(|(other, ..)| Some(*other) != id);
        let fixed = self.unswappable.iter();
        let fixed = fixed.filter(|(other, _)| Some(*other) != id);
        let planned = planned.map(|(_, _, bytes)| *bytes).sum();
        (planned, fixed.map(|(_, bytes)| *bytes).sum())
    }

    /// Why a task that is not under the plan may wait forever, as in "the plan of a, b leaves 1.20
    /// GiB, and it needs 2.00 GiB"; none where it does not wait or what stays leaves enough.
    pub(crate) fn starved(&self, id: TaskId) -> Option<String> {
        let need = self.state.awaited_bytes(id)?;
        let capacity = self.state.capacity();
        if need <= capacity.saturating_sub(self.bytes) {
            return None;
        }
        let others = || self.tasks.iter().filter(|(other, ..)| *other != id);
        let planned: Bytes = others().map(|(_, _, bytes)| *bytes).sum();
        let fixed = self.unswappable.iter().filter(|(other, _)| *other != id);
        let fixed: Bytes = fixed.map(|(_, bytes)| *bytes).sum();
        let left = capacity.saturating_sub(planned + fixed);
        if need <= left {
            return None;
        }
        let names: Vec<_> = others().take(NAMED).map(|(_, name, _)| *name).collect();
        let names = names.join(", ");
        let more = match others().count().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let plan = format!("the plan of {names}{more}");
        let fixed_bytes = format!("{fixed} of best-effort memory that cannot be swapped");
        let keeps = match (planned, fixed) {
            (Bytes::ZERO, Bytes::ZERO) => return None,
            (_, Bytes::ZERO) => format!("{plan} leaves"),
            (Bytes::ZERO, _) => format!("{fixed_bytes} leave"),
            _ => format!("{plan} and {fixed_bytes} leave"),
        };
        Some(format!("{keeps} {left}, and it needs {need}"))
    }
}
