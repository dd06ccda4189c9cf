//! The memory that all tasks may need, summed up as they change, so that no request has to look at each of
//! thousands of tasks.

use alloc::collections::{BTreeMap, BTreeSet};

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use super::seen::Pinned;
use crate::groups::Need;

/// No task counts for more: an agent may ask for any number of bytes, and the sums of thousands of tasks must not
/// overflow.
pub(super) const MOST: Bytes = Bytes(1 << 44);

/// The needs of all tasks.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    of: BTreeMap<TaskId, (usize, Need)>,
    /// The sums over all GPUs, since they share the host's memory.
    backed: Bytes,
    stores: Pinned,
    /// What the tasks of each GPU have or may take.
    all: BTreeMap<usize, Bytes>,
    /// The tasks that were told a size, by GPU and size.
    told: BTreeSet<(usize, Bytes, TaskId)>,
}

impl Needs {
    /// Takes in what `task` on `gpu` needs from `now` on.
    pub(super) fn set(&mut self, now: Time, gpu: usize, task: TaskId, need: Need) {
        let need = Need {
            all: need.all.min(MOST),
            backed: need.backed.min(MOST),
            pinned: need.pinned.min(MOST),
            ordered: need.ordered.min(MOST),
            told: need.told.min(MOST),
        };
        let (_, known) = self
            .of
            .entry(task)
            .or_insert_with(|| (gpu, Need::default()));
        let before = core::mem::replace(known, need);
        if before.pinned < need.pinned {
            self.stores.since = now;
        }
        if before != need {
            self.replace(gpu, task, before, need);
        }
    }

    /// A task is gone.
    pub(super) fn remove(&mut self, task: TaskId) {
        let Some((gpu, need)) = self.of.remove(&task) else {
            return;
        };
        self.replace(gpu, task, need, Need::default());
    }

    fn replace(&mut self, gpu: usize, task: TaskId, before: Need, now: Need) {
        self.backed = self.backed + now.backed - before.backed;
        let Pinned { bytes, ordered, .. } = &mut self.stores;
        *bytes = *bytes + now.pinned - before.pinned;
        *ordered = *ordered + now.ordered - before.ordered;
        let all = self.all.entry(gpu).or_default();
        *all = *all + now.all - before.all;
        if before.told != now.told {
            self.told.remove(&(gpu, before.told, task));
            if now.told > Bytes::ZERO {
                self.told.insert((gpu, now.told, task));
            }
        }
    }

    /// The host memory that holds what of all tasks may be out, what is pinned already included.
    pub(super) fn backed(&self) -> Bytes {
        self.backed
    }

    /// What of it is pinned.
    pub(super) fn stores(&self) -> Pinned {
        self.stores
    }

    /// All that the tasks of a GPU have or may take.
    pub(super) fn all(&self, gpu: usize) -> Bytes {
        self.all.get(&gpu).copied().unwrap_or_default()
    }

    /// The largest size that a task of a GPU other than `task` was told, as far as it has taken it or it is
    /// reserved.
    pub(super) fn largest_told(&self, gpu: usize, task: TaskId) -> Option<(TaskId, Bytes)> {
        let all = (gpu, Bytes::ZERO, TaskId(0))..=(gpu, Bytes::MAX, TaskId(u32::MAX));
        let told = self.told.range(all).rev();
        let mut others = told.filter(|(_, _, other)| *other != task);
        others.next().map(|&(_, bytes, other)| (other, bytes))
    }
}
