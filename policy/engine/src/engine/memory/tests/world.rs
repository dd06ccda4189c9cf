//! One engine, processes that hold memory and do nothing else, and NVML as the scene has it.

use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use rtswap_policy::scheduler::{
    BudgetRequestSeq, JobKind, JobSeq, SwapOutcome, SwapSeq, TaskStatus, Usage,
};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use crate::Uuid;
use crate::config::{Config, GpuConfig, SchedulerConfig, Settings};
use crate::engine::Engine;
use crate::groups::Order;
use crate::ids::{CallId, ConnectionId, Cookie, RegistrationId};
use crate::input::{
    Answer, Block, Call, DeviceState, Hello, Input, Jobs, Peer, Start, SwapReport, TaskFile,
};
use crate::output::{LogLine, News, Output};
use crate::registry::TaskOptions;
use crate::rules::{RuleSet, Rules};
use crate::sample::{CgroupSample, GpuSample, HostSample, ProcessSample, Sample};
use crate::saved::Saved;

pub(super) const GPU: Uuid = Uuid::of([1; 16]);
pub(super) const MEMORY: Bytes = Bytes(8 << 30);
pub(super) const GIB: u64 = 1 << 30;

/// The engine and all around it. Time passes only between calls.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) now: Time,
    /// What each agent says.
    blocks: BTreeMap<ConnectionId, Block>,
    /// The last request for memory was granted.
    is_granted: bool,
    /// The last connection that was refused memory, and the number of outputs before that refusal.
    pub(super) refused: Option<(ConnectionId, usize)>,
    /// Agents pin what they are asked for, and unpin it; otherwise they have no more host memory, and unpin nothing.
    pub(super) pins: bool,
    /// Those that processes are in which come from now on.
    pub(super) cgroups: Vec<CgroupSample>,
    /// The processes that had a job granted.
    granted: BTreeSet<ConnectionId>,
    /// Those that had one revoked.
    revoked: BTreeSet<ConnectionId>,
    /// The swap operation that each was ordered last, and the bytes that are then in its backing store.
    swaps: BTreeMap<ConnectionId, (SwapSeq, Bytes)>,
    /// What the engine gave since it was last asked, orders apart.
    outputs: Vec<Output>,
}

/// A configuration of one GPU of 8 GiB, of which 128 MiB are the driver's.
pub(super) fn config() -> Config {
    Config {
        settings: Settings::default(),
        scheduler: SchedulerConfig::default(),
        gpus: vec![GpuConfig::learned(GPU).completed(MEMORY, Bytes::ZERO)],
        subordinates: crate::owners::Subordinates::default(),
        max_sessions: 10_000,
        everybody: Rules::default(),
        rules: RuleSet::new(),
    }
}

/// What NVML shows of a GPU with these processes on it.
pub(super) fn shown(uuid: Uuid, processes: &[(u32, u64)]) -> GpuSample {
    let bytes = processes.iter().map(|(_, bytes)| *bytes).sum();
    let processes = processes.iter().map(|&(pid, bytes)| ProcessSample {
        pid,
        bytes: Some(Bytes(bytes)),
        identity: None,
    });
    GpuSample {
        uuid,
        name: "GPU".into(),
        total: MEMORY,
        reserved: Bytes::ZERO,
        used: Bytes(bytes),
        utilization: None,
        parent: None,
        caveat: None,
        processes: processes.collect(),
    }
}

/// A realtime task of that footprint and swappable part.
pub(super) fn realtime(name: &str, footprint: u64, swappable: u64) -> TaskFile {
    TaskFile {
        uid: 0,
        options: TaskOptions {
            name: name.into(),
            period: Some(Nanos(1_000_000_000)),
            wcet: Some(Nanos(10_000_000)),
            footprint: Some(Bytes(footprint)),
            swappable: Some(Bytes(swappable)),
            ..TaskOptions::default()
        },
    }
}

impl World {
    /// A daemon that has just started, with what NVML shows first.
    pub(super) fn new(config: Config, tasks: Vec<TaskFile>, gpus: Vec<GpuSample>) -> Self {
        let mut world = Self {
            engine: Engine::new(config),
            now: Time(1_000_000_000),
            blocks: BTreeMap::new(),
            is_granted: false,
            refused: None,
            pins: false,
            cgroups: Vec::new(),
            granted: BTreeSet::new(),
            revoked: BTreeSet::new(),
            swaps: BTreeMap::new(),
            outputs: Vec::new(),
        };
        let nvml = world.sample_of(gpus);
        world.put(Input::Start(std::boxed::Box::new(Start {
            saved: Saved::default(),
            awaited: vec![],
            tasks,
            run_time_rules: RuleSet::new(),
            calibrations: Vec::new(),
            nvml,
        })));
        world
    }

    /// A process says Hello, and takes a context of so many bytes. False if it is refused.
    pub(super) fn come(&mut self, pid: u32, context: u64) -> bool {
        let agent = self.hello(pid, None);
        let is_granted = self.take(agent, context);
        if is_granted {
            self.blocks.get_mut(&agent).unwrap().usage.resident = Bytes(context);
            self.ring(agent);
        }
        is_granted
    }

    /// An agent asks for a budget of so many bytes in all, for which others leave. Whether it gets that.
    pub(super) fn take(&mut self, agent: ConnectionId, bytes: u64) -> bool {
        let want = &mut self.blocks.get_mut(&agent).unwrap().want;
        let seq = want.map_or(1, |(seq, _)| seq.0 + 1);
        *want = Some((BudgetRequestSeq(seq), Bytes(bytes)));
        self.is_granted = false;
        self.ring(agent);
        while let Some((&other, _)) = self.swaps.iter().next() {
            self.follow(other);
        }
        std::mem::take(&mut self.is_granted)
    }

    /// An agent has so many bytes in its arena besides its context.
    pub(super) fn fill(&mut self, agent: ConnectionId, context: u64, arena: u64) {
        let usage = &mut self.blocks.get_mut(&agent).unwrap().usage;
        (usage.resident, usage.arena) = (Bytes(context + arena), Bytes(arena));
        self.ring(agent);
    }

    /// An agent asks how much memory it may have, and is told so many bytes.
    pub(super) fn ask_size(&mut self, agent: ConnectionId) -> u64 {
        let asked = &mut self.blocks.get_mut(&agent).unwrap().size_question;
        *asked += 1;
        let asked = *asked;
        self.take_outputs();
        self.ring(agent);
        let told = self
            .take_outputs()
            .into_iter()
            .find_map(|output| match output {
                Output::Size {
                    connection,
                    question,
                    bytes,
                    ..
                } if connection == agent => {
                    assert_eq!(question, asked);
                    Some(bytes)
                }
                _ => None,
            });
        told.expect("an answer at once").0
    }

    /// The bytes that an agent has pinned.
    pub(super) fn store(&self, agent: ConnectionId) -> u64 {
        self.blocks[&agent].backing.1.0
    }

    /// The host has so many bytes available, of 64 GiB.
    pub(super) fn see_host(&mut self, available: u64) {
        self.see_waits(available, 0);
    }

    /// As [`Self::see_host`], and processes wait for memory for so many per cent of the time.
    pub(super) fn see_waits(&mut self, available: u64, percent: u32) {
        self.put(Input::Host(HostSample {
            looked: self.now,
            total: Bytes(64 * GIB),
            available: Bytes(available),
            stalled: Ppm(percent * 10_000),
            cgroups: Vec::new(),
        }));
    }

    /// A process says Hello, and the GPU of the scene is all that it sees.
    pub(super) fn hello(&mut self, pid: u32, name: Option<&str>) -> ConnectionId {
        self.hello_on(ConnectionId(pid.into()), pid, name)
    }

    /// As [`Self::hello`], on that connection.
    pub(super) fn hello_on(
        &mut self,
        connection: ConnectionId,
        pid: u32,
        name: Option<&str>,
    ) -> ConnectionId {
        self.hello_with(connection, pid, name, 0)
    }

    /// As [`Self::hello_on`], by an agent that says that it holds so many bytes already.
    pub(super) fn hello_with(
        &mut self,
        connection: ConnectionId,
        pid: u32,
        name: Option<&str>,
        resident: u64,
    ) -> ConnectionId {
        let usage = Usage {
            resident: Bytes(resident),
            swapped: Bytes::ZERO,
            arena: Bytes(resident),
        };
        let device = DeviceState {
            usage,
            ..DeviceState::default()
        };
        self.hello_from(connection, pid, name, device)
    }

    /// As [`Self::hello_on`], by an agent that says this of the GPU of the scene.
    pub(super) fn hello_from(
        &mut self,
        connection: ConnectionId,
        pid: u32,
        name: Option<&str>,
        device: DeviceState,
    ) -> ConnectionId {
        self.greet(connection, pid, name, device, None)
    }

    /// The process of a closed connection comes back on `connection`, and says this of the GPU.
    pub(super) fn come_back(
        &mut self,
        former: ConnectionId,
        connection: ConnectionId,
        device: DeviceState,
    ) -> ConnectionId {
        let id = self.engine.sessions.of_connection(former).unwrap();
        let session = self.engine.sessions.get(id).unwrap();
        let (pid, cookie) = (session.peer.pid, session.cookie);
        self.greet(
            connection,
            pid,
            None,
            device,
            Some((id.registration, cookie)),
        )
    }

    fn greet(
        &mut self,
        connection: ConnectionId,
        pid: u32,
        name: Option<&str>,
        device: DeviceState,
        resumes: Option<(RegistrationId, Cookie)>,
    ) -> ConnectionId {
        let device = DeviceState {
            uuid: GPU.bytes(),
            memory: MEMORY,
            ..device
        };
        let block = Block {
            usage: device.usage,
            backing: (0, device.backing),
            ..Block::default()
        };
        self.blocks.insert(connection, block);
        self.put(Input::Hello(std::boxed::Box::new(Hello {
            connection,
            peer: Peer {
                pid,
                uid: 0,
                comm: "program".into(),
                start_ticks: 7,
                unit: None,
            },
            name: name.map(Into::into),
            resumes,
            cookie: Cookie(connection.0),
            devices: vec![device],
            cgroups: self.cgroups.clone(),
        })));
        connection
    }

    /// A process asks for so many bytes in all.
    pub(super) fn want_memory(&mut self, agent: ConnectionId, bytes: u64) {
        let want = (BudgetRequestSeq(1), Bytes(bytes));
        self.blocks.get_mut(&agent).unwrap().want = Some(want);
        self.ring(agent);
    }

    /// A process asks for so many bytes in all, and takes them.
    pub(super) fn ask_memory(&mut self, agent: ConnectionId, bytes: u64) {
        self.want_memory(agent, bytes);
        assert!(std::mem::take(&mut self.is_granted), "there is room");
        self.say_resident(agent, bytes);
    }

    /// A process asks for its first job. Returns whether it runs by now.
    pub(super) fn ask_job(&mut self, agent: ConnectionId) -> bool {
        let jobs = Jobs {
            requested: JobSeq(1),
            kind: JobKind::Declared,
            completed: JobSeq(0),
        };
        self.blocks.get_mut(&agent).unwrap().jobs = Some(jobs);
        self.ring(agent);
        self.runs(agent)
    }

    /// Whether a job of a process was granted.
    pub(super) fn runs(&self, agent: ConnectionId) -> bool {
        self.granted.contains(&agent)
    }

    /// Whether a job of a process was revoked.
    pub(super) fn is_revoked(&self, agent: ConnectionId) -> bool {
        self.revoked.contains(&agent)
    }

    /// The folder of tasks is empty, and the daemon is told.
    pub(super) fn remove_tasks(&mut self, config: Config) {
        let tasks = vec![];
        let call = Call::Reload { config, tasks };
        self.put(Input::Call(CallId(1), std::boxed::Box::new(call)));
    }

    /// The number of the swap operation that a process was ordered last, and its target.
    pub(super) fn ordered_swap(&self, agent: ConnectionId) -> Option<(SwapSeq, Bytes)> {
        self.swaps.get(&agent).copied()
    }

    /// A process ends the swap operation that it was ordered last, with that many bytes swapped out.
    pub(super) fn end_swap(&mut self, agent: ConnectionId, swapped: Bytes) {
        let (op, _) = self.swaps.remove(&agent).unwrap();
        let block = self.blocks.get_mut(&agent).unwrap();
        let usage = &mut block.usage;
        usage.resident = usage.resident + usage.swapped - swapped;
        let moved = Bytes(usage.swapped.0.abs_diff(swapped.0));
        usage.swapped = swapped;
        block.swap = Some(SwapReport {
            op,
            outcome: SwapOutcome::Done,
            took: Nanos(1_000_000),
            moved,
        });
        self.ring(agent);
    }

    /// As [`Self::end_swap`], having done as it was told.
    pub(super) fn follow(&mut self, agent: ConnectionId) {
        let (_, target) = self.swaps[&agent];
        self.end_swap(agent, target);
    }

    /// A process completes its first job.
    pub(super) fn complete_job(&mut self, agent: ConnectionId) {
        self.blocks.get_mut(&agent).unwrap().jobs = Some(Jobs {
            requested: JobSeq(1),
            kind: JobKind::Declared,
            completed: JobSeq(1),
        });
        self.ring(agent);
    }

    /// A process says that it holds so many bytes.
    pub(super) fn say_resident(&mut self, agent: ConnectionId, bytes: u64) {
        let usage = &mut self.blocks.get_mut(&agent).unwrap().usage;
        (usage.resident, usage.arena) = (Bytes(bytes), Bytes(bytes));
        self.ring(agent);
    }

    /// The process of a connection was looked at, and is stopped.
    pub(super) fn see_stopped(&mut self, connection: ConnectionId) {
        let is_stopped = true;
        self.put(Input::Inspected {
            connection,
            is_stopped,
        });
    }

    /// A process ends, and the shell sees it.
    pub(super) fn die(&mut self, agent: ConnectionId) {
        self.blocks.remove(&agent);
        self.put(Input::ProcessEnded(agent));
    }

    /// The connection of a process ends, and no more.
    pub(super) fn disconnect(&mut self, agent: ConnectionId) {
        self.blocks.remove(&agent);
        self.put(Input::Disconnected(agent));
    }

    /// NVML shows this now. Reading began 1 ms ago.
    pub(super) fn nvml(&mut self, gpus: Vec<GpuSample>) {
        let sample = self.sample_of(gpus);
        self.put(Input::Nvml(sample));
    }

    fn sample_of(&self, gpus: Vec<GpuSample>) -> Sample {
        Sample {
            began: Time(self.now.0 - 1_000_000),
            gpus,
            left_alone: vec![],
            named: vec![],
        }
    }

    /// Time passes; timers that come due are heard in time.
    pub(super) fn wait(&mut self, ms: u64) {
        let end = self.now + Nanos(ms * 1_000_000);
        while let Some(due) = self.engine.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.put(Input::Timer);
        }
        self.now = end;
    }

    pub(super) fn ring(&mut self, connection: ConnectionId) {
        let block = self.blocks[&connection];
        self.put(Input::Block {
            connection,
            gpu: 0,
            block,
            rang: true,
        });
    }

    /// Hands an input in and does all that follows.
    pub(super) fn put(&mut self, input: Input) {
        self.engine.handle(self.now, input);
        let mut answered = Vec::new();
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Order {
                    connection,
                    order: Order::SetBudget { bytes, answers },
                    ..
                } => {
                    self.is_granted |= answers.is_some_and(|answer| answer.granted);
                    if answers.is_some_and(|answer| !answer.granted) {
                        self.refused = Some((connection, self.outputs.len()));
                    }
                    let held = bytes.max(self.blocks[&connection].usage.resident);
                    let answer = Answer::Held(held);
                    self.engine.handle(self.now, Input::Answer(answer));
                }
                Output::Order {
                    connection,
                    order: Order::Grant { .. },
                    ..
                } => {
                    self.granted.insert(connection);
                }
                Output::Order {
                    connection,
                    order: Order::Revoke { .. },
                    ..
                } => {
                    self.revoked.insert(connection);
                }
                Output::Order {
                    connection,
                    order: Order::Swap { op, target, .. },
                    ..
                } => {
                    self.swaps.insert(connection, (op, target));
                }
                Output::Order {
                    connection,
                    order: Order::SetBackingStore { bytes: asked },
                    ..
                } => {
                    let block = self.blocks.get_mut(&connection).unwrap();
                    let (seq, bytes) = block.backing;
                    block.backing = (seq + 1, if self.pins { asked } else { bytes });
                    answered.push(connection);
                }
                Output::Order { .. } => {}
                Output::Welcome(_) => {
                    self.engine
                        .handle(self.now, Input::Answer(Answer::Sent(true)));
                }
                Output::Record(_) => {
                    self.engine
                        .handle(self.now, Input::Answer(Answer::Kept(true)));
                }
                output => self.outputs.push(output),
            }
        }
        for agent in answered {
            self.ring(agent);
        }
    }

    /// The outputs since this was called last, orders and questions apart.
    pub(super) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    /// The lines of the log since outputs were last taken that contain `text`.
    pub(super) fn lines(&self, text: &str) -> Vec<&LogLine> {
        let lines = self.outputs.iter().filter_map(|output| match output {
            Output::Log(line) if line.text.contains(text) => Some(&**line),
            _ => None,
        });
        lines.collect()
    }

    /// The kinds of the violations since outputs were last taken.
    pub(super) fn violations(&self) -> Vec<&'static str> {
        let kinds = self.outputs.iter().filter_map(|output| match output {
            Output::Announce(news) => match **news {
                News::Violation { kind, .. } => Some(kind),
                News::DeadlineMissed { .. } => None,
            },
            _ => None,
        });
        kinds.collect()
    }

    /// How often NVML was hurried or let go since outputs were last taken.
    pub(super) fn hurries(&self) -> Vec<bool> {
        let hurries = self.outputs.iter().filter_map(|output| match output {
            Output::HurryNvml(hurry) => Some(*hurry),
            _ => None,
        });
        hurries.collect()
    }

    /// The capacity mᴰ of the GPU, in bytes.
    pub(super) fn capacity(&self) -> u64 {
        self.engine.gpus[0].scheduler.state().capacity().0
    }

    /// The task of that name, or the only one of its prefix.
    pub(super) fn task(&self, name: &str) -> TaskStatus {
        let mut tasks = self.engine.gpus[0].scheduler.state().tasks();
        tasks.find(|task| task.name.starts_with(name)).unwrap()
    }

    /// What is dying on the GPU, in bytes.
    pub(super) fn dying(&self) -> u64 {
        let tasks = self.engine.gpus[0].scheduler.state().tasks();
        tasks.map(|task| task.dying.0).sum()
    }

    pub(super) fn registration(&self, name: &str) -> RegistrationId {
        self.engine.registry.find(0, name).unwrap()
    }
}
