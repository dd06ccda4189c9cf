//! The processes of which any witness tells.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use crate::engine::{Gpu, gpu_of};
use crate::ids::RegistrationId;
use crate::input::Kept;
use crate::ledger::Disagreement;
use crate::sample::{Held, Identity, ProbedProcess, ProcessSample};
use crate::sessions::{Session, SessionId, Sessions};

/// One process on one GPU, with what each witness tells of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The pid in the daemon's PID namespace.
    pub pid: u32,
    /// The user id; none once the process is gone.
    pub uid: Option<u32>,
    /// The short name; empty once the process is gone.
    pub comm: String,
    /// The index of the GPU; none for a session that uses no GPU, and for memory that the probes
    /// count on a GPU that is not known.
    pub gpu: Option<usize>,
    /// The container or the systemd unit; none where it is in neither.
    pub origin: Option<Arc<str>>,
    /// The bytes that NVML shows; none where NVML does not show the process or does not tell.
    pub nvml: Option<Bytes>,
    /// What the probes count; none where they have not seen the process.
    pub probed: Option<ProbedStatus>,
    /// The bytes that its agent reports; none without an agent on that GPU.
    pub agent: Option<Bytes>,
    /// The bytes that its agent keeps resident for others.
    pub kept: Kept,
    /// Its registration; none without a session.
    pub task: Option<RegistrationId>,
    /// Whether it has an agent; for a dead one, until the driver shows it no more.
    pub managed: bool,
    /// Whether its agent can be talked to.
    pub attached: bool,
    /// How the witnesses differ; none where they agree.
    pub disagreement: Option<Disagreement>,
}

/// What the probes count for a process on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbedStatus {
    /// The least number of bytes on the GPU.
    pub bytes: Bytes,
    /// The bytes of managed memory, which may lie on the GPU or in host memory.
    pub managed: Bytes,
    /// When the probes saw its first call, on the daemon's monotonic clock.
    pub first_seen: Time,
    /// What is known of the time before: `start`, `nvml` or `unknown`.
    pub baseline: &'static str,
    /// How far the counters can be trusted: `exact`, `estimated`, `at-least` or `claimed`.
    pub confidence: &'static str,
}

#[derive(Clone, Copy)]
pub(super) struct Witnesses<'a> {
    pub(super) gpus: &'a [Gpu],
    pub(super) sessions: &'a Sessions,
    pub(super) probed: &'a [ProbedProcess],
}

impl<'a> Witnesses<'a> {
    /// Merges what the witnesses tell: an agent goes before NVML, NVML before the probes.
    /// `registration` finds that of a task.
    pub(super) fn processes(
        self,
        registration: impl Fn(TaskId) -> Option<RegistrationId>,
    ) -> Vec<ProcessStatus> {
        let mut rows = Vec::new();
        for (id, session) in self.sessions.iter() {
            self.add_session(id, session, &mut rows);
        }
        for (index, gpu) in self.gpus.iter().enumerate() {
            let mut dead_pids = BTreeSet::new();
            for dead in &gpu.dead {
                if !self.is_managed(dead.pid) && dead_pids.insert(dead.pid) {
                    rows.push(ProcessStatus {
                        gpu: Some(index),
                        nvml: shown(gpu, dead.pid).and_then(|process| process.bytes),
                        task: registration(dead.task),
                        managed: true,
                        ..of_identity(dead.pid, Some(&dead.identity))
                    });
                }
            }
            let shown = gpu.account.last().map(|last| last.processes.as_slice());
            for process in shown.unwrap_or_default() {
                if !self.is_managed(process.pid) && !dead_pids.contains(&process.pid) {
                    rows.push(ProcessStatus {
                        gpu: Some(index),
                        nvml: process.bytes,
                        disagreement: gpu.account.disagreement(process.pid),
                        ..of_identity(process.pid, process.identity.as_ref())
                    });
                }
            }
        }
        self.add_probed(&mut rows);
        rows.sort_by_key(|row| (row.pid, row.gpu));
        rows
    }

    fn is_managed(&self, pid: u32) -> bool {
        self.sessions.of_pid(pid).next().is_some()
    }

    /// Adds the process of a session: once for each GPU that it uses or that NVML shows it on, else
    /// without a GPU.
    fn add_session(&self, id: SessionId, session: &Session, rows: &mut Vec<ProcessStatus>) {
        let before = rows.len();
        for (index, gpu) in self.gpus.iter().enumerate() {
            let pid = session.peer.pid;
            let device = session.devices.get(index);
            let shown = shown(gpu, pid);
            if shown.is_none() && device.is_none_or(|device| device.task.is_none()) {
                continue;
            }
            let reachable = device.filter(|_| session.is_connected);
            rows.push(ProcessStatus {
                gpu: Some(index),
                origin: shown.and_then(|process| origin(process.identity.as_ref())),
                nvml: shown.and_then(|process| process.bytes),
                agent: Some(session.reported(index)),
                kept: reachable.map_or(Kept::default(), |device| device.block.kept),
                disagreement: gpu.account.disagreement(pid),
                ..of_session(id, session)
            });
        }
        if rows.len() == before {
            rows.push(of_session(id, session));
        }
    }

    /// Adds what the probes count, and the processes that only the probes know.
    fn add_probed(&self, rows: &mut Vec<ProcessStatus>) {
        let processes = self.probed;
        for row in rows.iter_mut() {
            if row.origin.is_none() {
                let at = processes.binary_search_by_key(&row.pid, |process| process.pid);
                let identity = at.ok().and_then(|at| processes[at].identity.as_ref());
                row.origin = origin(identity);
            }
            let account = row.gpu.map(|gpu| &self.gpus[gpu].account);
            let entry = account.and_then(|account| account.probed(row.pid));
            row.probed = entry.map(|entry| ProbedStatus {
                bytes: entry.now.bytes,
                managed: entry.now.managed,
                first_seen: entry.now.first_seen,
                baseline: entry.baseline().name(),
                confidence: entry.confidence(),
            });
        }
        let mut known: BTreeSet<_> = rows.iter().map(|row| (row.pid, row.gpu)).collect();
        for process in processes {
            for held in &process.held {
                let gpu = gpu_of(self.gpus, process.pid, held);
                if known.insert((process.pid, gpu)) {
                    rows.push(self.of_probed(process, held, gpu));
                }
            }
        }
    }

    /// A process that only the probes know.
    fn of_probed(
        &self,
        process: &'a ProbedProcess,
        held: &Held,
        gpu: Option<usize>,
    ) -> ProcessStatus {
        let account = gpu.map(|gpu| &self.gpus[gpu].account);
        let entry = account.and_then(|account| account.probed(process.pid));
        let unknown = if process.early { "unknown" } else { "start" };
        let confidence = match (process.trusted, process.exact && !process.early) {
            (false, _) => "claimed",
            (true, true) => "exact",
            (true, false) => "at-least",
        };
        ProcessStatus {
            gpu,
            probed: Some(ProbedStatus {
                bytes: held.bytes,
                managed: held.managed,
                first_seen: process.first_seen,
                baseline: entry.map_or(unknown, |entry| entry.baseline().name()),
                confidence,
            }),
            disagreement: account.and_then(|account| account.disagreement(process.pid)),
            ..of_identity(process.pid, process.identity.as_ref())
        }
    }
}

fn shown(gpu: &Gpu, pid: u32) -> Option<&ProcessSample> {
    gpu.account.last()?.process(pid)
}

fn origin(identity: Option<&Identity>) -> Option<Arc<str>> {
    identity?.origin.clone()
}

/// A process with a session, on no GPU.
fn of_session(id: SessionId, session: &Session) -> ProcessStatus {
    ProcessStatus {
        uid: Some(session.peer.uid),
        comm: session.peer.comm.clone(),
        task: Some(id.registration),
        managed: true,
        attached: session.is_connected,
        ..of_identity(session.peer.pid, None)
    }
}

/// A process of which only its identity is known.
fn of_identity(pid: u32, identity: Option<&Identity>) -> ProcessStatus {
    ProcessStatus {
        pid,
        uid: identity.map(|identity| identity.uid),
        comm: identity.map_or_else(String::new, |identity| identity.comm.clone()),
        origin: origin(identity),
        ..ProcessStatus::default()
    }
}
