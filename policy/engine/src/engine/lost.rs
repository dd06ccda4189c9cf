//! Processes without a connection. What they hold stays counted, and no order reaches them. So a process that
//! keeps memory from realtime and does not come back is taken for one that ignores an order to leave.

use alloc::format;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Undrained;
use rtswap_policy::units::{Bytes, Nanos};

use super::Engine;
use crate::sessions::{Device, Session, SessionId};
use crate::timers::Timer;

impl Engine {
    /// A process has lost its connection: it has as long to come back as a job has to leave the GPU.
    pub(super) fn await_return(&mut self, id: SessionId) {
        let has_dodged = self.is_ordered_out(id);
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.lost_since = Some(self.now);
        session.has_dodged = has_dodged;
        let gpus = session.devices.iter().enumerate();
        let drains = gpus.filter(|(_, device)| device.task.is_some());
        let drain = drains.map(|(gpu, _)| self.gpus[gpu].config.drain).max();
        let at = drain.map(|drain| self.now + drain + Nanos(1));
        self.timers.set(Timer::Lost(id), at);
    }

    /// Whether a best-effort process is to swap out where there is realtime.
    fn is_ordered_out(&self, id: SessionId) -> bool {
        let devices = self.sessions.get(id).into_iter();
        let mut devices = devices.flat_map(|session| session.devices.iter().enumerate());
        devices.any(|(gpu, device)| {
            let state = self.gpus[gpu].scheduler.state();
            let group = |task| self.tasks.get(task).map(|task| &task.group);
            device.task.is_some_and(|task| {
                let is_best_effort = state.task(task).is_some_and(|task| task.volume.is_none());
                let is_ordered = group(task).is_some_and(|it| it.is_ordered_out(id.process));
                is_best_effort && is_ordered && state.planned_residents().next().is_some()
            })
        })
    }

    /// A process is back that had closed its session when it was to swap out: the order is gone with the session. The
    /// second time it has no excuse.
    pub(super) fn note_dodge(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let (pid, owner) = (session.peer.pid, session.owner.clone());
        let kills = self
            .gpus
            .iter()
            .any(|gpu| matches!(gpu.config.undrained, Undrained::Kill(_)));
        let is_stubborn = session.dodges > 1;
        let mut detail =
            format!("process {pid} has closed its session when it was to swap out, and is back");
        if kills && is_stubborn {
            for pid in self.kill(id.registration, &[id.process]) {
                detail = format!("{detail}; process {pid} is killed");
            }
        }
        detail += &self.bar_owner(&owner, id.registration);
        self.violated(id.registration, "lost", detail);
    }

    /// A process had the time to come back.
    pub(super) fn has_not_returned(&mut self, id: SessionId) {
        let session = self.sessions.get(id);
        let Some(since) = session.and_then(|session| session.lost_since) else {
            return;
        };
        for gpu in 0..self.gpus.len() {
            // Otherwise realtime has what it needs beside it so far.
            if self.gpus[gpu].short_at.is_some_and(|at| at >= since) {
                self.enforce_lost(gpu);
            }
        }
    }

    /// A process has begun anew, and left a session with what it held. Realtime waits until the driver shows that
    /// this is free: one that does so again and again would cost it that time again and again.
    pub(super) fn note_begun_anew(&mut self, id: SessionId, session: &Session) {
        let held = |(gpu, device): (usize, &Device)| {
            let task = device.task?;
            let state = self.gpus[gpu].scheduler.state();
            let is_best_effort = state.task(task)?.volume.is_none();
            let is_beside_realtime = state.planned_residents().next().is_some();
            let group = &self.tasks.get(task)?.group;
            (is_best_effort && is_beside_realtime).then(|| group.held_by(id.process))
        };
        let held: Bytes = session.devices.iter().enumerate().filter_map(held).sum();
        if held > Bytes::ZERO {
            let pid = session.peer.pid;
            let bar = self.bar_owner(&session.owner, id.registration);
            let detail =
                format!("process {pid} has begun anew, and left {held} in its last session{bar}");
            self.violated(id.registration, "lost", detail);
        }
    }

    /// Memory that the plan promises is missing.
    pub(super) fn note_shortage(&mut self, gpu: usize) {
        self.gpus[gpu].short_at = Some(self.now);
        self.enforce_lost(gpu);
    }

    /// Says of each best-effort process that should have come back and holds memory, once, that it keeps it
    /// from realtime; bars its owner and, where the configuration says so, ends it.
    fn enforce_lost(&mut self, gpu: usize) {
        let (now, drain) = (self.now, self.gpus[gpu].config.drain);
        let state = self.gpus[gpu].scheduler.state();
        let lost = self.sessions.iter().filter_map(|(id, session)| {
            let since = session.lost_since?;
            let task = session.devices.get(gpu)?.task?;
            let is_best_effort = state.task(task)?.volume.is_none();
            let held = self.tasks.get(task)?.group.held_by(id.process);
            let is_over = now - since > drain && is_best_effort && held > Bytes::ZERO;
            is_over.then(|| (id, held, session.owner.clone()))
        });
        let lost: Vec<_> = lost.collect();
        for (id, held, owner) in lost {
            let Some(session) = self.sessions.get_mut(id) else {
                continue;
            };
            session.lost_since = None;
            let pid = session.peer.pid;
            let mut detail =
                format!("process {pid} has closed its session and keeps {held} from realtime");
            if matches!(self.gpus[gpu].config.undrained, Undrained::Kill(_)) {
                for pid in self.kill(id.registration, &[id.process]) {
                    detail = format!("{detail}; process {pid} is killed");
                }
            }
            detail += &self.bar_owner(&owner, id.registration);
            self.violated(id.registration, "lost", detail);
        }
    }
}
