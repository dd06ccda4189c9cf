//! The engine as a daemon drives it: [`Shell`] carries outputs out, answers questions and keeps the
//! journal as a disk does. Each file beside this one is about the room of its name.

mod calibrations;
mod calls;
mod ends;
mod hello;
mod journal;
mod reload;
mod start;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{JobKind, JobSeq, Usage};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::Engine;
use crate::Uuid;
use crate::config::{Config, GpuConfig, SchedulerConfig, Settings};
use crate::error::CallError;
use crate::groups::Order;
use crate::ids::{CallId, ConnectionId, Cookie, RegistrationId};
use crate::input::{
    Answer, Block, Call, Caller, DeviceState, Hello, Input, Jobs, Peer, Start, StoredCalibration,
    TaskFile,
};
use crate::output::{Output, RefusalCode, Reply, Welcome};
use crate::registry::TaskOptions;
use crate::rules::{RuleSet, Rules};
use crate::sample::{NamedGpu, Sample};
use crate::saved::Saved;

const MIB: u64 = 1 << 20;

/// The user of all tasks.
const USER: u32 = 1000;

const CALLER: Caller = Caller {
    uid: USER,
    privileged: true,
};

const GPU: Uuid = Uuid::of([1; 16]);

/// A GPU that hands out 16 MiB.
fn gpu(uuid: Uuid) -> GpuConfig {
    GpuConfig {
        memory: Some(Bytes(16 * MIB)),
        reserve: Some(Bytes(0)),
        best_effort_reserve: Some(Bytes(0)),
        chunk: Bytes(2 * MIB),
        ..GpuConfig::learned(uuid)
    }
}

fn config(gpus: Vec<GpuConfig>) -> Config {
    Config {
        settings: Settings::default(),
        scheduler: SchedulerConfig::default(),
        gpus,
        subordinates: crate::owners::Subordinates::default(),
        max_sessions: 10_000,
        everybody: Rules::default(),
        rules: RuleSet::new(),
    }
}

fn options(name: &str) -> TaskOptions {
    TaskOptions::best_effort(name.into())
}

/// Half of the GPU, half of it swappable.
fn realtime(name: &str) -> TaskOptions {
    TaskOptions {
        period: Some(Nanos(20_000_000_000)),
        wcet: Some(Nanos(8_000_000_000)),
        footprint: Some(Bytes(8 * MIB)),
        swappable: Some(Bytes(4 * MIB)),
        ..options(name)
    }
}

fn file(options: TaskOptions) -> TaskFile {
    TaskFile { uid: USER, options }
}

/// The Hello of a fresh process on a fresh connection.
fn hello(connection: u64, pid: u32, name: Option<&str>) -> Hello {
    Hello {
        connection: ConnectionId(connection),
        peer: Peer {
            pid,
            uid: USER,
            comm: "python".into(),
            start_ticks: u64::from(pid) * 7,
            unit: None,
        },
        name: name.map(Into::into),
        resumes: None,
        cookie: Cookie(connection << 32),
        devices: Vec::new(),
        cgroups: Vec::new(),
    }
}

/// The Hello of the process of `welcome`, with `resident` bytes on the first GPU.
fn again(connection: u64, pid: u32, welcome: &Welcome, resident: u64) -> Hello {
    Hello {
        resumes: Some((welcome.registration, welcome.cookie)),
        devices: vec![DeviceState {
            uuid: GPU.bytes(),
            memory: Bytes(16 * MIB),
            usage: Usage {
                resident: Bytes(resident),
                ..Usage::default()
            },
            ..DeviceState::default()
        }],
        ..hello(connection, pid, None)
    }
}

/// The block of an agent that asks for its first job.
fn request() -> Block {
    Block {
        jobs: Some(Jobs {
            requested: JobSeq(1),
            kind: JobKind::Implicit,
            completed: JobSeq(0),
        }),
        ..Block::default()
    }
}

/// A daemon without IO.
struct Shell {
    engine: Engine,
    now: Time,
    /// The state file with its journal.
    disk: Saved,
    /// What was carried out since the last input.
    outputs: Vec<Output>,
    /// Whether Welcomes can be sent.
    sends: bool,
    /// Whether records can be kept.
    keeps: bool,
    /// The daemon is killed before it carries out one more output than this.
    outputs_left: usize,
}

impl Shell {
    /// The first daemon.
    fn new() -> Self {
        Self::start(config(vec![gpu(GPU)]), Saved::default(), &[], Vec::new())
    }

    /// A daemon after the one that left `saved`. The processes of `alive` live, each watched under its
    /// pid plus 1,000.
    fn start(config: Config, saved: Saved, alive: &[u32], tasks: Vec<TaskFile>) -> Self {
        Self::start_until(usize::MAX, config, saved, alive, tasks)
    }

    /// As [`Self::start`], with its end foreseen.
    fn start_until(
        outputs_left: usize,
        config: Config,
        saved: Saved,
        alive: &[u32],
        tasks: Vec<TaskFile>,
    ) -> Self {
        Self::begin(outputs_left, config, saved, alive, tasks, Vec::new())
    }

    /// The first daemon, with calibrations from before.
    fn start_with(config: Config, calibrations: Vec<StoredCalibration>) -> Self {
        let saved = Saved::default();
        Self::begin(usize::MAX, config, saved, &[], Vec::new(), calibrations)
    }

    /// The next daemon, after a kill, with the calibrations that were kept.
    fn restart_with(&self, alive: &[u32], calibrations: Vec<StoredCalibration>) -> Self {
        let (config, saved) = (self.engine.config.clone(), self.disk.clone());
        Self::begin(usize::MAX, config, saved, alive, Vec::new(), calibrations)
    }

    fn begin(
        outputs_left: usize,
        config: Config,
        saved: Saved,
        alive: &[u32],
        tasks: Vec<TaskFile>,
        calibrations: Vec<StoredCalibration>,
    ) -> Self {
        let mut shell = Self {
            engine: Engine::new(config),
            now: Time(1_000_000_000),
            disk: saved.clone(),
            outputs: Vec::new(),
            sends: true,
            keeps: true,
            outputs_left,
        };
        let sessions = saved.sessions.iter().enumerate();
        let awaited = sessions.filter(|(_, session)| alive.contains(&session.pid));
        let awaited = awaited.map(|(at, session)| (watched(session.pid), at));
        let awaited = awaited.collect();
        let nvml = Sample {
            began: shell.now,
            gpus: Vec::new(),
            left_alone: Vec::new(),
            named: Vec::new(),
        };
        shell.handle(Input::Start(Box::new(Start {
            saved,
            awaited,
            tasks,
            run_time_rules: RuleSet::new(),
            calibrations,
            nvml,
        })));
        shell
    }

    /// The CUDA driver names the GPU, with so much memory.
    fn name_gpu(&mut self, total: Bytes) {
        self.handle(Input::Nvml(Sample {
            began: self.now,
            gpus: Vec::new(),
            left_alone: Vec::new(),
            named: vec![NamedGpu { uuid: GPU, total }],
        }));
    }

    /// The next daemon, after a kill.
    fn restart(&self, alive: &[u32]) -> Self {
        self.restart_until(usize::MAX, alive)
    }

    /// As [`Self::restart`], with its end foreseen.
    fn restart_until(&self, outputs_left: usize, alive: &[u32]) -> Self {
        let config = self.engine.config.clone();
        Self::start_until(outputs_left, config, self.disk.clone(), alive, Vec::new())
    }

    fn is_killed(&self) -> bool {
        self.outputs_left == 0
    }

    fn handle(&mut self, input: Input) -> &[Output] {
        self.outputs.clear();
        if self.is_killed() {
            return &self.outputs;
        }
        self.engine.handle(self.now, input);
        while let Some(output) = self.engine.poll_output() {
            self.outputs_left -= 1;
            if self.is_killed() {
                break;
            }
            let answer = self.carry_out(&output);
            self.outputs.push(output);
            if let Some(answer) = answer {
                self.engine.handle(self.now, Input::Answer(answer));
            }
        }
        &self.outputs
    }

    fn carry_out(&mut self, output: &Output) -> Option<Answer> {
        match output {
            Output::Order {
                order: Order::SetBudget { bytes, .. },
                ..
            } => Some(Answer::Held(*bytes)),
            Output::Welcome(_) => Some(Answer::Sent(self.sends)),
            Output::Record(record) => {
                if self.keeps {
                    self.disk.apply(record.as_ref().clone());
                }
                Some(Answer::Kept(self.keeps))
            }
            Output::Checkpoint => {
                self.disk = self.engine.saved();
                None
            }
            _ => None,
        }
    }

    /// Waits until `at`, with all timers that are due before.
    fn wait(&mut self, at: Time) {
        let mut all = Vec::new();
        for _ in 0..1000 {
            let due = self.engine.poll_timeout().filter(|due| *due <= at);
            let Some(due) = due.filter(|_| !self.is_killed()) else {
                self.now = at;
                self.outputs = all;
                return;
            };
            self.now = self.now.max(due);
            all.extend_from_slice(self.handle(Input::Timer));
        }
        panic!("the timers come to no end");
    }

    fn call(&mut self, call: Call) -> Result<Reply, CallError> {
        let outputs = self.handle(Input::Call(CallId(1), Box::new(call)));
        let mut answers = outputs.iter().filter_map(|output| match output {
            Output::Answer(CallId(1), result) => Some(result.clone()),
            _ => None,
        });
        let answer = answers.next().expect("a call is answered");
        assert_eq!(answers.next(), None, "and once");
        answer
    }

    fn register(&mut self, options: TaskOptions) -> Result<RegistrationId, CallError> {
        self.register_by(options, false)
    }

    fn lease(&mut self, options: TaskOptions) -> Result<RegistrationId, CallError> {
        self.register_by(options, true)
    }

    fn register_by(
        &mut self,
        options: TaskOptions,
        lease: bool,
    ) -> Result<RegistrationId, CallError> {
        let call = Call::Register {
            caller: CALLER,
            options,
            claimant: None,
            lease,
        };
        self.call(call).map(|reply| match reply {
            Reply::Registered(id) => id,
            other => panic!("a registration has a number: {other:?}"),
        })
    }

    fn greet(&mut self, hello: Hello) -> Result<Welcome, (RefusalCode, String)> {
        let outputs = self.handle(Input::Hello(Box::new(hello)));
        let mut answers = outputs.iter().filter_map(|output| match output {
            Output::Welcome(welcome) => Some(Ok(welcome.as_ref().clone())),
            Output::Refuse { code, text, .. } => Some(Err((*code, text.clone()))),
            _ => None,
        });
        let answer = answers.next().expect("a Hello is answered");
        assert_eq!(answers.next(), None, "and once");
        answer
    }

    fn ring(&mut self, welcome: &Welcome, block: Block) {
        self.handle(Input::Block {
            connection: welcome.connection,
            gpu: 0,
            block,
            rang: true,
        });
    }

    /// Whether a job was granted on that connection since the last input.
    fn granted(&self, connection: ConnectionId) -> bool {
        let to = |output: &Output| {
            matches!(output, Output::Order { connection: to, order: Order::Grant { .. }, .. }
                if *to == connection)
        };
        self.outputs.iter().any(to)
    }

    fn forgets(&self, connection: ConnectionId) -> bool {
        self.outputs.contains(&Output::Forget(connection))
    }

    /// The names of all registrations.
    fn names(&self) -> Vec<&str> {
        let entries = self.engine.registry.iter();
        entries.map(|entry| entry.task.name.as_str()).collect()
    }
}

/// The number under which an awaited process is watched.
fn watched(pid: u32) -> ConnectionId {
    ConnectionId(u64::from(pid) + 1000)
}

/// So many seconds after the start.
fn seconds(count: u64) -> Time {
    Time((count + 1) * 1_000_000_000)
}
