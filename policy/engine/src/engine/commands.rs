//! What a scheduler commands: for a task's processes to share out, or for people to see.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rtswap_policy::scheduler::{
    Command, JobAccount, JobEnd, Overrun, Phase, Undrained, ViolationKind,
};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos};

use super::Engine;
use crate::groups::{Order, ProcessId};
use crate::ids::ConnectionId;
use crate::output::{Level, News, Output};
use crate::sessions::SessionId;

impl Engine {
    /// Carries a command out. Returns the task that has effects to drain because of it.
    pub(super) fn carry_out(&mut self, gpu: usize, command: &Command) -> Option<TaskId> {
        let task = match command {
            Command::Account(account) => {
                self.job_ended(gpu, account);
                return None;
            }
            Command::Whole { task, job } => {
                let registration = self.tasks.get(*task)?.registration;
                self.registry.get_mut(registration)?.statistics.whole(*job);
                return None;
            }
            Command::Violation { task, kind, detail } => {
                self.task_violated(gpu, *task, *kind, detail.clone());
                *task
            }
            Command::Grant { task, .. }
            | Command::Revoke { task, .. }
            | Command::Swap { task, .. }
            | Command::Abort { task, .. }
            | Command::SetBudget { task, .. }
            | Command::SetBackingStore { task, .. } => *task,
        };
        let now = self.now;
        self.tasks.group(task)?.obey(now, command);
        Some(task)
    }

    fn job_ended(&mut self, gpu: usize, account: &JobAccount) {
        let Some(registration) = self.tasks.get(account.task).map(|task| task.registration) else {
            return;
        };
        self.await_checkpoint();
        let late = account.lateness();
        if late > Nanos::ZERO && account.end == JobEnd::Completed {
            let (cause, most) = self.cause(gpu, account);
            let job = account.job.0;
            let text = format!("deadline missed by {late} in job {job}: {cause}{most}");
            self.log(self.line(Level::Warn, registration, text).gpu(gpu));
            self.announce(News::DeadlineMissed {
                task: registration,
                job: job.into(),
                lateness_us: late.0.div_ceil(1000),
                cause,
            });
        }
        if let Some(entry) = self.registry.get_mut(registration) {
            entry.statistics.account(account);
        }
        // A job that ended with its process, or its connection, may be on the GPU still.
        if account.granted.is_some() && account.end != JobEnd::TaskGone {
            self.note_drained(registration);
        }
    }

    /// Where the time of a job went, the waiting first, and why memory was short; beside that, for the
    /// log alone, which process holds most of it.
    fn cause(&self, gpu: usize, account: &JobAccount) -> (String, &str) {
        let squeezed = self.gpus[gpu].squeezed.as_ref();
        let squeezed = squeezed.filter(|(at, ..)| *at >= account.eligible);
        let short = squeezed.map(|(_, why, _)| format!("; {why}"));
        let most = squeezed.map_or("", |(.., most)| most);
        let blocker = account.blocked_by.and_then(|task| self.tasks.get(task));
        let blocker = blocker.and_then(|task| self.registry.get(task.registration));
        let behind = blocker.map(|entry| format!(" behind {}", entry.full_name()));
        let cause = format!(
            "queue {}{}, swap-out {}, swap-in {}, execution {}{}",
            account.queue,
            behind.unwrap_or_default(),
            account.swap_out,
            account.swap_in,
            account.execution,
            short.unwrap_or_default()
        );
        (cause, most)
    }

    fn task_violated(&mut self, gpu: usize, id: TaskId, kind: ViolationKind, detail: String) {
        let Some(task) = self.tasks.get(id) else {
            return;
        };
        let registration = task.registration;
        let mut detail = detail;
        if matches!(
            kind,
            ViolationKind::Undrainable | ViolationKind::SwapOverdue | ViolationKind::SwapFailed
        ) {
            let is_best_effort = self.gpus[gpu]
                .scheduler
                .state()
                .task(id)
                .is_some_and(|task| task.phase != Phase::Ready);
            let mut culprits = match kind {
                ViolationKind::SwapOverdue => task.group.moving(),
                ViolationKind::SwapFailed => Vec::new(),
                _ => task.group.running(),
            };
            // Also where an agent says that a job keeps it from swapping out, and none runs.
            if culprits.is_empty() && kind != ViolationKind::SwapOverdue {
                culprits = task.group.failed();
            }
            if is_best_effort {
                if matches!(self.gpus[gpu].config.undrained, Undrained::Kill(_)) {
                    for pid in self.kill(registration, &culprits) {
                        detail = format!("{detail}; process {pid} is killed");
                    }
                }
                detail += &self.penalize(registration, kind, &culprits);
            }
        }
        let Some(task) = self.tasks.get(id) else {
            return;
        };
        let culprits = match kind {
            ViolationKind::SwapOverdue => Some(task.group.moving()),
            ViolationKind::OverBudget => Some(task.group.beyond_budget()),
            ViolationKind::Emergency => {
                if let Some((why, most)) = self.shortage(gpu) {
                    self.gpus[gpu].squeezed = Some((self.now, why, most));
                }
                self.note_shortage(gpu);
                None
            }
            ViolationKind::Overrun => {
                if self.gpus[gpu].config.overrun == Overrun::Demote {
                    self.record_demotion(registration);
                }
                None
            }
            ViolationKind::SwapFailed
            | ViolationKind::Undrainable
            | ViolationKind::Stopped
            | ViolationKind::Backing => None,
        };
        match culprits {
            Some(culprits) => self.punish(registration, word(kind), detail, &culprits),
            None => self.violated(registration, word(kind), detail),
        }
    }

    /// Gives an order to one process. A budget is a question, which the process's page answers; for a
    /// process without a connection its present budget is confirmed here.
    pub(super) fn order(
        &mut self,
        gpu: usize,
        task: TaskId,
        process: ProcessId,
        order: Order,
    ) -> Option<Output> {
        let order = match order {
            Order::SetBackingStore { bytes } => Order::SetBackingStore {
                bytes: self.limit_store(gpu, task, process, bytes),
            },
            order => order,
        };
        let registration = self.tasks.get(task)?.registration;
        let is_alone = self.sessions.of(registration).nth(1).is_none();
        let session = self.sessions.get_mut(SessionId::new(registration, process));
        let session = session.filter(|it| it.is_connected && gpu < it.devices.len());
        let Some(session) = session else {
            if matches!(order, Order::SetBudget { .. })
                && let Some(group) = self.tasks.group(task)
            {
                let budget = group.budget_of(process);
                group.confirm_budget(process, budget);
            }
            return None;
        };
        let (connection, now) = (session.connection, self.now);
        let reader = &mut session.devices[gpu].reader;
        match order {
            Order::Grant { job } => reader.record_grant(job),
            Order::Swap {
                op,
                direction,
                target,
                credit,
            } => reader.record_swap(op, direction, now, credit > target || !is_alone),
            // What the agent does of the others shows in its block by itself.
            _ => {}
        }
        let output = Output::Order {
            connection,
            gpu,
            order,
        };
        if let Order::SetBudget { answers, .. } = order
            && answers.is_some_and(|answer| !answer.granted)
        {
            // The reason first: the program may end with the refusal.
            self.notify_refused(connection, gpu);
            self.emit(output);
            return None;
        }
        Some(output)
    }

    /// The page of a session holds this budget now.
    pub(super) fn budget_held(&mut self, connection: ConnectionId, gpu: usize, bytes: Bytes) {
        let Some(id) = self.sessions.of_connection(connection) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let device = &mut session.devices[gpu];
        let (task, doubted) = (device.task, device.reader.is_doubted());
        let group = task.and_then(|task| self.tasks.group(task));
        let bytes = group.map_or(bytes, |group| group.confirm_budget(id.process, bytes));
        let has_changed = bytes != device.held;
        device.held = bytes;
        let pid = session.peer.pid;
        self.gpus[gpu].account.record_budget(pid, bytes);
        if has_changed {
            // The next daemon believes an agent up to its last budget.
            self.await_checkpoint();
        }
        if doubted {
            // The usage may be right by this budget.
            self.look_again(id, gpu);
        }
    }
}

/// The kind of a violation as D-Bus has it.
fn word(kind: ViolationKind) -> &'static str {
    match kind {
        ViolationKind::Overrun => "overrun",
        ViolationKind::SwapOverdue => "swap-overdue",
        ViolationKind::SwapFailed => "swap-failed",
        ViolationKind::OverBudget => "over-budget",
        ViolationKind::Undrainable => "undrainable",
        ViolationKind::Stopped => "stopped",
        ViolationKind::Emergency => "emergency",
        ViolationKind::Backing => "backing",
    }
}
