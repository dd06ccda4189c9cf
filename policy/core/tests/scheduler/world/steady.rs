//! A GPU in steady state: realtime tasks that overflow it ask for jobs all at once, are swapped
//! chunk by chunk and run, round after round, before best-effort tasks if there are any. The world
//! allocates nothing after the start, so that what is counted or timed is the scheduler.

use rtswap_policy::admission::Test;
use rtswap_policy::cost::SwapCost;
use rtswap_policy::scheduler::{Config, Event, Phase, Sharing, Usage};
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use super::setting::{best_effort, config, engine, periodic};
use super::{Agent, Answers, World};

const CHUNK: u64 = 1 << 21;
/// Bytes of a realtime task.
const REALTIME: u64 = 10 * CHUNK;
/// Bytes of a best-effort task: as many can be had while every volume is out.
const BEST_EFFORT: u64 = 2 * CHUNK;
/// Between two events.
const STEP: Nanos = Nanos(100);

pub(crate) struct Steady {
    world: World,
    tasks: u32,
    /// The task that asks next in this round.
    asks: u32,
    events: u64,
    rounds: u64,
}

impl Steady {
    /// `realtime` tasks of which 70 % fit, all ready, and `others` of best-effort, after one round of
    /// jobs. Costs are read from `clock`.
    pub(crate) fn new(
        realtime: u32,
        others: u32,
        test: Test,
        sharing: Sharing,
        clock: fn() -> u64,
    ) -> Self {
        let tasks = realtime + others;
        let mut world = World::new(Config {
            chunk: Bytes(CHUNK),
            swap_cost: SwapCost {
                out: engine(10_000),
                in_: engine(10_000),
            },
            drain: Nanos::ZERO,
            sharing,
            swap_share: Ppm(100_000),
            longest_wait: Nanos(150_000_000),
            idle_gap: Nanos(2_000_000),
            test,
            ..config(REALTIME * u64::from(realtime) * 7 / 10)
        });
        (world.now, world.answers, world.clock) = (Time(1), Answers::Nothing, clock);
        for id in 0..tasks {
            // Under 1.2 ms of GPU and copy engines a job, and periods of which none is another's.
            let period = u64::from(realtime) * 3_000_000 + u64::from(id) * 997;
            let mut spec = if id < realtime {
                periodic(period, 1_000_000, REALTIME, REALTIME)
            } else {
                best_effort()
            };
            spec.name = format!("task {id}");
            assert!(world.register(id, spec));
        }
        for id in 0..tasks {
            // As after a restart of the daemon: what may be out is out, all of best-effort.
            let all = Bytes(if id < realtime { REALTIME } else { BEST_EFFORT });
            let status = world.scheduler.state().task(TaskId(id)).unwrap();
            let swapped = status.volume.max(status.next_volume).unwrap_or(all);
            let usage = Usage {
                resident: all - swapped,
                swapped,
                arena: all,
            };
            assert!(world.attach(id, Agent::with(usage), None));
        }
        let mut steady = Self {
            world,
            tasks,
            asks: 0,
            events: 0,
            rounds: 0,
        };
        while steady.rounds == 0 {
            steady.next();
        }
        let state = steady.world.scheduler.state();
        let ready = |id| state.task(TaskId(id)).unwrap().phase == Phase::Ready;
        assert!((0..realtime).all(ready));
        steady
    }

    /// The next event, and what its decision cost.
    pub(crate) fn next(&mut self) -> (Event, u64) {
        assert!(self.step(), "{:?}", self.world.last);
        assert_eq!(self.world.violations, [], "not in steady state");
        self.world.last.expect("an event was handed in")
    }

    fn step(&mut self) -> bool {
        let world = &mut self.world;
        world.now = world.now + STEP;
        self.events += 1;
        if self.events.is_multiple_of(16) {
            return world.tell(Event::Timer);
        }
        if let Some(taken) = world.confirm().or_else(|| world.pin()) {
            return taken;
        }
        if self.asks < self.tasks {
            self.asks += 1;
            return world.request(self.asks - 1);
        }
        if world.swap_any(Bytes(CHUNK)) {
            return true;
        }
        if let Some(task) = world.running.front() {
            return world.complete(task.0);
        }
        let waits = world.agents.iter().any(|agent| agent.job.is_some());
        if let Some(at) = world.scheduler.poll_timeout().filter(|_| waits) {
            world.now = world.now.max(at);
            return world.tell(Event::Timer);
        }
        // All have run: the next round begins when every period has passed.
        assert!(
            world.agents.iter().all(|agent| agent.job.is_none()),
            "stuck"
        );
        (self.asks, self.rounds) = (0, self.rounds + 1);
        world.now = world.now + Nanos(u64::from(self.tasks) * 3_100_000);
        world.tell(Event::Timer)
    }
}
