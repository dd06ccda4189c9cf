//! A GPU in steady state: realtime tasks that overflow it ask for jobs all at once, are swapped
//! chunk by chunk and run, round after round, before best-effort tasks if there are any. Its agents
//! allocate nothing after the start, so that what is counted or timed is the scheduler.

use std::collections::VecDeque;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::scheduler::{
    Command, Config, Direction, Event, JobKind, JobSeq, Overrun, Phase, Scheduler, Sharing,
    SwapOutcome, SwapSeq, Usage,
};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

const CHUNK: u64 = 1 << 21;
/// Chunks of a realtime task.
const CHUNKS: u64 = 10;
/// Chunks of a best-effort task: as many can be had while every volume is out.
const BEST_EFFORT_CHUNKS: u64 = 2;
/// Between two events.
const STEP: u64 = 100;

#[derive(Default)]
struct Agent {
    usage: Usage,
    budget: Bytes,
    op: Option<(SwapSeq, Direction, Bytes)>,
    aborted: bool,
    jobs: u32,
}

pub(crate) struct Steady {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Time,
    /// Jobs completed and swap operations ended.
    pub(crate) jobs: u64,
    pub(crate) swaps: u64,
    /// The realtime ones first.
    agents: Vec<Agent>,
    realtime: u32,
    /// Budgets to confirm.
    answers: VecDeque<(TaskId, Bytes)>,
    moving: VecDeque<TaskId>,
    running: VecDeque<(TaskId, JobSeq)>,
    /// Who asks next in this round.
    asks: u32,
    events: u64,
}

impl Steady {
    /// `realtime` tasks of which 70 % fit, all ready, and `best_effort` ones, after one round of
    /// jobs.
    pub(crate) fn new(realtime: u32, best_effort: u32, test: Test, sharing: Sharing) -> Self {
        let tasks = realtime + best_effort;
        let direction = DirectionCost {
            base: Nanos::ZERO,
            per_chunk: Nanos(10_000),
            bytes_per_second: u64::MAX,
        };
        let scheduler = Scheduler::new(Config {
            capacity: Bytes(CHUNK * CHUNKS * u64::from(realtime) * 7 / 10),
            chunk: Bytes(CHUNK),
            swap_cost: SwapCost {
                out: direction,
                in_: direction,
            },
            best_effort_reserve: Bytes::ZERO,
            drain: Nanos::ZERO,
            sharing,
            dispatch_latency: Nanos::ZERO,
            overrun: Overrun::Continue,
            best_effort_quantum: Nanos(1_000_000),
            objective: Objective::Time,
            test,
            duplex: Ppm::ONE,
        });
        let count = tasks as usize;
        let mut steady = Self {
            scheduler,
            now: Time(1),
            jobs: 0,
            swaps: 0,
            agents: (0..count).map(|_| Agent::default()).collect(),
            answers: VecDeque::with_capacity(4 * count + 64),
            moving: VecDeque::with_capacity(count),
            running: VecDeque::with_capacity(count),
            realtime,
            asks: 0,
            events: 0,
        };
        for id in 0..tasks {
            steady.register(id);
        }
        for id in 0..tasks {
            steady.attach(id);
        }
        while steady.jobs < u64::from(tasks) {
            let event = steady.next();
            steady.tell(event);
        }
        let ready = |id| steady.scheduler.state().task(TaskId(id)).unwrap().phase == Phase::Ready;
        assert!((0..realtime).all(ready));
        steady
    }

    fn size(&self, id: u32) -> Bytes {
        let chunks = if id < self.realtime {
            CHUNKS
        } else {
            BEST_EFFORT_CHUNKS
        };
        Bytes(CHUNK * chunks)
    }

    fn register(&mut self, id: u32) {
        // Under 1.2 ms of GPU and copy engines a job, and periods of which none is another's.
        let period = Nanos(u64::from(self.realtime) * 3_000_000 + u64::from(id) * 997);
        let spec = TaskSpec {
            name: format!("task {id}"),
            class: if id < self.realtime {
                Class::Realtime(Timing {
                    period,
                    deadline: period,
                    wcet: Nanos(1_000_000),
                })
            } else {
                Class::BestEffort
            },
            memory: MemoryProfile {
                footprint: self.size(id),
                swappable: self.size(id),
            },
        };
        self.scheduler.register(self.now, TaskId(id), spec).unwrap();
        self.obey_all();
    }

    /// As after a restart of the daemon: what may be out is out, all of best-effort.
    fn attach(&mut self, id: u32) {
        let task = TaskId(id);
        let status = self.scheduler.state().task(task).unwrap();
        let all = self.size(id);
        let swapped = status.volume.max(status.next_volume).unwrap_or(all);
        let usage = Usage {
            resident: all - swapped,
            swapped,
            arena: all,
        };
        let agent = &mut self.agents[id as usize];
        agent.usage = usage;
        agent.budget = usage.resident;
        self.tell(Event::Attach {
            task,
            usage,
            backing: swapped,
            open: None,
        });
    }

    /// Tells the scheduler and obeys.
    pub(crate) fn tell(&mut self, event: Event) {
        self.scheduler.handle(self.now, event).unwrap();
        self.obey_all();
    }

    fn obey_all(&mut self) {
        while let Some(command) = self.scheduler.poll_command() {
            self.obey(command);
        }
    }

    /// What happens next.
    pub(crate) fn next(&mut self) -> Event {
        self.now.0 += STEP;
        self.events += 1;
        if self.events.is_multiple_of(16) {
            return Event::Timer;
        }
        if let Some((task, bytes)) = self.answers.pop_front() {
            return Event::BudgetSet { task, bytes };
        }
        if (self.asks as usize) < self.agents.len() {
            let task = TaskId(self.asks);
            self.asks += 1;
            let agent = &mut self.agents[task.0 as usize];
            agent.jobs += 1;
            let job = JobSeq(agent.jobs);
            let kind = JobKind::Declared;
            return Event::JobRequested { task, job, kind };
        }
        for _ in 0..self.moving.len() {
            let task = self.moving.pop_front().unwrap();
            if let Some(event) = self.moves(task) {
                return event;
            }
            self.moving.push_back(task);
        }
        if let Some((task, job)) = self.running.pop_front() {
            self.jobs += 1;
            return Event::JobCompleted { task, job };
        }
        // All have run: the next round begins when every period has passed.
        assert_eq!(self.jobs % self.agents.len() as u64, 0, "stuck");
        self.asks = 0;
        self.now.0 += self.agents.len() as u64 * 3_100_000;
        Event::Timer
    }

    /// A chunk of `task`, unless it has to wait for budget.
    fn moves(&mut self, task: TaskId) -> Option<Event> {
        let agent = &mut self.agents[task.0 as usize];
        let (op, direction, target) = agent.op?;
        let usage = &mut agent.usage;
        if agent.aborted {
            agent.op = None;
            return Some(Event::SwapEnded {
                task,
                op,
                swapped: usage.swapped,
                took: Nanos::ZERO,
                outcome: SwapOutcome::Aborted,
            });
        }
        match direction {
            Direction::Out => {
                usage.swapped += Bytes(CHUNK);
                usage.resident -= Bytes(CHUNK);
            }
            Direction::In => {
                if usage.resident + Bytes(CHUNK) > agent.budget {
                    return None;
                }
                usage.swapped -= Bytes(CHUNK);
                usage.resident += Bytes(CHUNK);
            }
        }
        let swapped = usage.swapped;
        if swapped != target {
            self.moving.push_back(task);
            return Some(Event::SwapProgress { task, op, swapped });
        }
        agent.op = None;
        self.swaps += 1;
        Some(Event::SwapEnded {
            task,
            op,
            swapped,
            took: Nanos::ZERO,
            outcome: SwapOutcome::Done,
        })
    }

    pub(crate) fn obey(&mut self, command: Command) {
        match command {
            Command::SetBudget { task, bytes, .. } => {
                self.agents[task.0 as usize].budget = bytes;
                self.answers.push_back((task, bytes));
            }
            Command::Swap {
                task,
                op,
                direction,
                target,
            } => {
                let agent = &mut self.agents[task.0 as usize];
                agent.op = Some((op, direction, target));
                agent.aborted = false;
                self.moving.push_back(task);
            }
            Command::Abort { task, .. } => self.agents[task.0 as usize].aborted = true,
            Command::Grant { task, job } => self.running.push_back((task, job)),
            Command::SetBackingStore { task, bytes } => {
                let event = Event::Backing { task, bytes };
                self.scheduler.handle(self.now, event).unwrap();
            }
            // Whoever runs ends soon.
            Command::Revoke { .. } | Command::Account(_) => {}
            Command::Violation { detail, .. } => panic!("not in steady state: {detail}"),
        }
    }
}
