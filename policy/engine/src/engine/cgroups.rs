//! The memory limits of cgroups, as `MemoryMax=` of a service sets them: what the processes in one may still pin.
//!
//! What a process pins counts in its cgroup and in all around it, and the kernel ends a process that takes more
//! than a limit leaves. So a program is not told that it may have what its cgroups cannot back, and its agent is
//! told to pin no more than they leave.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use super::Engine;
use super::needs::MOST;
use super::seen::{Pinned, Seen};
use crate::groups::{ProcessId, StoreNeed, served_by};
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
    members: BTreeMap<SessionId, Member>,
    /// The sessions, with the GPU, that pin less than they should: what they should.
    short: BTreeMap<(SessionId, usize), Bytes>,
}

/// What one session counts for in its cgroups.
#[derive(Debug)]
struct Member {
    paths: Vec<Arc<str>>,
    /// What counts for each GPU, by its index.
    shares: BTreeMap<usize, Share>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    pinned: Bytes,
    /// What it has pinned, or was told to.
    ordered: Bytes,
    /// What holds all of its memory that may be out.
    backed: Bytes,
}

#[derive(Debug)]
struct Cgroup {
    /// As it was seen last.
    sample: CgroupSample,
    seen: Seen,
    members: usize,
    /// The sums of its members.
    stores: Pinned,
    backed: Bytes,
}

impl Cgroup {
    /// What its members may have pinned together; none where it has no limit.
    fn most_pinned(&self) -> Option<Bytes> {
        let limit = self.sample.limit;
        let reserve = Bytes(limit.0 / RESERVE_PART);
        (limit < Bytes::MAX).then(|| self.seen.most_pinned(reserve, self.stores.ordered))
    }

    fn replace(&mut self, now: Time, before: Share, share: Share) {
        let Pinned {
            bytes,
            ordered,
            since,
        } = &mut self.stores;
        if before.pinned < share.pinned {
            *since = now;
        }
        *bytes = *bytes + share.pinned - before.pinned;
        *ordered = *ordered + share.ordered - before.ordered;
        self.backed = self.backed + share.backed - before.backed;
    }
}

impl Cgroups {
    /// A session begins, or comes back, in these cgroups, with so many bytes pinned.
    pub(super) fn enter(&mut self, id: SessionId, samples: Vec<CgroupSample>, pinned: Bytes) {
        self.uncount(id);
        let mut paths = Vec::with_capacity(samples.len());
        for sample in samples {
            paths.push(sample.path.clone());
            let available = sample.available.min(MOST);
            let entry = self.by_path.entry(sample.path.clone());
            // One that others are in goes by the look at which theirs was counted.
            let cgroup = entry.or_insert_with(|| Cgroup {
                sample,
                seen: Seen::first(available, Bytes::ZERO),
                members: 0,
                stores: Pinned::default(),
                backed: Bytes::ZERO,
            });
            cgroup.members += 1;
            cgroup.seen.count(pinned.min(MOST));
        }
        let shares = BTreeMap::new();
        self.members.insert(id, Member { paths, shares });
    }

    /// A session is over.
    pub(super) fn leave(&mut self, id: SessionId) {
        self.uncount(id);
        let on_any = (id, 0)..=(id, usize::MAX);
        let short: Vec<_> = self.short.range(on_any).map(|(at, _)| *at).collect();
        for at in short {
            self.short.remove(&at);
        }
    }

    fn uncount(&mut self, id: SessionId) {
        let Some(member) = self.members.remove(&id) else {
            return;
        };
        for path in member.paths {
            let Some(cgroup) = self.by_path.get_mut(&path) else {
                continue;
            };
            for share in member.shares.values() {
                cgroup.replace(Time::default(), *share, Share::default());
                cgroup.seen.uncount(share.pinned);
            }
            cgroup.members -= 1;
            if cgroup.members == 0 {
                self.by_path.remove(&path);
            }
        }
    }

    fn share(&self, id: SessionId, gpu: usize) -> Share {
        let member = self.members.get(&id);
        let share = member.and_then(|member| member.shares.get(&gpu));
        share.copied().unwrap_or_default()
    }

    fn set_share(&mut self, now: Time, id: SessionId, gpu: usize, share: Share) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        let before = core::mem::replace(member.shares.entry(gpu).or_default(), share);
        if before == share {
            return;
        }
        for path in &member.paths {
            if let Some(cgroup) = self.by_path.get_mut(path) {
                cgroup.replace(now, before, share);
            }
        }
    }

    /// The cgroups with a limit that a session is in, and what their members may have pinned together.
    fn limited(&self, id: SessionId) -> impl Iterator<Item = (&Cgroup, Bytes)> {
        let paths = self.members.get(&id).into_iter();
        let paths = paths.flat_map(|member| &member.paths);
        let cgroups = paths.filter_map(|path| self.by_path.get(path));
        cgroups.filter_map(|cgroup| Some((cgroup, cgroup.most_pinned()?)))
    }

    /// The most that a session may have pinned for a GPU, and the cgroup that leaves least. None without a limit.
    fn most_pinned(&self, id: SessionId, gpu: usize) -> Option<(Bytes, &CgroupSample)> {
        let own = self.share(id, gpu).ordered;
        let most = self.limited(id).map(|(cgroup, most)| {
            let others = cgroup.stores.ordered.saturating_sub(own);
            (most.saturating_sub(others), &cgroup.sample)
        });
        most.min_by_key(|(most, _)| *most)
    }

    /// The most bytes that may be swapped of a process, of which `arena` bytes may be swapped on a GPU already, with
    /// the cgroup that leaves least; none where none has a limit.
    pub(super) fn left(
        &self,
        id: SessionId,
        gpu: usize,
        arena: Bytes,
    ) -> Option<(Bytes, &CgroupSample)> {
        let own = self.share(id, gpu).backed;
        let left = self.limited(id).map(|(cgroup, most)| {
            let others = cgroup.backed.saturating_sub(own);
            (served_by(most.saturating_sub(others)), &cgroup.sample)
        });
        let (left, cgroup) = left.min_by_key(|(left, _)| *left)?;
        Some((left.max(arena), cgroup))
    }

    /// Takes in a look at cgroups that began at `looked`.
    pub(super) fn look(&mut self, looked: Time, samples: Vec<CgroupSample>) {
        for sample in samples {
            if let Some(cgroup) = self.by_path.get_mut(&sample.path) {
                let available = sample.available.min(MOST);
                cgroup.seen.look(looked, available, cgroup.stores);
                cgroup.sample = sample;
            }
        }
    }
}

impl Engine {
    /// The stores of a task's processes may have changed.
    pub(super) fn note_stores(&mut self, gpu: usize, task: TaskId) {
        let Some(entry) = self.tasks.get(task) else {
            return;
        };
        for need in entry.group.store_needs() {
            let StoreNeed {
                process,
                pinned,
                backed,
                is_pinning,
            } = need;
            let id = SessionId::new(entry.registration, process);
            let ordered = self.cgroups.share(id, gpu).ordered;
            let share = Share {
                pinned: pinned.min(MOST),
                ordered: if is_pinning {
                    ordered.max(pinned)
                } else {
                    pinned
                }
                .min(MOST),
                backed: backed.min(MOST),
            };
            self.cgroups.set_share(self.now, id, gpu, share);
        }
    }

    /// The part of `bytes` that a process may be told to pin for a GPU by the limits of its cgroups. It is at least
    /// what the process has pinned already.
    pub(super) fn limit_store(
        &mut self,
        gpu: usize,
        task: TaskId,
        process: ProcessId,
        bytes: Bytes,
    ) -> Bytes {
        let Some(registration) = self.tasks.get(task).map(|it| it.registration) else {
            return bytes;
        };
        let id = SessionId::new(registration, process);
        self.note_stores(gpu, task);
        let Some((most, cgroup)) = self.cgroups.most_pinned(id, gpu) else {
            return bytes;
        };
        let share = self.cgroups.share(id, gpu);
        let chunk = self.gpus[gpu].config.chunk;
        let told = bytes.min(most.round_down(chunk).max(share.pinned));
        let text = (told < bytes).then(|| {
            format!(
                "the memory limit of {} allows a backing store of {told} instead of {bytes}: the rest of its memory \
                 stays on the GPU",
                cgroup.path
            )
        });
        let ordered = told.max(share.pinned);
        self.cgroups
            .set_share(self.now, id, gpu, Share { ordered, ..share });
        if let Some(text) = text {
            self.cgroups.short.insert((id, gpu), bytes);
            self.log(self.line(Level::Warn, registration, text).gpu(gpu));
        }
        told
    }

    /// Has larger backing stores be asked for where there is room for them by now.
    pub(super) fn retry_stores(&mut self) {
        let short = self.cgroups.short.iter();
        let short: Vec<_> = short.map(|(at, wanted)| (*at, *wanted)).collect();
        for ((id, gpu), wanted) in short {
            let session = self.sessions.get(id).filter(|it| it.is_connected);
            let Some(task) = session.and_then(|it| it.devices.get(gpu)?.task) else {
                continue;
            };
            let chunk = self.gpus[gpu].config.chunk;
            let more = Bytes(wanted.0 / RETRY_PART).max(chunk);
            let enough = wanted.min(self.cgroups.share(id, gpu).pinned + more);
            let most = self.cgroups.most_pinned(id, gpu);
            let is_lacking = most.is_some_and(|(most, _)| most < enough);
            let Some(group) = self.tasks.group(task) else {
                continue;
            };
            // An answer that is still to come would be taken for one to the new question.
            if is_lacking || group.is_store_asked() {
                continue;
            }
            group.may_pin_more(id.process);
            self.cgroups.short.remove(&(id, gpu));
            self.tell(gpu, Event::HostRoom { task });
        }
    }
}
