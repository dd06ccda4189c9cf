//! What witnesses show → the ledger → capacities, and what is said of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::units::{Bytes, Nanos};

use crate::engine::{Engine, Task};
use crate::ledger::{Claim, Disagreement, Finding};
use crate::output::{Level, LogLine};
use crate::sample::GpuSample;

/// The least time between two lines about the capacity of a GPU.
const CAPACITY_LINES: Nanos = Nanos(1_000_000_000);

impl Engine {
    /// Compares a sample with what is claimed on a GPU, and tells the scheduler of the capacity that
    /// follows.
    pub(in crate::engine) fn reconcile(&mut self, gpu: usize, shown: GpuSample) {
        let awaited = self.recovery.pids();
        let claims = self.claims(gpu);
        let account = &mut self.gpus[gpu].account;
        let findings = account.reconcile(self.now, shown, &claims, &awaited);
        self.lay_out(gpu, findings);
        self.show_all(gpu);
    }

    /// Says what was found, and tells the scheduler of the capacity that follows.
    pub(in crate::engine) fn lay_out(&mut self, gpu: usize, findings: Vec<Finding>) {
        for finding in findings {
            self.found(gpu, finding);
        }
        let account = &mut self.gpus[gpu].account;
        if let Some(bytes) = account.update_capacity(self.now) {
            let others = account.others();
            // Whoever allocates and frees at once could fill the log with it.
            let now = self.now;
            let said = self.gpus[gpu].capacity_said;
            if said.is_none_or(|at| now - at >= CAPACITY_LINES) {
                self.gpus[gpu].capacity_said = Some(now);
                let text = format!("capacity changed to {bytes}: others hold {others}");
                self.log(LogLine::new(Level::Info, text).gpu(gpu));
            }
            self.tell(gpu, Event::Capacity { bytes });
        }
    }

    /// Why memory is short on a GPU: what others hold there, and, for the log, the process that holds most
    /// of it; none where that is nothing.
    pub(in crate::engine) fn shortage(&self, gpu: usize) -> Option<(String, String)> {
        let account = &self.gpus[gpu].account;
        let others = account.others();
        if others == Bytes::ZERO {
            return None;
        }
        let most = account.unmanaged().max_by_key(|process| process.bytes);
        let most = most.map(|process| {
            let identity = process.identity.as_ref();
            let comm = identity.map_or("unknown", |identity| &identity.comm);
            format!(", most of it process {} ({comm})", process.pid)
        });
        let why = format!("memory was short because others hold {others}");
        Some((why, most.unwrap_or_default()))
    }

    /// What is known of each managed process on a GPU, by pid. To the driver one pid is one process:
    /// one with several sessions, or a dead one and its successor.
    pub(in crate::engine) fn claims(&self, index: usize) -> BTreeMap<u32, Claim> {
        let gpu = &self.gpus[index];
        let mut counted = BTreeSet::new();
        let dead = gpu.dead.iter().map(|dead| {
            // What several dead processes of one task left is counted once.
            let is_first = counted.insert(dead.task);
            let held = if is_first {
                self.dying(index, dead.task)
            } else {
                Bytes::ZERO
            };
            (dead.pid, Claim { agent: None, held })
        });
        let living = self.sessions.iter().map(|(id, session)| {
            let task = session.devices.get(index).and_then(|device| device.task);
            let task = task.and_then(|task| self.tasks.get(task));
            let held = |task: &Task| task.group.held_by(id.process);
            let claim = Claim {
                agent: Some(session.reported(index)),
                held: task.map_or(Bytes::ZERO, held),
            };
            (session.peer.pid, claim)
        });
        let mut claims: BTreeMap<u32, Claim> = BTreeMap::new();
        for (pid, claim) in dead.chain(living) {
            let entry = claims.entry(pid);
            entry.and_modify(|same| same.add(claim)).or_insert(claim);
        }
        claims
    }

    /// The user of a process, as its session or a witness has it.
    fn user_of(&self, gpu: usize, pid: u32) -> Option<u32> {
        let session = self.sessions.of_pid(pid).next();
        let shown = || {
            self.gpus[gpu]
                .account
                .last()?
                .process(pid)?
                .identity
                .as_ref()
        };
        session
            .map(|(_, session)| session.peer.uid)
            .or_else(|| Some(shown()?.uid))
    }

    /// Writes a finding into the log. A process that holds more than its agent says broke a promise.
    fn found(&mut self, gpu: usize, finding: Finding) {
        let line = |level, text: &str| LogLine::new(level, text).gpu(gpu);
        let (pid, disagreement, shown, witness, agent) = match finding {
            Finding::Named {
                pid,
                disagreement,
                nvml,
                agent,
            } => (pid, disagreement, nvml, "NVML", agent),
            Finding::Counted {
                pid,
                disagreement,
                counted,
                agent,
            } => (pid, disagreement, counted, "the probes", agent),
            Finding::Unmanaged { pid, nvml } => {
                let text = format!(
                    "untracked: a process without an agent holds {nvml}, and takes from the capacity"
                );
                let line = line(Level::Info, &text).user(self.user_of(gpu, pid));
                return self.log(line.pid(pid));
            }
            Finding::Blind => {
                let text = "NVML does not show the processes of this PID namespace: what each holds \
                            is known from its agent alone; run rtswapd in the host's PID namespace \
                            to have it checked";
                return self.log(line(Level::Warn, text));
            }
            Finding::Shared => {
                let text = "a multi-process server (MPS) runs: what single processes hold cannot be \
                            checked";
                return self.log(line(Level::Warn, text));
            }
        };
        let bytes = format!("{shown} by {witness}, {agent} by its agent");
        let Some(named) = disagreement else {
            let text = format!("the witnesses agree again: {bytes}");
            let line = line(Level::Info, &text).user(self.user_of(gpu, pid));
            return self.log(line.pid(pid));
        };
        let text = format!("{named}: the witnesses differ: {bytes}");
        let line = line(Level::Warn, &text).user(self.user_of(gpu, pid));
        self.log(line.pid(pid));
        let session = self.sessions.of_pid(pid).next().map(|(id, _)| id);
        if matches!(named, Disagreement::Underreport | Disagreement::Untracked)
            && let Some(id) = session
        {
            let detail =
                format!("process {pid} holds {shown} by {witness}, and its agent says {agent}");
            self.punish(id.registration, named.name(), detail, &[id.process]);
        }
    }
}
