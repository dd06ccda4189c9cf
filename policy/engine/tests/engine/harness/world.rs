//! All that is outside of the engine: processes, the shell's tables, clients, the state file.

use std::collections::{BTreeMap, BTreeSet};

use rtswap_engine::groups::Order;
use rtswap_engine::input::{Answer, Start};
use rtswap_engine::output::{Level, Reply, Welcome};
use rtswap_engine::rules::RuleSet;
use rtswap_engine::{CallId, ConnectionId, Output, RegistrationId};
use rtswap_policy::units::{Bytes, Time};

use super::checks::TaskJob;
use super::disk::Disk;
use super::nvml::Nvml;
use super::process::{Link, Process, Stage};
use super::setting::Setting;
use super::{CAPACITY, GPUS};

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Register {
        task: usize,
        lease: bool,
    },
    Unregister(usize),
    /// To park a task, or to resume it.
    Park,
    Policy,
    Reload,
}

/// A registration that a client made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    pub(crate) id: RegistrationId,
    pub(crate) is_leased: bool,
    /// It was leased from a daemon before.
    pub(crate) is_former: bool,
    /// When it was made or last had a process.
    pub(crate) used: Time,
}

/// All that is outside.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) setting: Setting,
    pub(crate) now: Time,
    pub(crate) processes: Vec<Process>,
    pub(crate) links: BTreeMap<ConnectionId, Link>,
    forgotten: BTreeSet<ConnectionId>,
    pub(crate) calls: BTreeMap<CallId, Request>,
    /// The registration of each task of the setting.
    pub(crate) registered: Vec<Option<Registered>>,
    /// What each task runs on each GPU.
    pub(crate) jobs: BTreeMap<(RegistrationId, usize), TaskJob>,
    /// The registrations of all that ever lied.
    pub(crate) liars: BTreeSet<RegistrationId>,
    pub(crate) nvml: Nvml,
    pub(crate) disk: Disk,
    /// What was set of the policy at run time.
    pub(crate) rules: RuleSet,
    /// What all pages and the dead may hold of each GPU: its capacity, or what they held when that fell.
    pub(crate) ceilings: [Bytes; GPUS],
    /// The next connection, call or pid.
    number: u64,
    /// The next Welcome or record fails.
    pub(crate) fails: bool,
    /// The log may have errors: a Welcome or a record has failed, or a group believes a claim with which
    /// its scheduler refuses all that it says of its memory.
    pub(crate) has_errors: bool,
}

impl World {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            registered: vec![None; setting.tasks.len()],
            disk: Disk::new(setting.number),
            rules: RuleSet::new(),
            setting,
            now: Time(1),
            processes: Vec::new(),
            links: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            calls: BTreeMap::new(),
            jobs: BTreeMap::new(),
            liars: BTreeSet::new(),
            nvml: Nvml::default(),
            ceilings: [CAPACITY; GPUS],
            number: 100,
            fails: false,
            has_errors: false,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub(crate) fn process(&mut self, pid: u32) -> Option<&mut Process> {
        self.processes.iter_mut().find(|process| process.pid == pid)
    }

    /// Notes which registrations have a process now.
    pub(crate) fn note_use(&mut self) {
        for registered in self.registered.iter_mut().flatten() {
            let ids = self.processes.iter().filter_map(|process| process.session);
            if ids.into_iter().any(|(id, _)| id == registered.id) {
                registered.used = self.now;
            }
        }
    }

    /// The daemon ends at once. Returns what the next one starts with.
    pub(crate) fn end_daemon(&mut self) -> Start {
        self.processes.iter_mut().for_each(Process::detach);
        self.links.clear();
        for request in std::mem::take(&mut self.calls).into_values() {
            // It may have ended already.
            if let Request::Unregister(task) = request {
                self.registered[task] = None;
            }
        }
        self.nvml.reading = None;
        for registered in self.registered.iter_mut().flatten() {
            registered.is_former |= core::mem::take(&mut registered.is_leased);
            registered.used = self.now;
        }
        let saved = self.disk.end_daemon();
        let mut awaited = Vec::new();
        for (place, session) in saved.sessions.iter().enumerate() {
            let pid = session.pid;
            if self.process(pid).is_some() {
                let connection = ConnectionId(self.number());
                self.links
                    .insert(connection, Link::new(pid, Stage::Awaited));
                awaited.push((connection, place));
            }
        }
        let nvml = self.sample();
        self.note_told(&nvml);
        Start {
            saved,
            awaited,
            tasks: Vec::new(),
            run_time_rules: self.rules.clone(),
            calibrations: Vec::new(),
            nvml,
        }
    }

    /// Carries an output out as the shell does, and returns the answer if it is a question.
    pub(crate) fn carry_out(&mut self, output: &Output) -> Option<Answer> {
        match output {
            Output::Order {
                connection,
                gpu,
                order,
            } => {
                let link = self.link(*connection);
                assert_eq!(link.stage, Stage::Open, "{output:?}");
                let (pid, now) = (link.pid, self.now);
                let is_grant = matches!(order, Order::Grant { .. });
                let is_beside = is_grant && self.is_beside(pid, *gpu);
                if is_grant {
                    self.note_grant(pid, *gpu);
                }
                let process = self.process(pid).expect("a dead process takes no orders");
                let held = process.obey(now, *gpu, order);
                if let Some(job) = process.devices[*gpu].job.as_mut().filter(|_| is_beside) {
                    job.is_beside = true;
                }
                return held.map(Answer::Held);
            }
            Output::Size {
                connection,
                gpu,
                question,
                bytes,
            } => {
                let pid = self.link(*connection).pid;
                let process = self.process(pid).expect("a dead process asks nothing");
                let device = &process.devices[*gpu];
                assert_eq!(device.page.block.size_question, *question);
                let said = device.page.block.usage;
                assert!(*bytes <= CAPACITY.max(said.resident + said.swapped));
            }
            Output::Welcome(welcome) => return Some(Answer::Sent(self.welcome(welcome))),
            Output::Record(record) => {
                assert!(!record.is_empty(), "an empty record");
                let kept = !self.take_failure();
                if kept {
                    self.disk.record((**record).clone());
                }
                return Some(Answer::Kept(kept));
            }
            Output::Refuse {
                connection, text, ..
            } => {
                let link = self.link(*connection);
                assert_eq!(link.stage, Stage::Hello, "{output:?}");
                let pid = link.pid;
                self.forget(*connection);
                if let Some(process) = self.process(pid) {
                    assert!(process.session.is_none(), "a session is forgotten: {text}");
                }
            }
            Output::Close(connection) => {
                let link = self.link(*connection);
                assert_eq!(link.stage, Stage::Open, "{output:?}");
                self.check_closed(*connection);
                self.lose(*connection);
            }
            Output::Forget(connection) => {
                self.link(*connection);
                self.forget(*connection);
            }
            Output::Inspect(connection) | Output::Notify { connection, .. } => {
                self.link(*connection);
            }
            Output::Kill(connection) => {
                let pid = self.link(*connection).pid;
                panic!("{pid} is killed, which no setting asks for");
            }
            Output::Answer(call, result) => {
                let request = self.calls.remove(call);
                self.answered(
                    request.expect("answers what was asked"),
                    result.as_ref().ok(),
                );
            }
            Output::Log(line) => assert!(line.level != Level::Error || self.has_errors, "{line:?}"),
            Output::KeepPolicy(rules) => self.rules = rules.clone(),
            Output::CalibrationUsed(gpu) => panic!("nobody measured {gpu}"),
            Output::HurryNvml(hurry) => self.nvml.is_hurried = *hurry,
            Output::Announce(news) => self.heard(news),
            Output::Checkpoint => {}
        }
        None
    }

    fn link(&mut self, connection: ConnectionId) -> &mut Link {
        assert!(
            !self.forgotten.contains(&connection),
            "{connection:?} is forgotten"
        );
        let link = self.links.get_mut(&connection);
        link.unwrap_or_else(|| panic!("{connection:?} was never there"))
    }

    fn forget(&mut self, connection: ConnectionId) {
        self.links.remove(&connection);
        self.forgotten.insert(connection);
        let mut processes = self.processes.iter_mut();
        if let Some(process) = processes.find(|it| it.connection == Some(connection)) {
            process.detach();
        }
    }

    /// Whether a connection has had its Welcome, and its socket has not ended.
    pub(crate) fn is_open(&self, connection: ConnectionId) -> bool {
        let link = self.links.get(&connection);
        link.is_some_and(|link| link.stage == Stage::Open)
    }

    /// The socket of a connection ends, its process lives.
    pub(crate) fn lose(&mut self, connection: ConnectionId) {
        self.link(connection).stage = Stage::Lost;
        let mut processes = self.processes.iter_mut();
        if let Some(process) = processes.find(|it| it.connection == Some(connection)) {
            process.detach();
        }
    }

    fn welcome(&mut self, welcome: &Welcome) -> bool {
        let link = self.link(welcome.connection);
        assert_eq!(link.stage, Stage::Hello, "{welcome:?}");
        let pid = link.pid;
        if self.take_failure() {
            return false;
        }
        self.link(welcome.connection).stage = Stage::Open;
        if let Some(former) = welcome.former {
            self.link(former);
            self.forget(former);
        }
        // A process that returns with memory makes its task begin anew.
        let of = (welcome.registration, 0)..(welcome.registration, GPUS);
        for (_, job) in self.jobs.range_mut(of) {
            job.overrun = None;
        }
        let process = self.process(pid).expect("a dead process is not welcomed");
        process.welcome(welcome);
        true
    }

    fn take_failure(&mut self) -> bool {
        self.has_errors |= self.fails;
        std::mem::take(&mut self.fails)
    }

    fn answered(&mut self, request: Request, reply: Option<&Reply>) {
        match (request, reply) {
            (Request::Register { task, lease }, Some(Reply::Registered(registration))) => {
                self.registered[task] = Some(Registered {
                    id: *registration,
                    is_leased: lease,
                    is_former: false,
                    used: self.now,
                });
            }
            (Request::Unregister(task), Some(_)) => self.registered[task] = None,
            (request, reply) => assert!(
                reply.is_none()
                    || matches!(request, Request::Reload | Request::Park | Request::Policy),
                "{request:?} is answered by {reply:?}"
            ),
        }
    }
}
