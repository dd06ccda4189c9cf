//! What programs are told that they may have (cuMemGetInfo), and what is refused beyond the caps.
//!
//! A best-effort program may have what fits on the GPU beside all that never leaves it, and what the host's memory
//! can hold while it is out: memory that others have been told counts as taken, so that programs that size
//! themselves at the same time are not all told the same bytes. What a program is told first, before it takes
//! anything that may be swapped, is reserved for it until it has taken no more of it for [`RESERVED`].
//!
//! A program may ask for more than it was told. It gets that where it can be had, but then nothing keeps the
//! contexts of later programs from taking the place that it needs.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use rtswap_policy::task::{Class, TaskId};
use rtswap_policy::units::{Bytes, Nanos};

use super::Engine;
use crate::groups::ProcessGroup;
use crate::output::Output;
use crate::sessions::{Session, SessionId};
use crate::timers::Timer;

/// How long a program may take from being told to its first allocation, and from one allocation to the next: many
/// ask and take nothing. One that has begun within this time counts as one that will size itself.
const RESERVED: Nanos = Nanos(10_000_000_000);

/// A context takes no larger part of a GPU.
const CONTEXT_PART: u64 = 16;

impl Engine {
    /// Answers the question of a process how much memory it may have.
    pub(super) fn tell_size(&mut self, gpu: usize, id: SessionId, question: u32) {
        let Some(session) = self.sessions.get(id).filter(|it| it.is_connected) else {
            return;
        };
        let (connection, task) = (session.connection, session.devices[gpu].task);
        let Some(task) = task else {
            return;
        };
        let reserved = self
            .group(task)
            .and_then(|group| group.reserved(id.process));
        let bytes = self
            .size_for(gpu, id, task)
            .max(reserved.unwrap_or_default());
        if self.is_best_effort(id)
            && let Some(group) = self.tasks.group(task)
            && group.reserve(id.process, bytes)
        {
            self.extend_reservation(gpu, id);
            self.note_need(gpu, task);
        }
        self.emit(Output::Size {
            connection,
            gpu,
            question,
            bytes,
        });
    }

    /// A process was told how much it may have, or asks for memory: if that is reserved for it, it stays so.
    pub(super) fn extend_reservation(&mut self, gpu: usize, id: SessionId) {
        let device = self.sessions.get(id).and_then(|it| it.devices.get(gpu));
        let group = device.and_then(|device| self.group(device.task?));
        if group.is_some_and(|group| group.reserved(id.process).is_some()) {
            let until = Some(self.now + RESERVED);
            self.timers.set(Timer::Reserved(id, gpu), until);
        }
    }

    /// What a process was told is reserved for it no longer.
    pub(super) fn end_reservation(&mut self, id: SessionId, gpu: usize) {
        let device = self.sessions.get(id).and_then(|it| it.devices.get(gpu));
        if let Some(task) = device.and_then(|device| device.task)
            && let Some(group) = self.tasks.group(task)
        {
            group.end_reservation(id.process);
            self.note_need(gpu, task);
        }
    }

    /// The need of a task may have changed.
    pub(super) fn note_need(&mut self, gpu: usize, task: TaskId) {
        if let Some(group) = self.tasks.group(task) {
            let need = group.need();
            self.needs.set(self.now, gpu, task, need);
            self.note_stores(gpu, task);
        }
    }

    /// The bytes that a process may have on a GPU, what it has already included.
    fn size_for(&self, gpu: usize, id: SessionId, task: TaskId) -> Bytes {
        let capacity = self.gpus[gpu].scheduler.state().capacity();
        let Some(group) = self.group(task).filter(|_| self.is_best_effort(id)) else {
            return capacity;
        };
        let usage = group.usage_of(id.process);
        let of_others = group.taken_by_others(id.process).all;
        // The contexts that have come since the first program was told take what was left for them.
        let newcomers = self.gpus[gpu].effective().newcomers_reserve();
        let (planned, unswappable) = self.stays_beside(gpu, task);
        let fits = capacity.saturating_sub(planned + unswappable.max(newcomers) + of_others);
        let backed = self.most_backed(gpu, id, task);
        let capped = self.most_by_caps(gpu, id);
        let least = usage.resident + usage.swapped;
        let most = backed.into_iter().chain(capped).fold(fits, Bytes::min);
        most.round_down(self.gpus[gpu].config.chunk).max(least)
    }

    /// What never leaves a GPU beside a task: what realtime tasks keep, and what of others cannot be swapped.
    fn stays_beside(&self, gpu: usize, task: TaskId) -> (Bytes, Bytes) {
        let state = self.gpus[gpu].scheduler.state();
        let planned = state.planned_residents().map(|(_, _, bytes)| bytes);
        let unswappable = state.unswappable().filter(|(other, _)| *other != task);
        (planned.sum(), unswappable.map(|(_, bytes)| bytes).sum())
    }

    /// What the GPU has for a task beside all that never leaves.
    fn room_beside_unswappable(&self, gpu: usize, task: TaskId) -> Bytes {
        let (planned, unswappable) = self.stays_beside(gpu, task);
        let capacity = self.gpus[gpu].scheduler.state().capacity();
        capacity.saturating_sub(planned + unswappable)
    }

    /// What a process may have by what the host and its cgroups can back, or may have without being swapped; none
    /// where neither is known. Programs that have just begun share it with this one.
    fn most_backed(&self, gpu: usize, id: SessionId, task: TaskId) -> Option<Bytes> {
        let group = self.group(task)?;
        let (need, usage) = (group.need_of(id.process), group.usage_of(id.process));
        let host = self.host_left(need.backed, usage.arena);
        let cgroups = self.cgroups.left(id, gpu, usage.arena);
        let left = host
            .into_iter()
            .chain(cgroups.map(|(left, _)| left))
            .min()?;
        let unshared = self.unshared(gpu, task, need.all);
        let outside = (usage.resident + usage.swapped).saturating_sub(usage.arena);
        let is_sized = usage.arena > Bytes::ZERO;
        let sharers = if is_sized { 1 } else { self.sharers(gpu, id) };
        Some(Bytes(((left + outside).max(unshared)).0 / sharers))
    }

    /// What a process that has `all` may have on a GPU without anybody having to leave it.
    fn unshared(&self, gpu: usize, task: TaskId, all: Bytes) -> Bytes {
        let capacity = self.gpus[gpu].scheduler.state().capacity();
        let (planned, _) = self.stays_beside(gpu, task);
        let others = self.needs.all(gpu).saturating_sub(all);
        capacity.saturating_sub(planned + others)
    }

    /// The part of what is left that one process may have is one of so many: each user who has processes on the GPU
    /// that have just begun and not sized themselves has an equal part, and so has each such process of one user.
    fn sharers(&self, gpu: usize, id: SessionId) -> u64 {
        let begins = |session: &Session, process| {
            let task = session.devices.get(gpu).and_then(|device| device.task);
            let group = task.and_then(|task| self.group(task));
            let is_young = self.now - session.began < RESERVED;
            session.is_connected && is_young && group.is_some_and(|group| !group.is_sized(process))
        };
        let owner = self.sessions.get(id).map(|session| &session.owner);
        let (mut own, mut owners) = (1, BTreeSet::from_iter(owner));
        for (other, session) in self.sessions.iter() {
            if other != id && begins(session, other.process) {
                own += u64::from(Some(&session.owner) == owner);
                owners.insert(&session.owner);
            }
        }
        own * (owners.len() as u64).max(1)
    }

    /// The text of why a process cannot have a budget of `bytes` on a GPU, whatever leaves it; none where the
    /// scheduler is to decide.
    pub(super) fn beyond_size(&self, gpu: usize, id: SessionId, bytes: Bytes) -> Option<String> {
        self.beyond_cap(gpu, id, bytes)
            .or_else(|| self.beyond_backing(gpu, id, bytes))
            .or_else(|| self.beyond_room(gpu, id, bytes))
    }

    /// As [`Self::beyond_size`], because the host's memory could not hold it once it has to leave.
    fn beyond_backing(&self, gpu: usize, id: SessionId, bytes: Bytes) -> Option<String> {
        let task = self.tasks.on(id.registration, gpu)?;
        let group = self.group(task).filter(|_| self.is_best_effort(id))?;
        let usage = group.usage_of(id.process);
        let total = bytes + usage.swapped;
        if group.reserved(id.process).is_some_and(|told| total <= told) {
            return None;
        }
        let need = group.need_of(id.process);
        let host = self.host_left(need.backed, usage.arena);
        let cgroups = self.cgroups.left(id, gpu, usage.arena);
        let cgroups = cgroups.map(|(left, cgroup)| (left, Some(cgroup)));
        let host = host.map(|left| (left, None));
        let (left, cgroup) = host
            .into_iter()
            .chain(cgroups)
            .min_by_key(|(left, _)| *left)?;
        let outside = (usage.resident + usage.swapped).saturating_sub(usage.arena);
        // A first request is for a context, which never leaves.
        let capacity = self.gpus[gpu].scheduler.state().capacity();
        let is_context = usage.resident == Bytes::ZERO && total.0 <= capacity.0 / CONTEXT_PART;
        if is_context || total <= left + outside {
            return None;
        }
        (total > self.unshared(gpu, task, need.all)).then(|| match cgroup {
            None => format!(
                "the host has {left} of memory for what of it may have to leave the GPU ({}); free host memory, or \
                 end a program",
                self.host.describe(&self.config.settings)
            ),
            Some(cgroup) => format!(
                "the memory limit of {} leaves {left} for what of it may have to leave the GPU ({} of {} are \
                 available); raise the limit (MemoryMax= of a unit), or end a program in it",
                cgroup.path, cgroup.available, cgroup.limit
            ),
        })
    }

    /// As [`Self::beyond_size`], because a context, which never leaves, would take the place of memory that
    /// another program was told it may have.
    fn beyond_room(&self, gpu: usize, id: SessionId, bytes: Bytes) -> Option<String> {
        let task = self.tasks.on(id.registration, gpu)?;
        let group = self.group(task).filter(|_| self.is_best_effort(id))?;
        let usage = group.usage_of(id.process);
        // A first request is for a context, and no other tells what it is for.
        if usage.resident + usage.swapped > Bytes::ZERO {
            return None;
        }
        let (other, told) = self.needs.largest_told(gpu, task)?;
        // Nobody keeps another user from the GPU altogether.
        if !self.has_owner_on(gpu, id) {
            return None;
        }
        let room = self.room_beside_unswappable(gpu, other);
        let more = bytes.saturating_sub(usage.resident);
        if told > room || told + more <= room {
            return None;
        }
        let name = self.tasks.get(other)?.registration;
        let name = self.registration_name(name).unwrap_or("another");
        Some(format!(
            "task {name} was told that it may have {told} at once, and beside it there is no room for another \
             context; end a program, or raise newcomers_reserve in rtswapd.toml before programs start"
        ))
    }

    /// Whether the owner of a process has another one with memory on a GPU.
    fn has_owner_on(&self, gpu: usize, id: SessionId) -> bool {
        let owner = self.sessions.get(id).map(|session| &session.owner);
        self.sessions.iter().any(|(other, session)| {
            let is_his = other != id && Some(&session.owner) == owner;
            is_his && session.reported(gpu) > Bytes::ZERO
        })
    }

    fn group(&self, task: TaskId) -> Option<&ProcessGroup> {
        Some(&self.tasks.get(task)?.group)
    }

    fn is_best_effort(&self, id: SessionId) -> bool {
        let entry = self.registry.get(id.registration);
        entry.is_some_and(|entry| self.scheduled_class(entry) == Class::BestEffort)
    }
}
