//! Bars owners of disobedient processes from running beside realtime, for a while and with all their
//! processes: otherwise each new process would cost the others a drain bound again. What an admitted task loads
//! meanwhile is spared the lateness of the owner's other tasks, or it would miss its first deadlines for it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{Event, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Nanos, Time};

use super::Engine;
use crate::groups::ProcessId;
use crate::ids::RegistrationId;
use crate::output::{Level, LogLine};
use crate::owners::Owner;
use crate::sessions::SessionId;

const SECOND: u64 = 1_000_000_000;

/// How long an owner is barred at first for a process that is late: a busy machine makes honest ones late.
const LATE: Nanos = Nanos(SECOND);

/// How long for one that ends instead of leaving the GPU, or is still there after [`LASTING`].
const STUBBORN: Nanos = Nanos(60 * SECOND);

/// After so long on the GPU past its bound a process is not only late.
const LASTING: Nanos = Nanos(SECOND);

/// Each further offence doubles the time: lateness up to [`STUBBORN`], the others up to this. After so long without one, all is forgotten.
const MOST: Nanos = Nanos(3600 * SECOND);

/// Owners that are remembered at a time. The one with the earliest end of its bar is forgotten first.
const OWNERS: usize = 4096;

/// What is remembered of an owner.
#[derive(Clone, Copy, Debug)]
struct Penalty {
    /// How long the last bar was.
    bar: Nanos,
    until: Time,
}

/// The owners that are or were barred.
#[derive(Debug, Default)]
pub(crate) struct Penalties(BTreeMap<Owner, Penalty>);

impl Penalties {
    /// Bars an owner for at least `least`; returns for how long, and until when.
    fn bar(&mut self, now: Time, owner: &Owner, least: Nanos) -> (Nanos, Time) {
        self.0.retain(|_, penalty| now < penalty.until + MOST);
        if self.0.len() >= OWNERS && !self.0.contains_key(owner) {
            let first = self.0.iter().min_by_key(|(_, penalty)| penalty.until);
            let first = first.map(|(owner, _)| owner.clone());
            first.and_then(|owner| self.0.remove(&owner));
        }
        let before = self.0.get(owner).map_or(Nanos::ZERO, |it| it.bar);
        let most = if least < STUBBORN { STUBBORN } else { MOST };
        let bar = Nanos(before.0 * 2).min(most).max(least);
        let until = now + bar;
        self.0.insert(owner.clone(), Penalty { bar, until });
        (bar, until)
    }

    /// Until when an owner is barred.
    fn until(&self, now: Time, owner: &Owner) -> Option<Time> {
        let until = self.0.get(owner)?.until;
        (now < until).then_some(until)
    }
}

impl Engine {
    /// Bars the owners of processes that did not leave the GPU, or a copy engine, in time. Returns what
    /// follows for them, in words.
    pub(super) fn penalize(
        &mut self,
        id: RegistrationId,
        kind: ViolationKind,
        culprits: &[ProcessId],
    ) -> String {
        let mut text = String::new();
        let mut owners: Vec<Owner> = Vec::new();
        for &process in culprits {
            let now = self.now;
            let Some(session) = self.sessions.get_mut(SessionId::new(id, process)) else {
                continue;
            };
            if kind == ViolationKind::Undrainable {
                // Of one job it is said twice where its process is killed.
                if session.undrained_since.is_some() {
                    continue;
                }
                session.undrained_since = Some(now);
            }
            if !owners.contains(&session.owner) {
                owners.push(session.owner.clone());
            }
        }
        for owner in owners {
            text += &self.bar_owner(&owner, id);
        }
        text
    }

    /// Bars an owner for the lateness of a process of `culprit`. Returns what follows for it, in words.
    pub(super) fn bar_owner(&mut self, owner: &Owner, culprit: RegistrationId) -> String {
        self.bar_for(owner, LATE, |registration| registration == culprit)
    }

    /// Bars an owner; those of its tasks for which `while_loading` says so, while they load too.
    fn bar_for(
        &mut self,
        owner: &Owner,
        least: Nanos,
        while_loading: impl Fn(RegistrationId) -> bool,
    ) -> String {
        let (bar, until) = self.penalties.bar(self.now, owner, least);
        let sessions = self.sessions.iter().filter(|(_, it)| it.owner == *owner);
        let tasks = sessions.flat_map(|(id, session)| {
            let while_loading = while_loading(id.registration);
            let devices = session.devices.iter().enumerate();
            devices.filter_map(move |(gpu, device)| Some((gpu, device.task?, while_loading)))
        });
        let mut tasks: Vec<(usize, TaskId, bool)> = tasks.collect();
        tasks.sort_unstable();
        tasks.dedup();
        for (gpu, task, while_loading) in tasks {
            let bar = Event::Bar {
                task,
                until,
                while_loading,
            };
            self.tell(gpu, bar);
        }
        format!(
            "; {owner} gets nothing beside realtime for {} s",
            bar.0 / SECOND
        )
    }

    /// A process has joined its task and is barred as its owner is, also while it loads: its task may be a new
    /// registration of the late one.
    pub(super) fn bar_newcomer(&mut self, gpu: usize, id: SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let task = session.devices.get(gpu).and_then(|device| device.task);
        let until = self.penalties.until(self.now, &session.owner);
        if let (Some(task), Some(until)) = (task, until) {
            let bar = Event::Bar {
                task,
                until,
                while_loading: true,
            };
            self.tell(gpu, bar);
        }
    }

    /// The processes of a task have left the GPU.
    pub(super) fn note_drained(&mut self, id: RegistrationId) {
        for session in self.sessions.of_mut(id) {
            session.undrained_since = None;
        }
    }

    /// A process, or its session, ends that had not left the GPU when it had to: the next one may do the same.
    pub(super) fn note_end_undrained(&mut self, owner: &Owner, uid: u32) {
        let text = self.bar_for(owner, STUBBORN, |_| true);
        let text =
            format!("a process ended, or came back, that had not left the GPU in time{text}");
        let line = LogLine::new(Level::Warn, text);
        self.log(line.user(Some(uid)));
    }

    /// Bars the owners of processes that are on the GPU long past their bound.
    pub(super) fn bar_stubborn(&mut self) {
        let now = self.now;
        let is_stubborn = |since: Option<Time>| since.is_some_and(|at| now - at >= LASTING);
        let sessions = self.sessions.iter();
        let stubborn = sessions.filter(|(_, it)| is_stubborn(it.undrained_since));
        let stubborn: Vec<_> = stubborn.map(|(_, it)| it.owner.clone()).collect();
        for owner in stubborn {
            let is_barred = |until: Time| until - now > LATE;
            if !self.penalties.until(now, &owner).is_some_and(is_barred) {
                self.bar_for(&owner, STUBBORN, |_| true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_doubles_and_is_forgotten() {
        let mut penalties = Penalties::default();
        let owner = Owner::User(5);
        let mut bar = |second: u64, least| {
            let now = Time(second * SECOND);
            penalties.bar(now, &owner, least).0.0 / SECOND
        };
        assert_eq!([bar(0, LATE), bar(1, LATE), bar(3, LATE)], [1, 2, 4]);
        assert_eq!(
            [bar(7, STUBBORN), bar(8, LATE)],
            [60, 60],
            "not for lateness"
        );
        let mut at = 200;
        for _ in 0..10 {
            at += bar(at, STUBBORN);
        }
        assert_eq!(bar(at, STUBBORN), 3600, "the most");
        assert_eq!(bar(at + 7200, LATE), 1, "an hour after its end");
    }

    #[test]
    fn owners_are_remembered_in_bounded_number() {
        let mut penalties = Penalties::default();
        for uid in 0..2 * OWNERS as u32 {
            penalties.bar(Time(u64::from(uid)), &Owner::User(uid), LATE);
        }
        assert_eq!(penalties.0.len(), OWNERS);
        let now = Time(3 * OWNERS as u64);
        assert!(penalties.until(now, &Owner::User(0)).is_none());
        assert!(
            penalties
                .until(now, &Owner::User(2 * OWNERS as u32 - 1))
                .is_some()
        );
    }
}
