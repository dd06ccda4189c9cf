//! The memory limits of cgroups, as `MemoryMax=` of a service sets them: what the processes in one may still pin.
//!
//! What a process pins counts in its cgroup and in all around it, and the kernel ends a process that takes more
//! than a limit leaves. So a program is not told that it may have what its cgroups cannot back, and its agent is not told to
//! pin it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use super::Engine;
use super::needs::MOST;
use crate::groups::{ProcessGroup, ProcessId, served_by};
use crate::ids::ConnectionId;
use crate::output::Level;
use crate::sample::CgroupSample;
use crate::sessions::SessionId;

/// One part in so many of a limit stays for what programs take beside backing stores.
const RESERVE_PART: u64 = 16;
/// Of what a backing store should have, one part in so many must have become free before it is asked for again.
const RETRY_PART: u64 = 16;

/// The cgroups of all sessions.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    by_path: BTreeMap<Arc<str>, Cgroup>,
    of: BTreeMap<SessionId, Vec<Arc<str>>>,
    /// The tasks on GPUs that got less backing store than they should have: what they should, and what was left.
    short: BTreeMap<(usize, TaskId), (Bytes, Bytes)>,
}

#[derive(Debug)]
struct Cgroup {
    /// As it was seen last.
    sample: CgroupSample,
    /// What its members had pinned then: that is not available any more.
    pinned: Bytes,
    /// The sessions of processes in it and below.
    members: BTreeSet<SessionId>,
}

impl Cgroup {
    /// What its members may have pinned together, by its limit; none where it has no limit.
    fn most_pinned(&self) -> Option<Bytes> {
        let CgroupSample {
            limit, available, ..
        } = self.sample;
        let reserve = Bytes(limit.0 / RESERVE_PART);
        let most = || available.saturating_sub(reserve).min(MOST) + self.pinned;
        (limit < Bytes::MAX).then(most)
    }
}

impl Cgroups {
    /// A session is over.
    pub(super) fn leave(&mut self, id: SessionId) {
        for path in self.of.remove(&id).unwrap_or_default() {
            let Some(cgroup) = self.by_path.get_mut(&path) else {
                continue;
            };
            cgroup.members.remove(&id);
            if cgroup.members.is_empty() {
                self.by_path.remove(&path);
            }
        }
    }

    /// The cgroups with a limit that a session is in, and what their members may have pinned together.
    fn limited(&self, id: SessionId) -> impl Iterator<Item = (&Cgroup, Bytes)> {
        let paths = self.of.get(&id).into_iter().flatten();
        let cgroups = paths.filter_map(|path| self.by_path.get(path));
        cgroups.filter_map(|cgroup| Some((cgroup, cgroup.most_pinned()?)))
    }
}

impl Engine {
    /// The process of a connection is in these cgroups.
    pub(super) fn enter_cgroups(&mut self, connection: ConnectionId, cgroups: Vec<CgroupSample>) {
        let Some(id) = self.sessions.of_connection(connection) else {
            return;
        };
        self.cgroups.leave(id);
        let paths = cgroups.iter().map(|sample| sample.path.clone()).collect();
        self.cgroups.of.insert(id, paths);
        for sample in cgroups {
            let path = sample.path.clone();
            // One that others are in is known with what they had pinned when it was seen.
            let cgroup = self.cgroups.by_path.entry(path).or_insert_with(|| Cgroup {
                sample,
                pinned: Bytes::ZERO,
                members: BTreeSet::new(),
            });
            cgroup.members.insert(id);
        }
    }

    /// Takes in a look at cgroups.
    pub(super) fn take_cgroups(&mut self, samples: Vec<CgroupSample>) {
        for sample in samples {
            let Some(cgroup) = self.cgroups.by_path.get(&sample.path) else {
                continue;
            };
            let pinned = self.sum(cgroup, |group, process| group.need_of(process).pinned);
            if let Some(cgroup) = self.cgroups.by_path.get_mut(&sample.path) {
                cgroup.sample = sample;
                cgroup.pinned = pinned;
            }
        }
        self.retry_stores();
    }

    /// Has larger backing stores be asked for where there is room for them by now.
    fn retry_stores(&mut self) {
        let short = self.cgroups.short.iter();
        let short = short.map(|(&(gpu, task), &(wanted, left))| (gpu, task, wanted, left));
        for (gpu, task, wanted, left) in short.collect::<Vec<_>>() {
            if self.tasks.get(task).is_none() {
                self.cgroups.short.remove(&(gpu, task));
                continue;
            }
            let enough = wanted.min(left + Bytes(wanted.0 / RETRY_PART));
            if self.most_of_task(gpu, task).is_none_or(|now| enough <= now) {
                self.cgroups.short.remove(&(gpu, task));
                self.tell(gpu, Event::HostRoom { task });
            }
        }
    }

    /// The most bytes that may be swapped of a process of which `backed` bytes are reckoned with on a GPU and
    /// `arena` bytes may be swapped already, by the limits of its cgroups, with the cgroup that leaves least; none
    /// where none has a limit.
    pub(super) fn cgroups_left(
        &self,
        id: SessionId,
        backed: Bytes,
        arena: Bytes,
    ) -> Option<(Bytes, &CgroupSample)> {
        let left = self.cgroups.limited(id).map(|(cgroup, most)| {
            let all = self.sum(cgroup, |group, process| group.need_of(process).backed);
            let others = all.saturating_sub(backed);
            (served_by(most.saturating_sub(others)), &cgroup.sample)
        });
        let (left, cgroup) = left.min_by_key(|(left, _)| *left)?;
        Some((left.max(arena), cgroup))
    }

    /// A task is about to be told to have a backing store of `bytes` on a GPU: none of its processes pins more
    /// than its cgroups have.
    pub(super) fn limit_stores(&mut self, gpu: usize, task: TaskId, bytes: Bytes) {
        let Some(registration) = self.tasks.get(task).map(|it| it.registration) else {
            return;
        };
        let processes = self.sessions.of(registration);
        let limits = processes.map(|(id, _)| (id.process, self.most_pinned(gpu, id)));
        let limits: Vec<_> = limits.collect();
        if let Some(group) = self.tasks.group(task) {
            for (process, most) in limits {
                group.limit_store(process, most);
            }
        }
        let most = self.most_of_task(gpu, task);
        let Some(most) = most.filter(|most| *most < bytes) else {
            self.cgroups.short.remove(&(gpu, task));
            return;
        };
        self.cgroups.short.insert((gpu, task), (bytes, most));
        let text = format!(
            "the memory limits of its cgroups leave {most} for its backing store, which should have {bytes}: what that \
             does not hold stays on the GPU"
        );
        self.log(self.line(Level::Warn, registration, text).gpu(gpu));
    }

    /// The most that the processes of a task may have pinned for a GPU; none where one of them may have any number of bytes.
    fn most_of_task(&self, gpu: usize, task: TaskId) -> Option<Bytes> {
        let registration = self.tasks.get(task)?.registration;
        let processes = self.sessions.of(registration);
        processes.map(|(id, _)| self.most_pinned(gpu, id)).sum()
    }

    /// The most that a process may have pinned for a GPU; none where no cgroup of it has a limit.
    fn most_pinned(&self, gpu: usize, id: SessionId) -> Option<Bytes> {
        let group = self.group_of(gpu, id);
        let own = group.map_or(Bytes::ZERO, |group| group.pinned_or_asked(id.process));
        let limits = self.cgroups.limited(id).map(|(cgroup, most)| {
            let all = self.sum(cgroup, ProcessGroup::pinned_or_asked);
            most.saturating_sub(all.saturating_sub(own))
        });
        limits.min()
    }

    /// The sum of something of all processes in a cgroup, on all GPUs.
    fn sum(&self, cgroup: &Cgroup, of: impl Fn(&ProcessGroup, ProcessId) -> Bytes) -> Bytes {
        let members = cgroup.members.iter();
        let places = members.flat_map(|&id| (0..self.gpus.len()).map(move |gpu| (gpu, id)));
        places
            .filter_map(|(gpu, id)| Some(of(self.group_of(gpu, id)?, id.process)))
            .sum()
    }
}
