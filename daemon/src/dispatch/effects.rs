//! Carries out the engine's outputs.

use std::os::fd::OwnedFd;

use rtswap_dbus::Error;
use rtswap_engine::groups::Order;
use rtswap_engine::input::{Answer, Input};
use rtswap_engine::output::{Output, RefusalCode, Reply, Welcome};
use rtswap_engine::{CallError, CallId, ConnectionId};
use rtswap_policy::units::{Bytes, Time};
use rtswap_wire::hello::ReplyCode;
use rustix::io;

use super::Dispatcher;
use super::calls::{OpenCall, error_of};
use super::token::Token;
use crate::agent::connection::{Connection, bell_thread};
use crate::agent::listener::{Pending, refuse};
use crate::agent::writer;
use crate::log;
use crate::sys::poll::Watch;

impl Dispatcher {
    /// Carries out all outputs of the engine, in their order. A question is answered before the next
    /// output is polled.
    pub(super) fn carry_out(&mut self, now: Time) {
        while let Some(output) = self.engine.poll_output() {
            tracing::trace!(?output);
            if let Some(answer) = self.carry_out_one(output, now) {
                tracing::trace!(?answer);
                self.engine.handle(now, Input::Answer(answer));
            }
        }
    }

    /// Carries out one output. Returns the answer, if it is a question.
    fn carry_out_one(&mut self, output: Output, now: Time) -> Option<Answer> {
        match output {
            Output::Order {
                connection,
                gpu,
                order,
            } => {
                let held = self.order(connection, gpu, &order, now)?;
                return Some(Answer::Held(held));
            }
            Output::Size {
                connection,
                gpu,
                question,
                bytes,
            } => {
                if let Some(connection) = self.agents.connections.get_mut(&connection) {
                    connection.answer_size(gpu, question, bytes);
                }
            }
            Output::Welcome(welcome) => return Some(Answer::Sent(self.welcome(&welcome))),
            Output::Record(record) => return Some(Answer::Kept(self.keeper.record(&record))),
            Output::Refuse {
                connection,
                code,
                text,
            } => self.refuse(connection, code, &text),
            Output::Close(connection) => self.close(connection),
            Output::Forget(connection) => self.forget(connection),
            Output::Kill(connection) => self.kill(connection),
            Output::Inspect(connection) => self.agents.inspections.push(connection),
            Output::Notify { connection, text } => {
                if let Some(connection) = self.agents.connections.get(&connection) {
                    connection.notify(&text);
                }
            }
            Output::Answer(call, result) => self.answer(call, result, now),
            Output::Checkpoint => self.keeper.checkpoint(self.engine.saved()),
            Output::Announce(news) => self.publisher.announce(*news),
            Output::Log(line) => log::write(&line),
            // Nobody is on the GPU, and no deadline waits for the disk.
            Output::CalibrationUsed(gpu) => self.calibrations.promote(gpu),
            Output::KeepPolicy(rules) => self.run_time_rules.keep(&rules),
            Output::HurryNvml(hurry) => self.nvml.hurry(hurry),
        }
        None
    }

    /// Writes an order. Returns the budget in effect, if the order sets one.
    fn order(&mut self, id: ConnectionId, gpu: usize, order: &Order, now: Time) -> Option<Bytes> {
        let agents = &mut self.agents;
        let connection = agents.connections.get_mut(&id);
        let held = connection.and_then(|it| it.write(gpu, order, now, &mut agents.bells));
        match order {
            // For an agent that is gone, the ordered budget counts.
            Order::SetBudget { bytes, .. } => Some(held.unwrap_or(*bytes)),
            Order::Grant { .. } => None,
            Order::Revoke { .. }
            | Order::Swap { .. }
            | Order::SetCredit { .. }
            | Order::Abort { .. } => {
                self.await_answer(id);
                None
            }
            Order::SetBackingStore { .. } => {
                self.hurry(id);
                None
            }
        }
    }

    /// Sends a Welcome, and watches the agent from then on. False if either failed.
    fn welcome(&mut self, welcome: &Welcome) -> bool {
        let greeting = self.agents.greeting.take();
        let Some(greeting) = greeting.filter(|it| it.id == welcome.connection) else {
            return false;
        };
        let Pending { socket, peer, .. } = greeting.pending;
        let (pid, uid) = (peer.pid, peer.uid);
        let connection = match self.begin(welcome, peer.pidfd, socket, greeting.features) {
            Ok(connection) => connection,
            Err(error) => {
                // The engine says it, as often as strangers may make it.
                tracing::debug!(pid, %error, "cannot start a session");
                return false;
            }
        };
        let connection = self
            .agents
            .connections
            .entry(welcome.connection)
            .insert_entry(connection);
        // The swap thread is looked up after the Welcome is sent, because the program waits for it.
        let thread = bell_thread(greeting.thread, pid, greeting.tid);
        if thread.is_none() && log::may_say(uid, "swap-thread") {
            tracing::warn!(
                pid,
                "its swap thread is not one of its own: no signals, only the futex"
            );
        }
        connection.into_mut().set_thread(thread);
        if let Some(former) = welcome.former {
            self.forget(former);
        }
        true
    }

    fn begin(
        &mut self,
        welcome: &Welcome,
        process: OwnedFd,
        socket: OwnedFd,
        features: u64,
    ) -> io::Result<Connection> {
        let id = welcome.connection;
        let blank = self.agents.take_blank()?;
        let connection = Connection::greeted(process, socket, features, welcome, blank);
        if let Some(page) = connection.page() {
            writer::begin(page, self.agents.epoch, welcome);
        }
        // The Welcome first, because the program waits for it. If its agent cannot be watched, the
        // connection is dropped, which the agent sees.
        connection.welcome(welcome.registration, &self.config)?;
        self.poll.add_process(connection.process(), id.0)?;
        if let Some(eventfd) = connection.eventfd() {
            self.poll
                .add(eventfd, Token::Bell(id).into(), Watch::Edge)?;
        }
        Ok(connection)
    }

    fn refuse(&mut self, id: ConnectionId, code: RefusalCode, text: &str) {
        let code = match code {
            RefusalCode::Claim => ReplyCode::Claim,
            RefusalCode::Busy => ReplyCode::Busy,
        };
        if let Some(greeting) = self.agents.greeting.take_if(|it| it.id == id) {
            refuse(&greeting.pending.socket, code, text);
        }
    }

    /// Ends a connection; page and process stay.
    pub(super) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.agents.connections.get_mut(&id) {
            connection.close();
            // The agent has the eventfd too: closing ours would not be enough.
            if let Some(eventfd) = connection.eventfd() {
                self.poll.remove(eventfd);
            }
            self.agents.awaiting.retain(|awaiting| *awaiting != id);
        }
    }

    fn forget(&mut self, id: ConnectionId) {
        self.close(id);
        self.agents.connections.remove(&id);
    }

    fn kill(&self, id: ConnectionId) {
        let Some(connection) = self.agents.connections.get(&id) else {
            return;
        };
        match connection.kill() {
            // It may have ended by itself.
            Ok(()) | Err(io::Errno::SRCH) => {}
            Err(error) => tracing::error!(
                connection = id.0, %error,
                "a process that on_violation = \"kill\" ends cannot be killed: rtswapd needs CAP_KILL"
            ),
        }
    }

    /// Answers a call, after what it changed has been published.
    fn answer(&mut self, id: CallId, result: Result<Reply, CallError>, now: Time) {
        let Some(call) = self.calls.close(id) else {
            return;
        };
        // Some of what these ask for may be in effect although the answer is no.
        let may_be_partial = matches!(call, OpenCall::Reload { .. } | OpenCall::SetPolicy { .. });
        if result.is_ok() || may_be_partial {
            self.publisher.publish(&mut self.engine, now);
        }
        let result = result.map_err(|error| error_of(&error));
        // A caller that is gone has no use for the answer; the claim timeout or its lease ends the
        // registration.
        match call {
            OpenCall::Register { lease, reply } => {
                let result = result.and_then(|answer| match answer {
                    Reply::Registered(id) => Ok(id),
                    Reply::Calibrated(_) | Reply::Done => Err(another_call()),
                });
                if let (Ok(registration), Some(lease)) = (&result, lease) {
                    self.calls.keep_lease(id, *registration, lease);
                }
                let _ = reply.send(result);
            }
            OpenCall::Unregister {
                registration,
                reply,
            } => {
                if result.is_ok() {
                    self.calls.drop_lease(registration);
                }
                let _ = reply.send(result.map(drop));
            }
            OpenCall::Calibrate { reply } => {
                let result = result.and_then(|answer| match answer {
                    Reply::Calibrated(used) => Ok(used),
                    Reply::Registered(_) | Reply::Done => Err(another_call()),
                });
                let _ = reply.send(result);
            }
            OpenCall::Park { reply } | OpenCall::SetPolicy { reply } => {
                let _ = reply.send(result.map(drop));
            }
            OpenCall::Reload { config, reply } => {
                // A task that is refused keeps nothing else from taking effect.
                if !matches!(result, Err(Error::InvalidArgument(_))) {
                    self.nvml.set_period(config.nvml_period);
                    self.config = config;
                }
                let _ = reply.send(result.map(drop));
            }
        }
    }
}

fn another_call() -> Error {
    let text = "the engine answered another call";
    Error::Bus(zbus::Error::Failure(text.into()))
}
