//! How a [`Pair`] takes a step.

use rtswap_engine::input::{Call, Caller, Hello, PolicyChange, SwapReport};
use rtswap_engine::rules::{ClassRule, Key, Rules, Scope};
use rtswap_engine::sample::HostSample;
use rtswap_engine::{CallId, ConnectionId, Input, RegistrationId};
use rtswap_policy::scheduler::{JobKind, JobSeq, SwapOutcome};
use rtswap_policy::task::Weight;
use rtswap_policy::units::{Bytes, Nanos, Ppm};

use super::device::Device;
use super::nvml::Remains;
use super::process::{Link, Process, Stage};
use super::world::Request;
use super::{Bell, CAPACITY, CHUNK, GPUS, MS, Op, Pair};

/// The lie of holding what no GPU has, once another process of the task holds anything.
pub(crate) const OVERCLAIM: u64 = 10;

impl Pair {
    /// Takes a step.
    pub(crate) fn step(&mut self, op: Op, bell: Bell) {
        match op {
            Op::Register { task, lease } => self.register(task, lease),
            Op::Unregister { task } => self.unregister(task),
            Op::Park { process } => self.park(process, true),
            Op::Resume { process } => self.park(process, false),
            Op::Rule { task, rule } => self.rule(task, rule),
            Op::EndLease { task } => self.end_lease(task),
            Op::Reload => {
                let config = self.world.setting.config();
                let tasks = Vec::new();
                self.call(Request::Reload, Call::Reload { config, tasks });
            }
            Op::Join { task } => self.join(task),
            Op::Request { process, gpu } => {
                let kind = if process % 2 == 0 {
                    JobKind::Declared
                } else {
                    JobKind::Implicit
                };
                self.act(process, gpu, bell, |device| device.request(kind));
            }
            Op::Complete { process, gpu } => self.act(process, gpu, bell, Device::complete),
            Op::Allocate {
                process,
                gpu,
                chunks,
                is_arena,
            } => self.allocate(process, gpu, chunks, is_arena, bell),
            Op::Free {
                process,
                gpu,
                chunks,
            } => self.act(process, gpu, bell, |device| device.free(chunks)),
            Op::Swap { process, gpu } => self.act(process, gpu, bell, |device| {
                device.swap() || device.follow_answer()
            }),
            Op::Pin { process, gpu, most } => {
                self.act(process, gpu, bell, |device| device.pin(Bytes(most * CHUNK)));
            }
            Op::GiveUp { process, gpu } => self.act(process, gpu, Bell::Lost, |device| {
                let want = device.want.as_mut();
                want.map(|want| want.is_void = true).is_some()
            }),
            Op::Lie { process, gpu, lie } => {
                let is_able = |it: &Process| {
                    let has_job = it.devices[gpu].job.is_some();
                    it.connection.is_some() && (has_job || lie > 4)
                };
                if let Some(at) = self.next(process, is_able) {
                    let process = &mut self.world.processes[at];
                    process.lie(gpu, lie);
                    self.world.liars.extend(process.session.map(|(id, _)| id));
                }
            }
            Op::Silence { process } => {
                if let Some(at) = self.place(process) {
                    let agent = &mut self.world.processes[at];
                    agent.is_silent = !agent.is_silent;
                }
            }
            Op::Disconnect { process } => {
                if let Some(at) = self.place(process) {
                    self.disconnect(at);
                }
            }
            Op::Return { process } => {
                if let Some(at) = self.returning(process) {
                    self.hello(at);
                }
            }
            Op::ReturnLying { process, gpu } => {
                if let Some(at) = self.returning(process) {
                    self.hello_lying(at, gpu);
                }
            }
            Op::Die { process } => {
                if let Some(at) = self.place(process) {
                    self.die(at);
                }
            }
            Op::Execute { process } => {
                if let Some(at) = self.place(process) {
                    self.execute(at);
                }
            }
            Op::Strangers { gpu, chunks } => self.world.nvml.strangers[gpu] = chunks,
            Op::Ask { process, gpu } => self.act(process, gpu, bell, Device::ask),
            Op::Host { chunks } => self.see_host(chunks),
            Op::Sweep => self.read_pages(false),
            Op::Fail => self.world.fails = true,
            Op::Pass { ms, is_late } => self.pass(Nanos(ms * MS), is_late),
        }
        if bell == Bell::Prompt {
            self.read_pages(true);
        }
        self.ring_timers();
        self.check_budgets();
        self.world.check_admitted();
    }

    /// The host has so many chunks of memory available; what 16 chunks are is kept for others.
    pub(crate) fn see_host(&mut self, chunks: u64) {
        self.tell(Input::Host(HostSample {
            looked: self.world.now,
            total: Bytes(256 * CHUNK),
            available: Bytes(chunks * CHUNK),
            stalled: Ppm(0),
            cgroups: Vec::new(),
        }));
    }

    /// The place of the process of that number; none where there is none.
    fn place(&self, process: usize) -> Option<usize> {
        process.checked_rem(self.world.processes.len())
    }

    /// The place of the next process from that number on for which `is_able` holds.
    fn next(&self, process: usize, is_able: impl Fn(&Process) -> bool) -> Option<usize> {
        let count = self.world.processes.len();
        let mut places = (0..count).map(|turn| (process + turn) % count);
        places.find(|at| is_able(&self.world.processes[*at]))
    }

    /// The place of the next process without a daemon from that number on, or of that process.
    fn returning(&self, process: usize) -> Option<usize> {
        let lost = self.next(process, |it| it.connection.is_none());
        lost.or(self.place(process))
    }

    /// Lets an agent that has a daemon do something on a GPU: that one, or the next that can.
    fn act(
        &mut self,
        process: usize,
        gpu: usize,
        bell: Bell,
        action: impl Fn(&mut Device) -> bool,
    ) {
        let count = self.world.processes.len();
        for turn in 0..count * GPUS {
            let agent = &mut self.world.processes[(process + turn) % count];
            let is_able = agent.connection.is_some() && !agent.is_silent;
            if is_able && action(&mut agent.devices[(gpu + turn / count) % GPUS]) {
                agent.bell |= bell != Bell::Lost;
                return;
            }
        }
    }

    fn allocate(&mut self, process: usize, gpu: usize, chunks: u64, is_arena: bool, bell: Bell) {
        let Some(at) = self.place(process) else {
            return;
        };
        let agent = &self.world.processes[at];
        let same = |other: &&Process| {
            let one = other.pid == agent.pid;
            one || agent.task.is_some() && (other.task, other.uid) == (agent.task, agent.uid)
        };
        let group = self.world.processes.iter().filter(same);
        let wanted: Bytes = group.map(|it| it.devices[gpu].wanted()).sum();
        let setting = &self.world.setting;
        let task = agent.task.map(|task| setting.tasks[task]);
        let most = match task {
            Some(task) if task.gpu.is_none_or(|home| home == gpu) => task.chunks,
            Some(_) => 1,
            None => setting.own_chunks,
        };
        let fixed = |it: &Process| {
            let usage = it.devices[gpu].usage;
            usage.resident + usage.swapped - usage.arena
        };
        let all: Bytes = self.world.processes.iter().map(fixed).sum();
        let is_arena = is_arena || all > Bytes(CHUNK);
        let agent = &mut self.world.processes[at];
        let is_able = agent.connection.is_some() && !agent.is_silent;
        if is_able && wanted + Bytes(chunks * CHUNK) <= Bytes(most * CHUNK) {
            agent.devices[gpu].allocate(chunks, is_arena);
            agent.bell |= bell != Bell::Lost;
        }
    }

    fn call(&mut self, request: Request, call: Call) {
        let id = CallId(self.world.number());
        self.world.calls.insert(id, request);
        self.tell(Input::Call(id, Box::new(call)));
        assert!(self.world.calls.is_empty(), "{request:?} is not answered");
    }

    pub(crate) fn register(&mut self, task: usize, lease: bool) {
        self.check_registered(task);
        if self.world.registered[task].is_some() {
            return;
        }
        let options = self.world.setting.options(task);
        let caller = Caller {
            uid: self.world.setting.tasks[task].uid,
            privileged: true,
        };
        let call = Call::Register {
            caller,
            options,
            claimant: None,
            lease,
        };
        self.call(Request::Register { task, lease }, call);
    }

    fn unregister(&mut self, task: usize) {
        self.check_registered(task);
        if let Some(registered) = self.world.registered[task] {
            let registration = registered.id;
            let caller = Caller {
                uid: self.world.setting.tasks[task].uid,
                privileged: false,
            };
            let call = Call::Unregister {
                caller,
                registration,
            };
            self.call(Request::Unregister(task), call);
        }
    }

    fn park(&mut self, process: usize, is_parked: bool) {
        let process = self.place(process).map(|at| &self.world.processes[at]);
        let registration = process.and_then(|it| it.session);
        if let Some((registration, _)) = registration {
            self.set_parked(registration, is_parked);
        }
    }

    pub(crate) fn set_parked(&mut self, registration: RegistrationId, is_parked: bool) {
        let caller = Caller {
            uid: 0,
            privileged: true,
        };
        let call = if is_parked {
            Call::Park {
                caller,
                registration,
            }
        } else {
            Call::Resume {
                caller,
                registration,
            }
        };
        self.call(Request::Park, call);
    }

    /// Sets one of the rules of a task, or takes it back.
    fn rule(&mut self, task: usize, rule: u64) {
        let setting = self.world.setting.tasks[task];
        let key = Key::ALL[rule as usize % 5];
        let strict = (rule / 8).is_multiple_of(2);
        let chunks = if strict {
            setting.chunks / 2
        } else {
            setting.chunks
        };
        let memory = Some(Bytes(chunks * CHUNK));
        let set = match key {
            _ if rule / 16 == 3 => Rules::default(),
            Key::Class => Rules {
                class: Some(if strict {
                    ClassRule::BestEffort
                } else {
                    ClassRule::Declared
                }),
                ..Rules::default()
            },
            Key::Deadline => Rules {
                deadline: Some(Nanos(if strict { 60 * MS } else { 190 * MS })),
                ..Rules::default()
            },
            Key::Weight => Rules {
                weight: Weight::new(if strict { 10 } else { 1_000 }),
                ..Rules::default()
            },
            Key::GpuMemory => Rules {
                gpu_memory: memory,
                ..Rules::default()
            },
            _ => Rules {
                pinned_memory: memory,
                ..Rules::default()
            },
        };
        let change = PolicyChange {
            scope: Scope::Task {
                uid: setting.uid,
                name: setting.name.into(),
            },
            set,
            unset: if set.is_empty() {
                vec![key]
            } else {
                Vec::new()
            },
        };
        let caller = Caller {
            uid: 0,
            privileged: true,
        };
        self.call(Request::Policy, Call::SetPolicy { caller, change });
    }

    fn end_lease(&mut self, task: usize) {
        let registered = &mut self.world.registered[task];
        if let Some(leased) = registered.take_if(|it| it.is_leased) {
            self.tell(Input::LeaseEnded(leased.id));
        }
    }

    pub(crate) fn join(&mut self, task: Option<usize>) {
        let tasks = &self.world.setting.tasks;
        let named = task.map(|task| tasks[task].uid);
        let group = self.world.processes.iter().filter(|it| it.task == task);
        if group.count() >= 4 || self.world.processes.len() >= 12 {
            return;
        }
        let pid = self.world.number() as u32;
        // Not all of one user, which may be barred.
        let uid = named.unwrap_or(pid % 16);
        self.world.processes.push(Process::new(pid, uid, task));
        self.hello(self.world.processes.len() - 1);
        // It comes again later where there is no room for it.
    }

    pub(crate) fn hello(&mut self, at: usize) {
        self.hello_with(at, |_| {});
    }

    /// Says Hello with a larger arena on a GPU than all that the process has there.
    fn hello_lying(&mut self, at: usize, gpu: usize) {
        let session = self.world.processes[at].session;
        self.world.liars.extend(session.map(|(id, _)| id));
        self.hello_with(at, |hello| {
            let usage = &mut hello.devices[gpu].usage;
            usage.arena = usage.resident + usage.swapped + Bytes(1);
        });
    }

    fn hello_with(&mut self, at: usize, change: impl FnOnce(&mut Hello)) {
        let connection = ConnectionId(self.world.number());
        let process = &mut self.world.processes[at];
        let left = process.connection;
        process.detach();
        let name = process
            .task
            .map(|task| self.world.setting.tasks[task].name.to_owned());
        let mut hello = process.hello(connection, name);
        change(&mut hello);
        self.world
            .links
            .insert(connection, Link::new(process.pid, Stage::Hello));
        self.tell(Input::Hello(Box::new(hello)));
        // The end of the socket that it left comes after.
        if let Some(left) = left.filter(|left| self.world.is_open(*left)) {
            self.world.lose(left);
            self.tell(Input::Disconnected(left));
        }
    }

    fn disconnect(&mut self, at: usize) {
        if let Some(connection) = self.world.processes[at].connection {
            self.world.lose(connection);
            self.tell(Input::Disconnected(connection));
        }
    }

    pub(crate) fn die(&mut self, at: usize) {
        let process = self.world.processes.remove(at);
        let until = self.world.now + Nanos(u64::from(process.pid) % 5 * 40 * MS);
        self.world.nvml.dead.push(Remains {
            pid: process.pid,
            bytes: [0, 1].map(|gpu| process.devices[gpu].usage.resident),
            session: process.session,
            until,
        });
        let links = self.world.links.iter();
        let links = links.filter(|(_, link)| link.pid == process.pid);
        for connection in links.map(|(id, _)| *id).collect::<Vec<_>>() {
            if self.world.links.contains_key(&connection) {
                self.tell(Input::ProcessEnded(connection));
            }
        }
    }

    fn execute(&mut self, at: usize) {
        self.disconnect(at);
        let process = &mut self.world.processes[at];
        let (pid, uid, task) = (process.pid, process.uid, process.task);
        *process = Process::new(pid, uid, task);
        self.hello(at);
    }
}

impl Process {
    /// Writes into its page what is not so.
    fn lie(&mut self, gpu: usize, lie: u64) {
        self.is_boaster = lie == OVERCLAIM && self.is_boaster >= self.is_liar;
        self.is_liar = true;
        self.bell = true;
        let device = &mut self.devices[gpu];
        device.unread = true;
        if let Some(swap) = device.page.swap.filter(|_| device.op.is_some() && lie < 2) {
            // Ended, though nothing may have moved.
            let (op, outcome) = (swap.op, SwapOutcome::Done);
            let (took, moved) = (Nanos(MS), Bytes::ZERO);
            device.page.block.swap = Some(SwapReport {
                op,
                outcome,
                took,
                moved,
            });
            return;
        }
        let block = &mut device.page.block;
        match lie {
            0..4 => {
                if let Some(jobs) = &mut block.jobs {
                    jobs.requested = JobSeq(jobs.requested.0 + 7);
                }
            }
            4 => {
                if let Some(jobs) = &mut block.jobs {
                    jobs.completed = jobs.requested;
                }
            }
            5 => block.usage.resident += CAPACITY,
            6 => block.usage.arena = block.usage.resident + block.usage.swapped + Bytes(1),
            7 => block.usage.swapped += Bytes(CHUNK / 2),
            OVERCLAIM => block.usage.resident = Bytes(1 << 50),
            8 => block.backing = (block.backing.0 + 1, Bytes::ZERO),
            _ => {
                block.usage.resident = Bytes::ZERO;
                block.usage.arena = block.usage.swapped;
            }
        }
    }
}
