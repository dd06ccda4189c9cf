//! What others may see of the ledger: GPUs as the driver has them, and who holds their memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use rtswap_wire::page::KeptReport;

use super::memory::agent_bytes;
use super::{Device, Dispatcher, Process};
use crate::agent::session::Session;
use crate::ledger::Disagreement;
use crate::registry::RegistrationId;
use crate::source::gpu::{GpuSample, ProcessSample};

impl Dispatcher {
    /// One GPU as the driver has it.
    pub(super) fn device(&self, index: usize) -> Device {
        let gpu = &self.gpus[index];
        let Some(last) = gpu.account.last() else {
            let sessions = self.sessions.values();
            return Device {
                total: gpu.account.memory(),
                used: sessions.map(|session| agent_bytes(session, index)).sum(),
                unmanaged: gpu.account.others(),
                ..Device::default()
            };
        };
        Device {
            name: last.name.to_string(),
            total: last.total,
            used: last.used,
            unmanaged: gpu.account.others(),
            utilization: last.utilization,
            nvml: true,
        }
    }

    /// Everybody of whom some witness tells.
    pub(super) fn processes(&self) -> Vec<Process> {
        let mut rows = Vec::new();
        let mut placed = BTreeSet::new();
        for (index, gpu) in self.gpus.iter().enumerate() {
            let last = gpu.account.last();
            let mut managed = BTreeSet::new();
            for (&id, session) in &self.sessions {
                let pid = session.peer.pid;
                managed.insert(pid);
                let nvml = shown(last, pid);
                let used = session.devices.get(index);
                let used = used.is_some_and(|device| device.task.is_some());
                if !used && nvml.is_none() {
                    continue;
                }
                placed.insert(id);
                rows.push(Process {
                    gpu: Some(index),
                    origin: nvml.and_then(origin),
                    nvml: nvml.and_then(|process| process.bytes),
                    agent: Some(agent_bytes(session, index)),
                    kept: kept(session, index),
                    disagreement: gpu.account.disagreement(pid).map(Disagreement::name),
                    ..of_session(id.0, session)
                });
            }
            for dead in &gpu.dead {
                if !managed.insert(dead.pid) {
                    continue;
                }
                let place = self.places.get(&dead.task);
                rows.push(Process {
                    pid: dead.pid,
                    uid: Some(dead.identity.uid),
                    comm: dead.identity.comm.clone(),
                    gpu: Some(index),
                    origin: dead.identity.origin.clone(),
                    nvml: shown(last, dead.pid).and_then(|process| process.bytes),
                    probed: None,
                    agent: None,
                    kept: KeptReport::default(),
                    task: place.map(|place| place.registration.0),
                    managed: true,
                    attached: false,
                    disagreement: None,
                });
            }
            let shown = last.map(|last| last.processes.as_slice());
            let others = shown.unwrap_or_default().iter();
            rows.extend(
                others
                    .filter(|process| !managed.contains(&process.pid))
                    .map(|process| Process {
                        disagreement: gpu
                            .account
                            .disagreement(process.pid)
                            .map(Disagreement::name),
                        ..of_other(index, process)
                    }),
            );
        }
        let idle = self.sessions.iter().filter(|(id, _)| !placed.contains(id));
        rows.extend(idle.map(|(id, session)| of_session(id.0, session)));
        self.add_probed(&mut rows);
        rows.sort_by_key(|row| (row.pid, row.gpu));
        rows
    }
}

fn shown(last: Option<&GpuSample>, pid: u32) -> Option<&ProcessSample> {
    let processes = &last?.processes;
    let at = processes.binary_search_by_key(&pid, |process| process.pid);
    Some(&processes[at.ok()?])
}

fn origin(process: &ProcessSample) -> Option<Arc<str>> {
    process.identity.as_ref()?.origin.clone()
}

/// What the agent of a process keeps on a GPU for others.
fn kept(session: &Session, gpu: usize) -> KeptReport {
    let is_there = session.is_connected() && session.devices.get(gpu).is_some();
    if is_there {
        session.block(gpu).agent.kept()
    } else {
        KeptReport::default()
    }
}

/// A process with a session, on no GPU.
fn of_session(id: RegistrationId, session: &Session) -> Process {
    Process {
        pid: session.peer.pid,
        uid: Some(session.peer.uid),
        comm: session.peer.comm.clone(),
        gpu: None,
        origin: None,
        nvml: None,
        probed: None,
        agent: None,
        kept: KeptReport::default(),
        task: Some(id.0),
        managed: true,
        attached: session.is_connected(),
        disagreement: None,
    }
}

/// A process without an agent.
fn of_other(gpu: usize, process: &ProcessSample) -> Process {
    let identity = process.identity.as_ref();
    Process {
        pid: process.pid,
        uid: identity.map(|identity| identity.uid),
        comm: identity.map_or_else(String::new, |identity| identity.comm.clone()),
        gpu: Some(gpu),
        origin: origin(process),
        nvml: process.bytes,
        probed: None,
        agent: None,
        kept: KeptReport::default(),
        task: None,
        managed: false,
        attached: false,
        disagreement: None,
    }
}
