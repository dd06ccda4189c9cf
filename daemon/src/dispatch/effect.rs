//! Commands → effects, and what the scheduler must hear back.

use rtswap_policy::scheduler::{Command, Direction, JobAccount, JobEnd, Overrun, ViolationKind};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};
use rtswap_wire::page::{self, SwapRequest};

use super::{Dispatcher, News};
use crate::members::MemberId;
use crate::registry::RegistrationId;
use crate::sys::page::wake;

impl Dispatcher {
    /// Does what a scheduler wants. What its task's processes are to do is for them to share out.
    pub(super) fn carry_out(&mut self, now: Time, command: &Command) -> Option<TaskId> {
        match *command {
            Command::Grant { task, .. }
            | Command::Revoke { task, .. }
            | Command::Swap { task, .. }
            | Command::Abort { task, .. }
            | Command::SetBudget { task, .. }
            | Command::SetVolume { task, .. } => {
                self.members(task)?.obey(now, command);
                return Some(task);
            }
            Command::Account(account) => {
                let place = self.places.get(&account.task)?;
                let (registration, gpu) = (place.registration, place.gpu);
                self.stale_since.get_or_insert(now);
                let late = account.lateness();
                if late > Nanos::ZERO && account.end == JobEnd::Completed {
                    let blocker = account.blocked_by.and_then(|task| self.name_of(task));
                    let squeezed = self.gpus[gpu].squeezed.as_ref();
                    let squeezed = squeezed.filter(|(at, _)| *at >= account.eligible);
                    let short = squeezed.map(|(_, why)| why.as_str());
                    tracing::warn!(
                        task = self.name_of(account.task),
                        job = account.job.0,
                        %late,
                        queue = %account.queue,
                        swap_out = %account.swap_out,
                        swap_in = %account.swap_in,
                        execution = %account.execution,
                        blocked_by = blocker,
                        short,
                        "deadline missed"
                    );
                    let cause = cause(&account, blocker, short);
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
            Command::Violation {
                task,
                kind,
                ref detail,
            } => {
                let place = self.places.get(&task)?;
                let (registration, detail) = (place.registration, detail.clone());
                match kind {
                    ViolationKind::SwapOverdue => {
                        let culprits = place.members.moving();
                        self.sentence(registration, word(kind), detail, &culprits);
                    }
                    ViolationKind::OverBudget => {
                        let culprits = place.members.beyond_budget();
                        self.sentence(registration, word(kind), detail, &culprits);
                    }
                    ViolationKind::Emergency => {
                        let gpu = place.gpu;
                        if let Some(why) = self.others(gpu) {
                            self.gpus[gpu].squeezed = Some((now, why));
                        }
                        self.violated(registration, word(kind), detail);
                    }
                    ViolationKind::Overrun => {
                        if self.gpus[place.gpu].config.overrun == Overrun::Demote
                            && let Some(entry) = self.registry.get_mut(registration)
                        {
                            entry.demoted = true;
                            self.unsaved = true;
                        }
                        self.violated(registration, word(kind), detail);
                    }
                    ViolationKind::Undrainable | ViolationKind::Backing => {
                        self.violated(registration, word(kind), detail);
                    }
                }
                self.members(task)?.obey(now, command);
                return Some(task);
            }
        }
        None
    }

    /// Writes what one process is to do into its page. A budget is answered: what it is now.
    pub(super) fn tell_agent(
        &mut self,
        gpu: usize,
        task: TaskId,
        member: MemberId,
        now: Time,
        command: &Command,
    ) -> Option<Bytes> {
        let registration = self.places.get(&task)?.registration;
        let session = self.sessions.get_mut(&(registration, member))?;
        if !session.is_connected() || gpu >= session.devices.len() {
            return None;
        }
        match *command {
            Command::Grant { job, .. } => {
                session.devices[gpu].view.granted(job);
                let daemon = &session.block(gpu).daemon;
                daemon.grant(job.0);
                wake(daemon.grant_word());
            }
            Command::Revoke { job, .. } => {
                session.devices[gpu].view.revoked(job);
                session.block(gpu).daemon.revoke(job.0);
                session.ring(gpu, Direction::In, now);
            }
            Command::Swap {
                op,
                direction,
                target,
                ..
            } => {
                let members = &self.places.get(&task)?.members;
                let credit = match direction {
                    Direction::Out => target,
                    Direction::In => members.credit(member, members.budget_of(member)),
                };
                session.devices[gpu].view.began(op, direction);
                let request = SwapRequest {
                    seq: op.0,
                    direction: match direction {
                        Direction::Out => page::Direction::Out,
                        Direction::In => page::Direction::In,
                    },
                    target_bytes: target.0,
                };
                session.block(gpu).daemon.request_swap(request, credit.0);
                session.ring(gpu, direction, now);
            }
            Command::Abort { op, .. } => {
                let (block, device) = session.block_and_device(gpu);
                let swapped = block.daemon.abort_swap(&block.agent, op.0);
                device.view.told(Bytes(swapped));
                session.ring(gpu, Direction::In, now);
            }
            Command::SetBudget { bytes, answers, .. } => {
                let pid = session.peer.pid;
                let (block, device) = session.block_and_device(gpu);
                let holds = block.daemon.set_budget(&block.agent, bytes.0);
                if let Some(answer) = answers {
                    block.daemon.answer_want(answer.want.0, answer.granted);
                    wake(block.daemon.budget_word());
                }
                self.gpus[gpu].account.is_granted(pid, Bytes(holds));
                if device.view.moving() == Some(Direction::In) {
                    let members = &self.places.get(&task)?.members;
                    let credit = members.credit(member, Bytes(holds));
                    if credit.0 < block.daemon.credit_bytes() {
                        let swapped = block.daemon.set_credit(&block.agent, credit.0);
                        device.view.told(Bytes(swapped));
                        session.ring(gpu, Direction::In, now);
                    }
                }
                return Some(Bytes(holds));
            }
            Command::SetVolume { bytes, .. } => {
                session.block(gpu).daemon.set_volume(bytes.0);
                session.ring(gpu, Direction::In, now);
            }
            // These are for no agent.
            Command::Account(_) | Command::Violation { .. } => {}
        }
        None
    }

    /// Tells whoever listens.
    pub(super) fn tell(&self, news: News) {
        // Nobody may.
        let _ = self.news.send(news);
    }

    fn name_of(&self, task: TaskId) -> Option<&str> {
        let registration = self.places.get(&task)?.registration;
        self.registration_name(registration)
    }

    pub(super) fn registration_name(&self, id: RegistrationId) -> Option<&str> {
        Some(self.registry.get(id)?.name.as_str())
    }
}

/// Where the time of a job went, the waiting first, and why memory was short.
fn cause(account: &JobAccount, blocker: Option<&str>, short: Option<&str>) -> String {
    let short = short.map(|short| format!("; {short}"));
    let behind = blocker.map(|name| format!(" behind {name}"));
    format!(
        "queue {}{}, swap-out {}, swap-in {}, execution {}{}",
        account.queue,
        behind.unwrap_or_default(),
        account.swap_out,
        account.swap_in,
        account.execution,
        short.unwrap_or_default()
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
