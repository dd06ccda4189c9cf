//! A real engine and a modelled outside, in virtual time. [`Pair`] hands inputs in and carries outputs
//! out, and checks after each what must hold.
//!
//! `world` is all that is outside, in the parts `process`, `device`, `page`, `nvml` and `disk`, `checks` what
//! must hold of it; `setting` is what a run begins with, `op` the steps that it takes, by `rng` from a seed,
//! `steps` how they are taken, `calm` what brings it to its end; `status` holds what the engine says beside
//! what is so.

mod calm;
mod checks;
mod device;
mod disk;
mod nvml;
mod op;
mod page;
mod process;
mod rng;
mod setting;
mod status;
mod steps;
mod world;

use rtswap_engine::input::Answer;
use rtswap_engine::output::LogLine;
use rtswap_engine::{ConnectionId, Engine, Input, Output, Uuid};
use rtswap_policy::units::{Bytes, Nanos, Time};

use crate::allocations;
pub(crate) use op::{Bell, Op};
pub(crate) use rng::Rng;
pub(crate) use setting::{Setting, TaskSetting};
pub(crate) use steps::OVERCLAIM;
pub(crate) use world::World;

pub(crate) const GPUS: usize = 2;
pub(crate) const UUIDS: [Uuid; GPUS] = [Uuid::of([1; 16]), Uuid::of([2; 16])];
/// The size of a swap chunk in bytes.
pub(crate) const CHUNK: u64 = 16 << 20;
/// mᴰ of each GPU while strangers hold nothing, in bytes.
pub(crate) const CAPACITY: Bytes = Bytes(24 * CHUNK);
pub(crate) const MEMORY: Bytes = Bytes(25 * CHUNK);
/// A millisecond in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// A job may have been given up after so long.
pub(crate) const STRAY: Nanos = Nanos(1_000 * MS);

/// An engine and what is outside of it.
pub(crate) struct Pair {
    pub(crate) engine: Engine,
    pub(crate) world: World,
    /// The outside after each output, if the daemon may end there.
    pub(crate) ends: Option<Vec<World>>,
    /// What the engine wrote into the log.
    pub(crate) log: Vec<LogLine>,
    /// What was handed in and given out, if that is to be compared.
    pub(crate) tape: Option<Vec<Entry>>,
    /// What is handed in and given out is printed.
    is_traced: bool,
    /// What the engine allocated for what agents wrote and for timers.
    pub(crate) allocations: u64,
}

/// One call of the engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    Input(Time, Input),
    Output(String),
    Quiet(Option<Time>),
}

impl Pair {
    /// An engine that starts for the first time.
    pub(crate) fn new(setting: Setting) -> Self {
        Self::start(World::new(setting), None)
    }

    /// As [`Self::new`], with a tape from the first input on.
    pub(crate) fn taped(setting: Setting) -> Self {
        Self::start(World::new(setting), Some(Vec::new()))
    }

    /// The engine of the daemon after one that ends now.
    pub(crate) fn restarted(world: World) -> Self {
        Self::start(world, None)
    }

    fn start(mut world: World, tape: Option<Vec<Entry>>) -> Self {
        let start = world.end_daemon();
        let mut pair = Self {
            engine: Engine::new(world.setting.config()),
            world,
            ends: None,
            log: Vec::new(),
            tape,
            is_traced: std::env::var_os("RTSWAP_TEST_TRACE").is_some(),
            allocations: 0,
        };
        pair.tell(Input::Start(Box::new(start)));
        pair
    }

    /// Registers each task of the setting with two processes, which NVML shows.
    pub(crate) fn begin(&mut self) {
        for task in 0..self.world.setting.tasks.len() {
            self.register(task, task % 2 == 1);
            self.join(Some(task));
            self.join(Some(task));
        }
        self.pass(Nanos(5 * MS), false);
    }

    /// Hands an input in and carries out what follows.
    pub(crate) fn tell(&mut self, input: Input) {
        let is_hot = matches!(input, Input::Block { .. } | Input::Timer);
        self.hand_in(input);
        while let Some(output) = self.poll(is_hot) {
            if self.is_traced {
                eprintln!("    {output:?}");
            }
            if let Some(tape) = &mut self.tape {
                tape.push(Entry::Output(format!("{output:?}")));
            }
            if let Output::Log(line) = &output {
                self.log.push((**line).clone());
            }
            let answer = self.world.carry_out(&output);
            if output == Output::Checkpoint {
                self.world.disk.checkpoint(self.engine.saved());
            }
            self.world.disk.step();
            if let Some(ends) = &mut self.ends {
                ends.push(self.world.clone());
            }
            if let Some(answer) = answer {
                self.hand_in(Input::Answer(answer));
                if matches!(answer, Answer::Held(_)) {
                    self.world.check_memory();
                }
            }
        }
        if let Some(tape) = &mut self.tape {
            tape.push(Entry::Quiet(self.engine.poll_timeout()));
        }
        self.world.check_memory();
        self.world.note_quiet();
    }

    fn hand_in(&mut self, input: Input) {
        if let Some(tape) = &mut self.tape {
            tape.push(Entry::Input(self.world.now, input.clone()));
        }
        if self.is_traced && !matches!(input, Input::Nvml(_)) {
            eprintln!("{:?} {input:?}", self.world.now);
        }
        let is_hot = !matches!(input, Input::Nvml(_));
        let before = allocations::so_far();
        self.engine.handle(self.world.now, input);
        self.allocations += if is_hot {
            allocations::so_far() - before
        } else {
            0
        };
    }

    fn poll(&mut self, is_hot: bool) -> Option<Output> {
        let before = allocations::so_far();
        let output = self.engine.poll_output();
        self.allocations += if is_hot {
            allocations::so_far() - before
        } else {
            0
        };
        output
    }

    /// Hands in what each agent that rang has written, or all that is unread where nobody has.
    pub(crate) fn read_pages(&mut self, rung_only: bool) {
        for at in 0..self.world.processes.len() {
            let process = &mut self.world.processes[at];
            let rang = std::mem::take(&mut process.bell);
            let Some(connection) = process.connection else {
                continue;
            };
            if rang || !rung_only {
                self.read_page(connection, at, rang);
            }
        }
    }

    fn read_page(&mut self, connection: ConnectionId, at: usize, rang: bool) {
        for gpu in 0..GPUS {
            let Some(process) = self.world.processes.get_mut(at) else {
                return;
            };
            // What was read before may have closed it.
            if process.connection != Some(connection) {
                return;
            }
            let device = &mut process.devices[gpu];
            let (block, is_unread) = (device.page.block, std::mem::take(&mut device.unread));
            let Some(link) = self.world.links.get_mut(&connection) else {
                return;
            };
            let is_first = rang && !link.rang;
            link.rang |= rang && gpu + 1 == GPUS;
            if !is_first && (!is_unread || block == link.read[gpu]) {
                continue;
            }
            link.read[gpu] = block;
            if let Some(job) = &mut device.job {
                job.read.get_or_insert(self.world.now);
            }
            let rang = link.rang || rang;
            self.tell(Input::Block {
                connection,
                gpu,
                block,
                rang,
            });
        }
    }

    /// Lets `span` pass: timers come when they are due, unless they are late.
    pub(crate) fn pass(&mut self, span: Nanos, is_late: bool) {
        let end = self.world.now + span;
        if is_late {
            self.world.now = end;
        }
        loop {
            let due = self.engine.poll_timeout().unwrap_or(Time(u64::MAX));
            let next = due.min(self.world.nvml_due());
            if next > end {
                break;
            }
            self.world.now = self.world.now.max(next);
            self.wake();
        }
        self.world.now = end;
        self.world.note_use();
    }

    /// Hands in what is due now.
    fn wake(&mut self) {
        self.world.note_use();
        if self.world.nvml_due() <= self.world.now
            && let Some(sample) = self.world.read_nvml()
        {
            self.read_pages(false);
            self.world.note_told(&sample);
            self.tell(Input::Nvml(sample));
        }
        self.ring_timers();
    }

    /// Hands in that timers are due until none is.
    pub(crate) fn ring_timers(&mut self) {
        let is_due = |pair: &mut Self| {
            let due = pair.engine.poll_timeout();
            due.is_some_and(|due| due <= pair.world.now)
        };
        for _ in 0..100 {
            if !is_due(self) {
                return;
            }
            self.tell(Input::Timer);
        }
        panic!("timers are due for ever: {:?}", self.engine.poll_timeout());
    }
}
