//! The thread's life: wait, take what came, look at the clock, publish.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;

use rtswap_policy::scheduler::Event;
use rtswap_policy::units::{Nanos, Time};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{broadcast, oneshot, watch};

use super::memory::Nvml;
use super::message::NEWS;
use super::probed::Probes;
use super::recovery::Recovery;
use super::{Dispatcher, Handle, News, Request, Snapshot};
use crate::agent::listener::Listener;
use crate::agent::session::Session;
use crate::config::{Config, TaskFile};
use crate::ledger::Graces;
use crate::quota::Quota;
use crate::registry::{RegistrationId, Registry, StateFile};
use crate::source;
use crate::source::gpu::{Reader, Sample};
use crate::source::probes::Prober;
use crate::sys::clock::now;
use crate::sys::poll::{Poll, TIMER, Watch};

/// All pages are read at least so often: a doorbell may be lost. With hundreds of processes this is
/// what an idle daemon does most.
const SWEEP: Nanos = Nanos(250_000_000);

/// The snapshot is published at most so often, calls apart.
const PUBLISH: Nanos = Nanos(50_000_000);

/// Eligible times are saved at most so often.
const SAVE: Nanos = Nanos(250_000_000);

/// What the thread is started with.
#[derive(Debug)]
pub struct Parts {
    /// The administrator's file.
    pub config: Config,
    /// The administrator's registrations.
    pub tasks: Vec<TaskFile>,
    /// The agent socket: it listens and does not block.
    pub listener: OwnedFd,
    /// What the daemon before left, and where to leave it.
    pub state_file: StateFile,
}

/// The thread.
#[derive(Debug)]
pub struct Running {
    /// To talk to it.
    pub handle: Handle,
    /// When it ends: why. Closed without a word if it panicked.
    pub ended: oneshot::Receiver<Result<(), rustix::io::Errno>>,
    thread: thread::JoinHandle<()>,
}

impl Running {
    /// Waits for its end, once it was told to stop. False if it panicked.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}

/// What a descriptor in the epoll set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// The eventfd of [`Handle`].
    Wake,
    /// The listening socket.
    Listener,
    /// A connection, by its number.
    Socket(u64),
    /// Its session's eventfd.
    Bell(u64),
    /// Its session's process.
    Process(u64),
    /// A lease, by its registration.
    Lease(u64),
    /// A process that the daemon before knew, by its place among them.
    Awaited(u64),
}

const NUMBER_BITS: u32 = 56;

impl From<Token> for u64 {
    fn from(token: Token) -> Self {
        let (kind, number) = match token {
            Token::Wake => (0, 0),
            Token::Listener => (1, 0),
            Token::Socket(number) => (2, number),
            Token::Bell(number) => (3, number),
            Token::Process(number) => (4, number),
            Token::Lease(number) => (5, number),
            Token::Awaited(number) => (6, number),
        };
        kind << NUMBER_BITS | number
    }
}

impl Token {
    fn parse(token: u64) -> Option<Self> {
        let number = token & ((1 << NUMBER_BITS) - 1);
        Some(match token >> NUMBER_BITS {
            0 => Self::Wake,
            1 => Self::Listener,
            2 => Self::Socket(number),
            3 => Self::Bell(number),
            4 => Self::Process(number),
            5 => Self::Lease(number),
            6 => Self::Awaited(number),
            _ => return None,
        })
    }
}

/// Starts the thread, and NVML's where there is one: its first look is before anything is served.
pub fn start(parts: Parts) -> std::io::Result<Running> {
    let (requests, inbox) = mpsc::channel();
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (snapshot, watched) = watch::channel(Arc::new(Snapshot::default()));
    let (news, _) = broadcast::channel(NEWS);
    let handle = Handle::new(requests, Arc::clone(&wake), watched, news.clone());
    let (end, ended) = oneshot::channel();
    let configured = parts.config.gpus.iter().map(|gpu| gpu.uuid);
    let mut reader = source::gpu::open(configured.collect());
    let first = reader.read();
    let dispatch = handle.clone();
    let period = parts.config.daemon.nvml_period();
    let poller = source::gpu::spawn(reader, period, move |sample| dispatch.sample(sample))?;
    let nvml = Nvml::new(poller, period, now());
    let prober = if parts.config.daemon.probes {
        let dispatch = handle.clone();
        let deliver = move |sample| dispatch.probed(sample);
        Some(source::probes::spawn(deliver)?)
    } else {
        None
    };
    let dispatcher = Dispatcher::new(parts, inbox, wake, (snapshot, news), (nvml, prober), first)?;
    let thread = thread::Builder::new()
        .name("dispatch".into())
        .spawn(move || {
            // Whoever waited for it is gone: then nobody needs to know.
            let _ = end.send(dispatcher.run());
        })?;
    Ok(Running {
        handle,
        ended,
        thread,
    })
}

impl Dispatcher {
    fn new(
        parts: Parts,
        inbox: mpsc::Receiver<Request>,
        wake: Arc<OwnedFd>,
        (snapshot, news): (watch::Sender<Arc<Snapshot>>, broadcast::Sender<News>),
        (nvml, prober): (Nvml, Option<Prober>),
        first: Sample,
    ) -> std::io::Result<Self> {
        let now = now();
        let listener = Listener::new(parts.listener);
        let poll = Poll::new()?;
        poll.add(&*wake, Token::Wake.into(), Watch::Readable)?;
        poll.add(listener.fd(), Token::Listener.into(), Watch::Readable)?;
        let saved = parts.state_file.load();
        let most = parts.config.daemon.max_tasks_per_user;
        let mut dispatcher = Self {
            registry: Registry::new(saved.next, most),
            config: parts.config,
            poll,
            inbox,
            wake,
            listener,
            gpus: Vec::new(),
            sessions: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            places: BTreeMap::new(),
            tasks: BTreeMap::new(),
            next_task: 1,
            restless: Vec::new(),
            statistics: BTreeMap::new(),
            graces: Graces::default(),
            nvml,
            probes: Probes::default(),
            _prober: prober,
            recovery: Recovery::default(),
            events: Vec::new(),
            unplaced: BTreeMap::new(),
            state_file: parts.state_file,
            unsaved: true,
            stale_since: None,
            unpublished: true,
            published_at: now,
            swept_at: now,
            snapshot,
            news,
            // Unlike any other run's of this boot.
            epoch: now.0,
            complaints: Quota::default(),
            sentences: Vec::new(),
        };
        dispatcher.recover(saved, parts.tasks, now);
        dispatcher.add_first_gpus(first, now);
        dispatcher.publish(now);
        Ok(dispatcher)
    }

    fn run(mut self) -> Result<(), rustix::io::Errno> {
        let mut ready = Vec::new();
        self.save();
        loop {
            let until = self.next_wake();
            self.poll.wait(until, &mut ready)?;
            let now = now();
            for token in ready.drain(..) {
                if token != TIMER
                    && let Some(token) = Token::parse(token)
                    && !self.take(token, now)
                {
                    self.save();
                    return Ok(());
                }
            }
            self.look_at_clock(now);
        }
    }

    /// Takes what came. False if it is time to stop.
    fn take(&mut self, token: Token, now: Time) -> bool {
        match token {
            Token::Wake => return self.take_requests(now),
            Token::Listener => self.accept(now),
            Token::Socket(connection) => self.socket_ready(connection, now),
            Token::Bell(connection) => {
                if let Some(&session) = self.connections.get(&connection) {
                    self.read_pages(session, now, true);
                }
            }
            Token::Process(connection) => {
                if let Some(&session) = self.connections.get(&connection) {
                    self.process_ended(session, now);
                }
            }
            Token::Lease(registration) => {
                self.end_registration(RegistrationId(registration), now);
            }
            Token::Awaited(number) => self.awaited_ended(number, now),
        }
        true
    }

    fn take_requests(&mut self, now: Time) -> bool {
        // Cleared first: a request sent meanwhile wakes again.
        let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        // One at a time: agents have their turn between two calls, however many wait.
        let Ok(request) = self.inbox.try_recv() else {
            return true;
        };
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        match request {
            Request::Register {
                caller,
                declaration,
                process,
                lease,
                reply,
            } => {
                let result = self.register(caller, declaration, process, lease, now);
                if result.is_ok() {
                    self.settle(now);
                }
                // A caller that is gone has no use for the answer; the claim timeout or its
                // lease ends the registration.
                let _ = reply.send(result);
            }
            Request::Unregister {
                caller,
                registration,
                reply,
            } => {
                let result = self.unregister(caller, registration, now);
                if result.is_ok() {
                    self.settle(now);
                }
                let _ = reply.send(result);
            }
            Request::Sample(sample) => self.take_sample(sample, now),
            Request::Probed(sample) => self.take_probed(sample, now),
            Request::Plan { reply } => {
                let _ = reply.send(Ok(self.plan()));
            }
            Request::Reload {
                config,
                tasks,
                reply,
            } => {
                let result = self.reload(&config, tasks, now);
                self.settle(now);
                let _ = reply.send(result);
            }
            Request::Ping { reply } => {
                let _ = reply.send(Ok(()));
            }
            Request::Stop => return false,
        }
        true
    }

    /// Makes the effect of a call seen and kept, before it is answered.
    fn settle(&mut self, now: Time) {
        self.publish(now);
        self.save();
    }

    fn look_at_clock(&mut self, now: Time) {
        self.execute(now);
        self.expire(now);
        if self.recovery.expire(now) {
            // What the silent hold is unmanaged now: it is looked at before much is granted.
            self.nvml.hurry(true);
        }
        self.watch_nvml(now);
        for gpu in 0..self.gpus.len() {
            let due = self.gpus[gpu].scheduler.poll_timeout();
            if due.is_some_and(|due| due <= now) {
                self.feed_own(gpu, now, Event::Timer);
            }
        }
        if now - self.swept_at >= SWEEP {
            self.swept_at = now;
            self.sweep(now);
        } else {
            for session in self.sessions.values_mut() {
                session.ring_again(now);
            }
        }
        if self.unpublished && now - self.published_at >= PUBLISH {
            self.publish(now);
        }
        if self.unsaved || self.stale_since.is_some_and(|since| now - since >= SAVE) {
            self.save();
        }
    }

    /// When to look at the clock again.
    fn next_wake(&self) -> Option<Time> {
        let sweep = (!self.sessions.is_empty()).then(|| self.swept_at + SWEEP);
        let publish = self.unpublished.then(|| self.published_at + PUBLISH);
        let save = self.stale_since.map(|since| since + SAVE);
        let release = self.graces.next();
        let rings = self.sessions.values().filter_map(Session::next_ring);
        let claims = self.registry.iter().filter_map(|entry| entry.claim_until);
        let timers = self
            .gpus
            .iter()
            .filter_map(|gpu| gpu.scheduler.poll_timeout());
        [
            sweep,
            publish,
            save,
            release,
            self.nvml.next_look(),
            self.listener.next_expiry(),
            self.recovery.next_expiry(),
        ]
        .into_iter()
        .flatten()
        .chain(rings)
        .chain(claims)
        .chain(timers)
        .min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let all = [
            Token::Wake,
            Token::Listener,
            Token::Socket(1),
            Token::Bell(2),
            Token::Process(3),
            Token::Lease(4),
            Token::Awaited((1 << NUMBER_BITS) - 1),
        ];
        for token in all {
            assert_eq!(Token::parse(token.into()), Some(token));
        }
        assert_eq!(Token::parse(TIMER), None);
    }
}
