//! The decisions. This file is the public interface and the state that the modules below share.
//!
//! - `agenda`: pending work; `work`: the loop between schedulers and process groups;
//! - `commands` (scheduler to processes) and `reports` (processes to scheduler);
//! - `hello`, `welcome`, `ends`, `calls`, `reload`, `start`: sessions and registrations begin, change and
//!   end; `tasks` and `places`: their tasks and the GPUs of these;
//! - `calibrations`: what was measured on the GPUs; `rules`: the policy, and `caps` on memory;
//! - `sizes`: what programs are told that they may have, and what is refused; `needs`: the sums that this takes;
//!   `host`: the machine's memory, and what gives way where it is short;
//! - `gpus`, `memory`, `probed`: what NVML, the probes and the agents report of memory;
//! - `enforce`: violations, and `penalties` for owners; `stopped`: processes that stand still;
//!   `notices`: what programs are told; `journal`: what the next daemon needs.

mod agenda;
mod calibrations;
mod calls;
mod caps;
mod cgroups;
mod commands;
mod ends;
mod enforce;
mod gpus;
mod hello;
mod host;
mod journal;
mod lost;
mod memory;
mod needs;
mod notices;
mod penalties;
mod places;
mod probed;
mod reload;
mod reports;
mod rules;
mod seen;
mod sizes;
mod start;
mod stopped;
mod tasks;
#[cfg(test)]
mod tests;
mod welcome;
mod work;

pub(crate) use gpus::{Gpu, Planned};
pub(crate) use memory::Nvml;
pub(crate) use penalties::Penalties;
pub(crate) use probed::{Probes, gpu_of};
pub(crate) use start::Recovery;
pub(crate) use tasks::{Task, Tasks};

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::Event;
use rtswap_policy::task::Class;
use rtswap_policy::units::Time;

use crate::config::Config;
use crate::groups::Order;
use crate::ids::{ConnectionId, RegistrationId};
use crate::input::{Answer, Input};
use crate::output::{Level, LogLine, News, Output};
use crate::owners::{Owner, Subordinates};
use crate::registry::Registry;
use crate::rules::{Policy, RuleSet};
use crate::sessions::{SessionId, Sessions};
use crate::timers::{Timer, Timers};
use agenda::{Chore, Work};
use calibrations::Calibrations;
use cgroups::Cgroups;
use host::Host;
use journal::Unrecorded;
use needs::Needs;
use welcome::Arrival;

/// All that the daemon decides.
///
/// [`Self::handle`] stores an input; [`Self::poll_output`] processes it. Hand in the next input only after
/// that has returned `None`; the answer to an output that is a question is the exception, and takes effect
/// at once.
#[derive(Debug)]
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) now: Time,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) tasks: Tasks,
    pub(crate) registry: Registry,
    pub(crate) sessions: Sessions,
    pub(crate) recovery: Recovery,
    pub(crate) nvml: Nvml,
    pub(crate) probes: Probes,
    pub(crate) timers: Timers,
    pub(crate) unrecorded: Unrecorded,
    pub(crate) penalties: Penalties,
    pub(crate) policy: Policy,
    needs: Needs,
    pub(crate) host: Host,
    cgroups: Cgroups,
    calibrations: Calibrations,
    /// Sessions with a process that was stopped when it was inspected last.
    pub(crate) stopped: BTreeSet<SessionId>,
    desk: Desk,
}

/// What is under way between two calls of the engine.
#[derive(Debug, Default)]
struct Desk {
    input: Option<Input>,
    outputs: VecDeque<Output>,
    /// The output that was given last and waits for its answer.
    question: Option<Question>,
    /// The Hello that is being answered: its Welcome is not sent yet.
    arrival: Option<Arrival>,
    /// What follows once no GPU has work.
    chores: VecDeque<Chore>,
    /// The status may have changed since it was asked for last.
    is_changed: bool,
}

/// The answer that the engine expects before it gives the next output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// Asked by `Order::SetBudget` to the block of the GPU on the page of the connection.
    Held(ConnectionId, usize),
    Sent,
    Kept,
}

impl Question {
    fn of(output: &Output) -> Option<Self> {
        match output {
            Output::Order {
                connection,
                gpu,
                order: Order::SetBudget { .. },
            } => Some(Self::Held(*connection, *gpu)),
            Output::Welcome(_) => Some(Self::Sent),
            Output::Record(_) => Some(Self::Kept),
            _ => None,
        }
    }
}

impl Engine {
    /// An engine that knows nothing yet. Its first input is [`Input::Start`].
    pub fn new(config: Config) -> Self {
        Self {
            registry: Registry::new(0, Subordinates::default()),
            policy: Policy {
                run_time: RuleSet::new(),
                file: config.rules.clone(),
                base: config.everybody,
            },
            config,
            now: Time::ZERO,
            gpus: Vec::new(),
            tasks: Tasks::default(),
            sessions: Sessions::default(),
            recovery: Recovery::default(),
            nvml: Nvml::default(),
            probes: Probes::default(),
            timers: Timers::default(),
            unrecorded: Unrecorded::default(),
            penalties: Penalties::default(),
            needs: Needs::default(),
            host: Host::default(),
            cgroups: Cgroups::default(),
            calibrations: Calibrations::default(),
            stopped: BTreeSet::new(),
            desk: Desk::default(),
        }
    }

    /// Takes in what happened at `now`. Time never goes back: an earlier `now` counts as the latest.
    ///
    /// # Panics
    ///
    /// If outputs of the last input are left, or if a question is open and `input` is no answer to it:
    /// either is a defect of the shell.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.now = self.now.max(now);
        let Some(question) = self.desk.question.take() else {
            assert!(
                self.desk.input.is_none() && self.desk.outputs.is_empty(),
                "an input is handed in before the outputs of the last one are taken"
            );
            self.desk.input = Some(input);
            return;
        };
        match input {
            Input::Answer(answer) => self.answered(question, answer),
            _ => panic!("not answered: {question:?}"),
        }
    }

    /// The next output, to be carried out before this is called again; `None` once there is
    /// nothing left to do.
    ///
    /// # Panics
    ///
    /// If the output before was a question that is not answered.
    pub fn poll_output(&mut self) -> Option<Output> {
        assert!(
            self.desk.question.is_none(),
            "a question is not answered: {:?}",
            self.desk.question
        );
        let output = self.next_output()?;
        self.desk.question = Question::of(&output);
        Some(output)
    }

    fn next_output(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.desk.outputs.pop_front() {
                return Some(output);
            }
            if let Some(gpu) = self.busy_gpu() {
                if let Some(order) = self.work_on(gpu) {
                    return Some(order);
                }
            } else if let Some(chore) = self.desk.chores.pop_front() {
                self.do_chore(chore);
            } else if let Some(input) = self.desk.input.take() {
                self.take_input(input);
            } else if !self.use_calibrations() && !self.emit_record() {
                return None;
            }
        }
    }

    /// When [`Input::Timer`] is wanted next.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let gpus = self.gpus.iter_mut();
        let schedulers = gpus.filter_map(|gpu| gpu.scheduler.poll_timeout());
        schedulers.chain(self.timers.next()).min()
    }

    /// Whether the status may have changed since this was called last.
    pub fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.desk.is_changed)
    }

    /// The owner that pays for the work of taking a best-effort connection's requests. None for a task that is
    /// scheduled as realtime, and for root on the host, which is not limited.
    pub fn payer(&self, connection: ConnectionId) -> Option<&Owner> {
        let id = self.sessions.of_connection(connection)?;
        let entry = self.registry.get(id.registration);
        let class = entry.map_or(Class::BestEffort, |entry| self.scheduled_class(entry));
        let session = self.sessions.get(id)?;
        let pays = class == Class::BestEffort && session.owner != Owner::User(0);
        pays.then_some(&session.owner)
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Start(start) => self.start(*start),
            Input::Hello(hello) => self.greet(hello),
            Input::Block {
                connection,
                gpu,
                block,
                rang,
            } => self.take_block(connection, gpu, &block, rang),
            Input::Disconnected(connection) => self.disconnected(connection),
            Input::ProcessEnded(connection) => self.connection_died(connection),
            Input::Inspected {
                connection,
                is_stopped,
            } => self.inspected(connection, is_stopped),
            Input::LeaseEnded(registration) => self.end_registration(registration),
            Input::Call(id, call) => self.call(id, *call),
            Input::Nvml(sample) => self.take_sample(sample),
            Input::Probes(sample) => self.take_probed(sample),
            Input::Host(sample) => self.take_host(sample),
            Input::Timer => self.take_timers(),
            // An answer that nothing waits for is ignored.
            Input::Answer(_) => {}
        }
    }

    fn answered(&mut self, question: Question, answer: Answer) {
        match (question, answer) {
            (Question::Held(connection, gpu), Answer::Held(bytes)) => {
                self.budget_held(connection, gpu, bytes);
            }
            (Question::Sent, Answer::Sent(sent)) => self.welcomed(sent),
            (Question::Kept, Answer::Kept(true)) => {}
            // The shell logs why. The next checkpoint has what the record would have said.
            (Question::Kept, Answer::Kept(false)) => self.await_checkpoint(),
            (question, answer) => panic!("{answer:?} does not answer {question:?}"),
        }
    }

    fn take_timers(&mut self) {
        for gpu in 0..self.gpus.len() {
            let at = self.gpus[gpu].scheduler.poll_timeout();
            if at.is_some_and(|at| at <= self.now) {
                self.tell(gpu, Event::Timer);
            }
        }
        while let Some(timer) = self.timers.pop(self.now) {
            match timer {
                Timer::Group(gpu, task) => self.queue(gpu, Work::Tick(task)),
                Timer::Doubt(session, gpu) => self.look_again(session, gpu),
                Timer::Reserved(session, gpu) => self.end_reservation(session, gpu),
                Timer::Lost(session) => self.has_not_returned(session),
                Timer::Claim(registration) => self.claim_expired(registration),
                Timer::Grace => self.graces_over(),
                Timer::Recovery => self.recovery_over(),
                Timer::NvmlLate => self.nvml_hangs(),
                Timer::Checkpoint => self.checkpoint(),
            }
        }
    }

    /// Hands an event of the daemon's own to a scheduler. Its commands are carried out when their turn
    /// comes.
    pub(crate) fn tell(&mut self, gpu: usize, event: Event) {
        self.desk.is_changed = true;
        if let Err(error) = self.gpus[gpu].tell(self.now, event) {
            self.log_own_refusal(gpu, &error);
        }
    }

    pub(crate) fn emit(&mut self, output: Output) {
        self.desk.outputs.push_back(output);
    }

    pub(crate) fn log(&mut self, line: LogLine) {
        self.emit(Output::Log(Box::new(line)));
    }

    /// A log line about the task of a registration.
    fn line(&self, level: Level, id: RegistrationId, text: impl Into<String>) -> LogLine {
        let uid = self.registry.get(id).map(|entry| entry.uid);
        let line = LogLine::new(level, text).user(uid);
        line.task(self.registration_name(id))
    }

    pub(crate) fn announce(&mut self, news: News) {
        self.emit(Output::Announce(Box::new(news)));
    }

    pub(crate) fn note_change(&mut self) {
        self.desk.is_changed = true;
    }
}
