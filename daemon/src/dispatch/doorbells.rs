//! Agents' doorbells, and when a control page is read. Requests of best-effort sessions cost their owner an
//! allowance; while that is used up, a doorbell that rings is not watched until its turn comes. What an order awaits
//! is read all the same: others wait for it, and bounds run.

use rtswap_engine::ConnectionId;
use rtswap_engine::input::Input;
use rtswap_policy::units::Time;

use super::Dispatcher;
use super::token::Token;
use crate::agent::connection::Connection;
use crate::log;
use crate::sys::clock::worked;
use crate::sys::poll::Watch;

/// Doorbells that are watched again before other descriptors have their turn. What their rings cost is known only
/// then.
const RESUMED_AT_ONCE: usize = 16;

impl Dispatcher {
    /// Reads the blocks of an agent that rang, or stops watching its doorbell while its owner is paused.
    pub(super) fn bell_rang(&mut self, id: ConnectionId, now: Time) {
        self.charged(id, now, |dispatcher| dispatcher.take_ring(id, now));
    }

    fn take_ring(&mut self, id: ConnectionId, now: Time) {
        let Some(connection) = self.agents.connections.get_mut(&id) else {
            return;
        };
        let requests = &mut self.agents.requests;
        if let Some(owner) = self.engine.payer(id)
            && requests.is_paused(owner)
            && !connection.take_hearing()
            && requests.defer_if_paused(owner, id)
        {
            if let Some(eventfd) = connection.eventfd() {
                self.poll.remove(eventfd);
            }
            return;
        }
        let is_first = connection.record_ring();
        self.read_blocks(id, is_first, now);
    }

    /// Watches doorbells again that have waited for long enough. One that is watched again rings at once, because
    /// nobody empties its eventfd, and this ring is heard.
    pub(super) fn resume_bells(&mut self, now: Time) {
        self.agents.requests.resume(now);
        for _ in 0..RESUMED_AT_ONCE {
            let Some(id) = self.agents.requests.pop() else {
                return;
            };
            self.charged(id, now, |dispatcher| dispatcher.watch_again(id, now));
        }
    }

    fn watch_again(&mut self, id: ConnectionId, now: Time) {
        let connection = self.agents.connections.get_mut(&id);
        // Its agent may be gone.
        let Some(connection) = connection.filter(|connection| connection.is_connected()) else {
            return;
        };
        connection.promise_hearings(1);
        let Some(eventfd) = connection.eventfd() else {
            return;
        };
        let added = self.poll.add(eventfd, Token::Bell(id).into(), Watch::Edge);
        if let Err(error) = added {
            if log::may_say(log::ANYBODY, "watch") {
                tracing::error!(%error, "cannot watch an agent's doorbell");
            }
            // Its agent connects anew.
            self.close(id);
            self.handle(Input::Disconnected(id), now);
        }
    }

    /// Notes that an agent was given an order that it has to answer within a bound.
    pub(super) fn await_answer(&mut self, id: ConnectionId) {
        if !self.agents.awaiting.contains(&id) {
            self.agents.awaiting.push(id);
        }
        self.hurry(id);
    }

    /// Lets the doorbell of an agent that was given an order wait no longer: its answer will ring.
    pub(super) fn hurry(&mut self, id: ConnectionId) {
        if let Some(owner) = self.engine.payer(id) {
            self.agents.requests.hurry(owner, id);
        }
    }

    /// Once a bound is over, reads the pages with an answer, whether their doorbells were heard or not. Each is handed
    /// in as of the last instant before that bound, so that no answer is late because another page was read first.
    pub(super) fn read_answers(&mut self, now: Time) {
        if self.agents.awaiting.is_empty() {
            return;
        }
        let Some(bound) = self.engine.poll_timeout().filter(|at| *at <= now) else {
            return;
        };
        let before = Time(bound.0.saturating_sub(1));
        let mut at = 0;
        while let Some(&id) = self.agents.awaiting.get(at) {
            let connection = self.agents.connections.get(&id);
            if !connection.is_some_and(Connection::is_bounded) {
                self.agents.awaiting.swap_remove(at);
                continue;
            }
            if connection.is_some_and(Connection::has_answered) {
                self.charged(id, now, |dispatcher| {
                    dispatcher.read_blocks(id, false, before);
                });
            }
            at += 1;
        }
    }

    /// Reads a connection's blocks at the cost of its owner, and hands in those that have changed.
    pub(super) fn read_charged(&mut self, id: ConnectionId, now: Time) {
        self.charged(id, now, |dispatcher| {
            dispatcher.read_blocks(id, false, now);
        });
    }

    /// Does `work` at the cost of a connection's owner, if it has one that pays. Nobody does once the session has
    /// ended.
    fn charged(&mut self, id: ConnectionId, now: Time, work: impl FnOnce(&mut Self)) {
        let before = self.engine.payer(id).map(|_| worked());
        work(self);
        if let Some(before) = before
            && let Some(owner) = self.engine.payer(id)
        {
            self.agents.requests.charge(owner, now, worked() - before);
        }
    }

    /// Reads a connection's blocks, and hands in those that have changed, or all `anyway`.
    pub(super) fn read_blocks(&mut self, id: ConnectionId, anyway: bool, now: Time) {
        let mut gpu = 0;
        // The connection may be removed by what follows from a block.
        while let Some(connection) = self.agents.connections.get_mut(&id)
            && gpu < connection.gpus()
        {
            if let Some((block, rang)) = connection.read(gpu, anyway) {
                let input = Input::Block {
                    connection: id,
                    gpu,
                    block,
                    rang,
                };
                self.handle(input, now);
            }
            gpu += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::time::Duration;

    use rtswap_engine::config::{GpuConfig, Sharing};
    use rtswap_engine::groups::Order;
    use rtswap_engine::input::{Answer, DeviceState, Hello, JobSeq, Peer, Start};
    use rtswap_engine::output::{Output, Welcome};
    use rtswap_engine::owners::{Owner, Subordinates};
    use rtswap_engine::rules::RuleSet;
    use rtswap_engine::sample::Sample;
    use rtswap_engine::{Cookie, Engine, Uuid};
    use rtswap_policy::units::{Bytes, Nanos};
    use rtswap_wire::page::{DeviceBlock, JobKind};

    use super::*;
    use crate::agent::connection::Blank;
    use crate::config::Config;
    use crate::dispatch::agents::Agents;
    use crate::dispatch::calls::Calls;
    use crate::dispatch::message;
    use crate::source;
    use crate::state::{Calibrations, Keeper, RunTimeRules};
    use crate::sys::clock::{millis, now};
    use crate::sys::peer::open_process;
    use crate::sys::poll::Poll;

    const NONE: [u64; 0] = [];

    const USER: u32 = 1000;

    const UUID: Uuid = Uuid::of([1; 16]);

    /// A look at no GPU.
    fn sample() -> Sample {
        Sample {
            began: now(),
            gpus: Vec::new(),
            left_alone: Vec::new(),
            named: Vec::new(),
        }
    }

    /// A dispatcher with one GPU and no thread that reads it, and best-effort sessions of one user.
    struct Stage {
        dispatcher: Dispatcher,
        _runtime_dir: tempfile::TempDir,
    }

    impl Stage {
        /// With sessions of the numbers 1 to `sessions`.
        fn new(sessions: u64) -> Self {
            let runtime_dir = tempfile::tempdir().unwrap();
            let Config { daemon, mut engine } = Config::default();
            // So that jobs that fit together wait for each other.
            engine.scheduler.sharing = Sharing::Exclusive;
            engine.gpus = vec![GpuConfig {
                memory: Some(Bytes(16 << 20)),
                reserve: Some(Bytes(0)),
                best_effort_reserve: Some(Bytes(0)),
                ..GpuConfig::learned(UUID)
            }];
            let (_, inbox, publisher) = message::channel().unwrap();
            let (keeper, saved) = Keeper::open(runtime_dir.path(), |_| {}).unwrap();
            let (listener, _) = rustix::pipe::pipe().unwrap();
            let hour = Duration::from_hours(1);
            let nvml = source::gpu::spawn(sample, hour, |_| false).unwrap();
            let dispatcher = Dispatcher {
                engine: Engine::new(engine),
                poll: Poll::new().unwrap(),
                inbox,
                agents: Agents::new(listener, Subordinates::default(), now()),
                calls: Calls::default(),
                publisher,
                keeper,
                calibrations: Calibrations::of(runtime_dir.path()),
                run_time_rules: RunTimeRules::of(runtime_dir.path()),
                config: daemon,
                nvml,
                cgroups: source::cgroups::Cgroups::find(),
                _prober: None,
            };
            let mut stage = Self {
                dispatcher,
                _runtime_dir: runtime_dir,
            };
            let start = Start {
                saved,
                calibrations: Vec::new(),
                run_time_rules: RuleSet::new(),
                awaited: Vec::new(),
                tasks: Vec::new(),
                nvml: sample(),
            };
            stage
                .dispatcher
                .handle(Input::Start(Box::new(start)), now());
            (1..=sessions).for_each(|id| stage.greet(ConnectionId(id)));
            stage
        }

        fn greet(&mut self, id: ConnectionId) {
            let hello = Hello {
                connection: id,
                peer: Peer {
                    pid: std::process::id(),
                    uid: USER,
                    comm: format!("program-{}", id.0),
                    start_ticks: id.0,
                    unit: None,
                },
                name: None,
                resumes: None,
                cookie: Cookie(id.0),
                devices: vec![DeviceState {
                    uuid: UUID.bytes(),
                    ..DeviceState::default()
                }],
                cgroups: Vec::new(),
            };
            let engine = &mut self.dispatcher.engine;
            engine.handle(now(), Input::Hello(Box::new(hello)));
            while let Some(output) = self.dispatcher.engine.poll_output() {
                let answer = match output {
                    Output::Welcome(welcome) => Answer::Sent(self.welcome(&welcome)),
                    Output::Record(_) => Answer::Kept(true),
                    _ => continue,
                };
                let engine = &mut self.dispatcher.engine;
                engine.handle(now(), Input::Answer(answer));
            }
            assert!(self.dispatcher.engine.payer(id).is_some());
        }

        fn welcome(&mut self, welcome: &Welcome) -> bool {
            let process = open_process(std::process::id()).unwrap();
            let (socket, _) = rustix::pipe::pipe().unwrap();
            let blank = Blank::new().unwrap();
            let connection = Connection::greeted(process, socket, 0, welcome, blank);
            let token = Token::Bell(welcome.connection).into();
            let eventfd = connection.eventfd().unwrap();
            self.dispatcher
                .poll
                .add(eventfd, token, Watch::Edge)
                .unwrap();
            let connections = &mut self.dispatcher.agents.connections;
            connections.insert(welcome.connection, connection);
            true
        }

        fn connection(&mut self, id: u64) -> &mut Connection {
            let connections = &mut self.dispatcher.agents.connections;
            connections.get_mut(&ConnectionId(id)).unwrap()
        }

        fn block(&mut self, id: u64) -> &DeviceBlock {
            &self.connection(id).page().unwrap().devices()[0]
        }

        /// Lets the agent ring.
        fn ring(&mut self, id: u64) {
            let eventfd = self.connection(id).eventfd().unwrap();
            rustix::io::write(eventfd, &1_u64.to_ne_bytes()).unwrap();
        }

        /// Lets the owner of all use up more than it may.
        fn pause(&mut self) {
            let requests = &mut self.dispatcher.agents.requests;
            requests.charge(&Owner::User(USER), now(), Nanos(20_000_000));
        }

        /// When the pause ends.
        fn pause_end(&self) -> Time {
            let requests = &self.dispatcher.agents.requests;
            requests.resumes().expect("a pause")
        }

        /// Takes the doorbells that ring, at `at`; their numbers.
        fn take_rings(&mut self, at: Time) -> Vec<u64> {
            let mut ready = Vec::new();
            let until = now() + millis(5);
            self.dispatcher.poll.wait(Some(until), &mut ready).unwrap();
            let tokens = ready.into_iter().filter_map(Token::parse);
            let rings = tokens.filter_map(|token| match token {
                Token::Bell(id) => Some(id),
                _ => None,
            });
            let rings: Vec<_> = rings.collect();
            for id in &rings {
                self.dispatcher.bell_rang(*id, at);
            }
            rings.iter().map(|id| id.0).collect()
        }

        /// Gives the agent the order to end job 1, which has a bound.
        fn revoke(&mut self, id: u64) {
            let agents = &mut self.dispatcher.agents;
            let connection = agents.connections.get_mut(&ConnectionId(id)).unwrap();
            let order = Order::Revoke { job: JobSeq(1) };
            connection.write(0, &order, now(), &mut agents.bells);
            self.dispatcher.await_answer(ConnectionId(id));
        }
    }

    #[test]
    fn rings_of_a_paused_owner_are_heard_once_after_the_pause() {
        let mut stage = Stage::new(3);
        stage.pause();
        for id in 1..=3 {
            stage.block(id).agent.request_job(1, JobKind::Declared);
            stage.ring(id);
        }
        let at = now();
        let mut rings = stage.take_rings(at);
        rings.sort_unstable();
        assert_eq!(rings, [1, 2, 3]);
        stage.ring(1);
        assert_eq!(stage.take_rings(at), NONE, "nobody listens");
        stage.dispatcher.close(ConnectionId(3));
        stage.dispatcher.resume_bells(at);
        assert_eq!(stage.take_rings(at), NONE, "the pause goes on");

        let end = stage.pause_end();
        stage.dispatcher.resume_bells(end);
        let mut rings = stage.take_rings(end);
        rings.sort_unstable();
        assert_eq!(rings, [1, 2], "without the one that was closed");
        assert_eq!(stage.block(1).daemon.granted(), 1);
        assert_eq!(stage.take_rings(end), NONE, "each once");
        stage.ring(2);
        assert_eq!(stage.take_rings(end), [2], "it is watched again");
    }

    #[test]
    fn doorbells_are_heard_in_the_order_in_which_they_rang() {
        let many = 2 * RESUMED_AT_ONCE as u64;
        let mut stage = Stage::new(many);
        stage.pause();
        let at = now();
        for id in (1..=many).rev() {
            stage.ring(id);
            assert_eq!(stage.take_rings(at), [id]);
        }
        let mut heard = Vec::new();
        let mut at = at;
        while heard.len() < many as usize {
            at = at.max(stage.dispatcher.agents.requests.resumes().unwrap_or(at));
            stage.dispatcher.resume_bells(at);
            let mut rings = stage.take_rings(at);
            rings.sort_unstable_by_key(|id| Reverse(*id));
            assert!(rings.len() <= RESUMED_AT_ONCE);
            heard.append(&mut rings);
        }
        assert!(heard.into_iter().eq((1..=many).rev()));
    }

    #[test]
    fn an_order_ends_the_wait_of_a_doorbell() {
        let mut stage = Stage::new(2);
        stage.block(1).agent.request_job(1, JobKind::Declared);
        stage.ring(1);
        assert_eq!(stage.take_rings(now()), [1]);
        assert_eq!(stage.block(1).daemon.granted(), 1);
        stage.pause();
        let at = now();
        for id in [2, 1] {
            stage.ring(id);
            assert_eq!(stage.take_rings(at), [id]);
        }
        // It had ended before it was told to, and nobody has heard so.
        stage.block(1).agent.complete_job(1);
        stage.revoke(1);
        assert!(stage.connection(1).has_answered());
        stage.dispatcher.resume_bells(at);
        assert_eq!(stage.take_rings(at), [1]);
        assert!(!stage.connection(1).is_bounded());
        assert!(
            stage
                .dispatcher
                .agents
                .requests
                .is_paused(&Owner::User(USER))
        );
    }

    #[test]
    fn a_job_that_ended_in_time_is_not_judged_late_because_its_owner_is_paused() {
        let mut stage = Stage::new(2);
        for id in [1, 2] {
            stage.block(id).agent.request_job(1, JobKind::Declared);
            stage.ring(id);
            assert_eq!(stage.take_rings(now()), [id]);
        }
        let mut at = now();
        for _ in 0..100 {
            if stage.connection(1).is_bounded() {
                break;
            }
            at = stage.dispatcher.engine.poll_timeout().expect("a quantum");
            stage.dispatcher.run_due(at);
        }
        assert!(stage.connection(1).is_bounded(), "it is told to end");
        assert_eq!(stage.dispatcher.agents.awaiting, [ConnectionId(1)]);
        assert_eq!(stage.block(2).daemon.granted(), 0);
        stage.pause();
        // It rings for other things more often than is heard.
        while stage.connection(1).take_hearing() {}
        stage.ring(1);
        assert_eq!(stage.take_rings(at), [1]);
        stage.block(1).agent.complete_job(1);
        stage.ring(1);
        assert_eq!(stage.take_rings(at), NONE);
        let bound = stage.dispatcher.engine.poll_timeout().expect("a bound");
        stage.dispatcher.read_answers(bound);
        stage.dispatcher.run_due(bound);
        assert_eq!(stage.block(2).daemon.granted(), 1);
        let tasks = stage.dispatcher.engine.status().tasks;
        assert!(tasks.iter().all(|task| task.statistics.violations == 0));
    }
}
