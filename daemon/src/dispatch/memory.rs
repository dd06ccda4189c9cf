//! What NVML shows → the ledger → capacities, and the end of what is dying.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::MAX_DEVICES;

use super::Dispatcher;
use super::gpu::Gpu;
use crate::agent::session::Session;
use crate::config::{GpuConfig, Uuid};
use crate::ledger::{Claim, Dead, Disagreement, Finding, Look, depart};
use crate::source::gpu::{GpuSample, Identity, LeftAlone, Poller, Sample};
use crate::sys::peer::{Peer, has_ended};

/// What the dispatch thread knows of NVML.
#[derive(Debug)]
pub(super) struct Nvml {
    /// Reads it, on its own thread.
    poller: Poller,
    period: Nanos,
    /// The last look, whatever it showed.
    looked: Time,
    /// The thread that reads it does not come back from the driver.
    hangs: bool,
    /// NVML has shown at least one GPU.
    pub(super) speaks: bool,
    /// Those that are no place for tasks, by the last look.
    left_alone: Vec<LeftAlone>,
}

/// The driver may take so long for a look.
const LOOK_BOUND: Nanos = Nanos(10_000_000_000);

impl Nvml {
    pub(super) fn new(poller: Poller, period: Duration, looked: Time) -> Self {
        Self {
            poller,
            period: nanos(period),
            looked,
            hangs: false,
            speaks: false,
            left_alone: Vec::new(),
        }
    }

    /// How often it is read.
    pub(super) fn set_period(&mut self, period: Duration) {
        self.period = nanos(period);
        self.poller.set_period(period);
    }

    /// Has it read often, or as ever.
    pub(super) fn hurry(&mut self, hurry: bool) {
        self.poller.hurry(hurry);
    }

    /// When the next look should have come, at the latest.
    pub(super) fn next_look(&self) -> Option<Time> {
        (!self.hangs).then(|| self.looked + self.period + LOOK_BOUND)
    }
}

fn nanos(period: Duration) -> Nanos {
    Nanos(u64::try_from(period.as_nanos()).unwrap_or(u64::MAX))
}

impl Dispatcher {
    /// Takes in the GPUs of the configuration, or all that NVML shows where it has none.
    pub(super) fn add_first_gpus(&mut self, first: Sample, now: Time) {
        self.leave_alone(first.left_alone);
        let shown = first.gpus;
        self.nvml.speaks |= !shown.is_empty();
        let mut gpus = self.config.gpus.clone();
        if gpus.is_empty() {
            gpus.extend(shown.iter().map(|gpu| GpuConfig::learned(gpu.uuid)));
            gpus.truncate(MAX_DEVICES);
        }
        for gpu in gpus {
            match shown.iter().find(|shown| shown.uuid == gpu.uuid) {
                Some(shown) => {
                    if gpu.memory() > shown.total {
                        tracing::warn!(uuid = %gpu.uuid, configured = %gpu.memory(), total = %shown.total,
                            "the GPU has less memory than its file says: that counts");
                    }
                    let gpu = gpu.completed(shown.total, shown.reserved);
                    self.add_gpu(&gpu, Some(shown.clone()), now);
                }
                None if self.is_left_alone(gpu.uuid) => {}
                None if gpu.memory() > Bytes::ZERO => self.add_gpu(&gpu, None, now),
                None => tracing::warn!(uuid = %gpu.uuid,
                    "the GPU's memory is not known: no file says it and NVML does not show the GPU; \
                     it waits for an agent that sees it"),
            }
        }
        self.place_registered(now);
    }

    /// Says which GPUs are no place for tasks, and why, where that is news.
    fn leave_alone(&mut self, left_alone: Vec<LeftAlone>) {
        self.nvml.speaks |= !left_alone.is_empty();
        if left_alone == self.nvml.left_alone {
            return;
        }
        for gpu in &left_alone {
            if !self.nvml.left_alone.contains(gpu) {
                tracing::warn!("a GPU is left alone: {}", gpu.why);
            }
        }
        self.nvml.left_alone = left_alone;
        self.unpublished = true;
    }

    /// What is to be told of them.
    pub(super) fn left_alone(&self) -> Vec<String> {
        let gpus = self.nvml.left_alone.iter();
        gpus.map(|gpu| gpu.why.clone()).collect()
    }

    fn is_left_alone(&self, uuid: Uuid) -> bool {
        self.nvml.left_alone.iter().any(|gpu| gpu.uuid == uuid)
    }

    /// A GPU that an agent sees. NVML and files go before: a stranger introduces only what both
    /// leave open.
    pub(super) fn learn_gpu(&mut self, uuid: Uuid, memory: Bytes, now: Time) {
        let known = self.gpus.iter().any(|gpu| gpu.uuid == uuid);
        if known || self.is_left_alone(uuid) || self.gpus.len() == MAX_DEVICES {
            return;
        }
        let described = self.config.gpus.iter().find(|gpu| gpu.uuid == uuid);
        let gpu = match described {
            Some(gpu) => *gpu,
            None if self.config.gpus.is_empty() && !self.nvml.speaks => GpuConfig::learned(uuid),
            None => return,
        };
        self.add_gpu(&gpu.completed(memory, Bytes::ZERO), None, now);
        self.place_registered(now);
    }

    /// A process of a task died and left memory on a GPU.
    pub(super) fn bury(&mut self, gpu: usize, task: TaskId, peer: &Peer, now: Time) {
        let grace = self.config.daemon.release_grace();
        // A program that executed another one let go of all it held, and has its number still.
        if self.gpus[gpu].account.last().is_none() || !has_ended(&peer.pidfd) {
            self.graces.begin(gpu, task, now + grace);
            return;
        }
        let identity = Identity {
            uid: peer.uid,
            comm: peer.comm.clone(),
            origin: None,
            start_ticks: peer.start_ticks,
        };
        let dead = Dead::new(task, peer.pid, identity, now, grace);
        self.gpus[gpu].dead.push(dead);
        self.nvml.hurry(true);
    }

    /// Takes one look of NVML at all GPUs.
    pub(super) fn take_sample(&mut self, sample: Sample, now: Time) {
        self.nvml.looked = now;
        if std::mem::take(&mut self.nvml.hangs) {
            tracing::warn!("the driver answers again");
        }
        // Where there is no NVML, nothing changes.
        self.unpublished |=
            !sample.gpus.is_empty() || self.gpus.iter().any(|gpu| gpu.account.last().is_some());
        // What agents wrote until now is among the values that the look may have met.
        let all: Vec<_> = self.sessions.keys().copied().collect();
        for session in all {
            self.read_pages(session, now, false);
        }
        self.leave_alone(sample.left_alone);
        let mut shown: BTreeMap<_, _> =
            sample.gpus.into_iter().map(|gpu| (gpu.uuid, gpu)).collect();
        for gpu in 0..self.gpus.len() {
            if let Some(shown) = shown.remove(&self.gpus[gpu].uuid) {
                self.release_dead(gpu, sample.began, Some(&shown), now);
                self.reconcile(gpu, shown, now);
            } else if self.gpus[gpu].account.is_silent(now) {
                self.release_dead(gpu, sample.began, None, now);
            }
        }
        for shown in shown.into_values() {
            self.add_late(shown, now);
        }
        let waits = |gpu: &Gpu| {
            let account = &gpu.account;
            let tells = account.is_rising() || account.is_doubted() || account.awaits_sight(now);
            tells || !gpu.dead.is_empty()
        };
        self.nvml.hurry(self.gpus.iter().any(waits));
    }

    /// A GPU that NVML did not show at the start: its driver was loaded since.
    fn add_late(&mut self, shown: GpuSample, now: Time) {
        self.nvml.speaks = true;
        let described = self.config.gpus.iter().find(|gpu| gpu.uuid == shown.uuid);
        let gpu = match described {
            Some(gpu) => *gpu,
            None if self.config.gpus.is_empty() => GpuConfig::learned(shown.uuid),
            None => return,
        };
        let gpu = gpu.completed(shown.total, shown.reserved);
        if self.gpus.len() < MAX_DEVICES && gpu.complaint().is_none() {
            self.add_gpu(&gpu, Some(shown), now);
            self.place_registered(now);
        }
    }

    /// Goes on without NVML where the driver does not answer.
    pub(super) fn watch_nvml(&mut self, now: Time) {
        if self.nvml.next_look().is_none_or(|due| now < due) {
            return;
        }
        self.nvml.hangs = true;
        tracing::error!(
            "the driver does not answer NVML: memory is known from agents only until it does; \
             dmesg says more"
        );
        for (index, gpu) in self.gpus.iter_mut().enumerate() {
            gpu.account.fall_silent();
            for dead in gpu.dead.drain(..) {
                let end = now.max(dead.died + dead.grace);
                self.graces.begin(index, dead.task, end);
            }
        }
        self.unpublished = true;
    }

    /// Lays a look beside what is claimed, and tells the scheduler of the capacity that follows.
    pub(super) fn reconcile(&mut self, gpu: usize, shown: GpuSample, now: Time) {
        let awaited = self.recovery.pids();
        let claims = self.claims(gpu);
        let account = &mut self.gpus[gpu].account;
        let findings = account.reconcile(now, shown, &claims, &awaited);
        self.lay_out(gpu, findings, now);
    }

    /// Says what was found, and tells the scheduler of the capacity that follows.
    pub(super) fn lay_out(&mut self, gpu: usize, findings: Vec<Finding>, now: Time) {
        for finding in findings {
            self.found(gpu, finding);
        }
        let account = &mut self.gpus[gpu].account;
        if let Some(bytes) = account.capacity(now) {
            tracing::info!(gpu, capacity = %bytes, others = %account.others(), "capacity changed");
            self.feed_own(gpu, now, Event::Capacity { bytes });
        }
    }

    /// What others hold on a GPU and who holds most of it, as the cause of what is late there; none
    /// where it is nothing.
    pub(super) fn others(&self, gpu: usize) -> Option<String> {
        let account = &self.gpus[gpu].account;
        let others = account.others();
        if others == Bytes::ZERO {
            return None;
        }
        let most = account.strangers().max_by_key(|process| process.bytes);
        let most = most.map(|process| {
            let identity = process.identity.as_ref();
            let comm = identity.map_or("unknown", |identity| &identity.comm);
            format!(", most of it process {} ({comm})", process.pid)
        });
        let most = most.unwrap_or_default();
        Some(format!(
            "memory was short because others hold {others}{most}"
        ))
    }

    /// Tells what a witness has brought to light.
    fn found(&mut self, gpu: usize, finding: Finding) {
        tell(gpu, finding);
        let (pid, disagreement, found) = match finding {
            Finding::Named {
                pid,
                disagreement,
                nvml,
                agent,
            } => (pid, disagreement, (nvml, "NVML", agent)),
            Finding::Counted {
                pid,
                disagreement,
                counted,
                agent,
            } => (pid, disagreement, (counted, "the probes", agent)),
            Finding::Unmanaged { .. } | Finding::Blind | Finding::Shared => return,
        };
        if let Some(named @ (Disagreement::Underreport | Disagreement::Untracked)) = disagreement {
            self.holds_more(pid, named, found);
        }
    }

    /// What is known of each managed process on a GPU. What has one number is one to the driver: a
    /// process with several sessions, a dead one and its successor.
    pub(super) fn claims(&self, index: usize) -> BTreeMap<u32, Claim> {
        let gpu = &self.gpus[index];
        let mut counted = BTreeSet::new();
        let dead = gpu.dead.iter().map(|dead| {
            // What several dead of one task left is counted once.
            let first = counted.insert(dead.task);
            let held = if first {
                self.dying(index, dead.task)
            } else {
                Bytes::ZERO
            };
            (dead.pid, Claim { agent: None, held })
        });
        let living = self.sessions.iter().map(|(id, session)| {
            let task = session.devices.get(index).and_then(|device| device.task);
            let place = task.and_then(|task| self.places.get(&task));
            let claim = Claim {
                agent: Some(agent_bytes(session, index)),
                held: place.map_or(Bytes::ZERO, |place| place.members.held_by(id.1)),
            };
            (session.peer.pid, claim)
        });
        let mut claims: BTreeMap<u32, Claim> = BTreeMap::new();
        for (pid, claim) in dead.chain(living) {
            match claims.entry(pid) {
                Entry::Vacant(free) => {
                    free.insert(claim);
                }
                Entry::Occupied(mut same) => same.get_mut().add(claim),
            }
        }
        claims
    }

    /// Ends what is dying where the driver has let go of it.
    fn release_dead(&mut self, gpu: usize, began: Time, shown: Option<&GpuSample>, now: Time) {
        let mut dead = std::mem::take(&mut self.gpus[gpu].dead);
        let account = &self.gpus[gpu].account;
        let look = Look {
            began,
            now,
            sample: shown,
            trusted: account.is_trusted(),
            nobodys: shown.map_or(Bytes::ZERO, |shown| account.nobodys(shown)),
        };
        let departed = depart(&mut dead, &look, |task| self.dying(gpu, task));
        self.gpus[gpu].dead = dead;
        for late in departed.late {
            let pid = late.pid;
            let seconds = (now - late.died).0 / 1_000_000_000;
            tracing::warn!(
                gpu,
                pid,
                comm = late.identity.comm,
                "dead for {seconds} s, and its memory is not back yet: it stays counted; if the \
                 process hangs in the driver, dmesg says more"
            );
        }
        for task in departed.gone {
            self.release(gpu, task, now);
        }
    }

    /// The memory that a dead process of a task left is gone.
    pub(super) fn release(&mut self, gpu: usize, task: TaskId, now: Time) {
        let status = self.gpus[gpu].scheduler.state().task(task);
        if status.is_some_and(|status| status.dying > Bytes::ZERO) {
            self.feed_own(gpu, now, Event::Released { task });
        }
    }
}

/// What a session's agent says that its process holds on a GPU.
pub(super) fn agent_bytes(session: &Session, gpu: usize) -> Bytes {
    match session.devices.get(gpu) {
        Some(_) if session.is_connected() => Bytes(session.block(gpu).agent.usage().resident_bytes),
        Some(device) => device.view.usage().resident,
        None => Bytes::ZERO,
    }
}

fn tell(gpu: usize, finding: Finding) {
    match finding {
        Finding::Named {
            pid,
            disagreement: Some(name),
            nvml,
            agent,
        } => tracing::warn!(gpu, pid, %nvml, %agent, "{name}: the witnesses differ"),
        Finding::Named {
            pid, nvml, agent, ..
        } => tracing::info!(gpu, pid, %nvml, %agent, "the witnesses agree again"),
        Finding::Counted {
            pid,
            disagreement: Some(name),
            counted,
            agent,
        } => tracing::warn!(gpu, pid, probed = %counted, %agent, "{name}: the witnesses differ"),
        Finding::Counted {
            pid,
            counted,
            agent,
            ..
        } => {
            tracing::info!(gpu, pid, probed = %counted, %agent, "the witnesses agree again");
        }
        Finding::Unmanaged { pid, nvml } => tracing::info!(
            gpu,
            pid,
            %nvml,
            "untracked: a process without an agent holds memory, and takes from the capacity"
        ),
        Finding::Blind => tracing::warn!(
            gpu,
            "NVML does not show the processes of this PID namespace: what each holds is known from \
             its agent alone; run rtswapd in the host's PID namespace to have it checked"
        ),
        Finding::Shared => tracing::warn!(
            gpu,
            "a multi-process server (MPS) runs: what single processes hold cannot be checked"
        ),
    }
}
