//! Commands → effects, and what the scheduler must hear back.

use rtswap_policy::scheduler::{Command, Direction, JobAccount, JobEnd, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::page::{self, SwapRequest};

use super::{Dispatcher, News};
use crate::agent::session::Session;
use crate::registry::RegistrationId;
use crate::sys::page::wake;

impl Dispatcher {
    /// Does what the scheduler of `gpu` wants. What must be answered at once is a budget: whose,
    /// and what it is now.
    pub(super) fn carry_out(
        &mut self,
        gpu: usize,
        now: Time,
        command: Command,
    ) -> Option<(TaskId, Bytes)> {
        match command {
            Command::Admitted { task, volume } => {
                self.verdicts.insert(task, Ok(volume));
            }
            Command::Refused { task, reason } => {
                self.verdicts.insert(task, Err(reason));
            }
            Command::Grant { task, job } => {
                let session = self.session_of(task, gpu)?;
                session.devices[gpu].view.granted(job);
                let daemon = &session.block(gpu).daemon;
                daemon.grant(job.0);
                wake(daemon.grant_word());
            }
            Command::Revoke { task, job } => {
                let session = self.session_of(task, gpu)?;
                session.devices[gpu].view.revoked(job);
                session.block(gpu).daemon.revoke(job.0);
                session.ring(gpu, Direction::In, now);
            }
            Command::Swap {
                task,
                op,
                direction,
                target,
            } => {
                let session = self.session_of(task, gpu)?;
                session.devices[gpu].view.began(op, direction);
                let request = SwapRequest {
                    seq: op.0,
                    direction: match direction {
                        Direction::Out => page::Direction::Out,
                        Direction::In => page::Direction::In,
                    },
                    target_bytes: target.0,
                };
                session.block(gpu).daemon.request_swap(request, target.0);
                session.ring(gpu, direction, now);
            }
            Command::Abort { task, op } => {
                let session = self.session_of(task, gpu)?;
                session.devices[gpu].view.aborted();
                session.block(gpu).daemon.abort_swap(op.0);
                session.ring(gpu, Direction::In, now);
            }
            Command::SetBudget {
                task,
                bytes,
                answers,
            } => {
                let session = self.session_of(task, gpu)?;
                let (pid, block) = (session.peer.pid, session.block(gpu));
                let holds = block.daemon.set_budget(&block.agent, bytes.0);
                if let Some(answer) = answers {
                    block.daemon.answer_want(answer.want.0, answer.granted);
                    wake(block.daemon.budget_word());
                }
                self.gpus[gpu].account.is_granted(pid, Bytes(holds));
                return Some((task, Bytes(holds)));
            }
            Command::SetVolume { task, bytes } => {
                let session = self.session_of(task, gpu)?;
                session.block(gpu).daemon.set_volume(bytes.0);
                session.ring(gpu, Direction::In, now);
            }
            Command::Account(account) => {
                let registration = self.places.get(&account.task)?.registration;
                self.stale_since.get_or_insert(now);
                let late = account.lateness();
                if late > Nanos::ZERO && account.end == JobEnd::Completed {
                    let blocker = account.blocked_by.and_then(|task| self.name_of(task));
                    tracing::warn!(
                        task = self.name_of(account.task),
                        job = account.job.0,
                        %late,
                        queue = %account.queue,
                        swap_out = %account.swap_out,
                        swap_in = %account.swap_in,
                        execution = %account.execution,
                        blocked_by = blocker,
                        "deadline missed"
                    );
                    let cause = cause(&account, blocker);
                    self.tell(News::DeadlineMissed {
                        task: registration,
                        job: account.job.0.into(),
                        lateness_us: late.0.div_ceil(1000),
                        cause,
                    });
                }
                let statistics = self.statistics.entry(registration).or_default();
                statistics.account(&account);
            }
            Command::Violation { task, kind, detail } => {
                let registration = self.places.get(&task)?.registration;
                tracing::warn!(task = self.name_of(task), ?kind, "violation: {detail}");
                self.statistics.entry(registration).or_default().violations += 1;
                self.tell(News::Violation {
                    task: registration,
                    kind: word(kind),
                    detail,
                });
            }
        }
        None
    }

    /// Tells whoever listens.
    pub(super) fn tell(&self, news: News) {
        // Nobody may.
        let _ = self.news.send(news);
    }

    /// The session of a task's agent, if it can be talked to and its page has the GPU.
    fn session_of(&mut self, task: TaskId, gpu: usize) -> Option<&mut Session> {
        let registration = self.places.get(&task)?.registration;
        let session = self.sessions.get_mut(&registration)?;
        (session.is_connected() && gpu < session.devices.len()).then_some(session)
    }

    fn name_of(&self, task: TaskId) -> Option<&str> {
        let registration = self.places.get(&task)?.registration;
        self.registration_name(registration)
    }

    pub(super) fn registration_name(&self, id: RegistrationId) -> Option<&str> {
        Some(self.registry.get(id)?.name.as_str())
    }
}

/// Where the time of a job went, the waiting first.
fn cause(account: &JobAccount, blocker: Option<&str>) -> String {
    let behind = blocker.map(|name| format!(" behind {name}"));
    format!(
        "queue {}{}, swap-out {}, swap-in {}, execution {}",
        account.queue,
        behind.unwrap_or_default(),
        account.swap_out,
        account.swap_in,
        account.execution
    )
}

/// A violation's kind as D-Bus has it.
fn word(kind: ViolationKind) -> &'static str {
    match kind {
        ViolationKind::Overrun => "overrun",
        ViolationKind::SwapOverdue => "swap-overdue",
        ViolationKind::OverBudget => "over-budget",
        ViolationKind::Undrainable => "undrainable",
        ViolationKind::Emergency => "emergency",
        ViolationKind::Backing => "backing",
    }
}
