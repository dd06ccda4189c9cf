//! The agent against a fake driver and a fake daemon: real socket, page, signals and threads.

mod gates;
mod refusal;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gates::Gates;
use proptest::prelude::*;
use rtswap_wire::page::{Direction, JobKind, JobReport, SwapOutcome};

use super::*;
use crate::cuda::Stream;
use crate::driver::fake::{FakeDriver, UNIT};
use crate::session::fake_daemon::{BOUND, Daemon, Listener, Terms};

pub(crate) const CHUNK: u64 = 4 * UNIT;
pub(crate) const MEMORY: u64 = 64 * CHUNK;
/// What a context counts on the fake GPU.
pub(crate) const CONTEXT: u64 = MEMORY / 64;

pub(crate) struct Bench {
    pub(crate) driver: &'static FakeDriver,
    pub(crate) agent: &'static Agent,
    pub(crate) daemon: Daemon,
    pub(crate) listener: Listener,
    pub(crate) terms: Terms,
    _gates: Gates,
}

pub(crate) fn bench(name: &str, change: impl FnOnce(&mut Terms)) -> Bench {
    bench_with(name, change, None)
}

/// One with a record of its process.
pub(crate) fn recorded_bench(name: &str, record: &Path) -> Bench {
    bench_with(name, |_| (), Some(record.to_path_buf()))
}

fn bench_with(name: &str, change: impl FnOnce(&mut Terms), record: Option<PathBuf>) -> Bench {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut uuid = [7; 16];
    uuid[..8].copy_from_slice(&number.to_ne_bytes());
    let driver = FakeDriver::leak(uuid, MEMORY);
    let mut terms = Terms {
        uuid,
        chunk: CHUNK,
        memory: MEMORY,
        budget: MEMORY,
        orphan_ms: 60_000,
        idle_us: 300,
        drain_ms: 20_000,
        in_flight: 0,
    };
    change(&mut terms);
    let listener = Listener::new(&format!("{name}-{number}"));
    let config = Config {
        socket: listener.path.clone(),
        task: Some("yolo".into()),
        record,
        ..Config::default()
    };
    let (agent, daemon, gates) = Gates::start(driver, config, || listener.welcome(terms));
    Bench {
        driver,
        agent,
        daemon,
        listener,
        terms,
        _gates: gates,
    }
}

impl Bench {
    pub(crate) fn alloc(&self, bytes: u64) -> u64 {
        self.agent
            .alloc(bytes)
            .expect("managed")
            .expect("there is room")
    }

    /// Work that the daemon grants: as a launch that touches memory.
    pub(crate) fn launch<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let launched = scope.spawn(|| {
                let _call = self.agent.enter();
                work()
            });
            self.grant_until(|| launched.is_finished());
            launched.join().unwrap()
        })
    }

    /// Grants what is asked for: a job may end before a slow thread has come in by its grant, which
    /// then asks again.
    pub(crate) fn grant_until(&self, finished: impl Fn() -> bool) {
        let start = Instant::now();
        while !finished() {
            let jobs = self.daemon.block().agent.jobs();
            if let Some(jobs) = jobs.filter(|jobs| jobs.requested != jobs.completed)
                && self.daemon.block().daemon.granted() != jobs.requested
            {
                self.daemon.grant_next();
            }
            assert!(start.elapsed() < BOUND, "the work was never let in");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Of implicit jobs there may be more than one: see [`Self::grant_until`].
    fn jobs(&self) -> JobReport {
        self.daemon.block().agent.jobs().unwrap()
    }

    pub(crate) fn usage(&self) -> (u64, u64) {
        let usage = self.daemon.block().agent.usage();
        (usage.resident_bytes, usage.swapped_bytes)
    }

    pub(crate) fn idle(&self) {
        self.daemon.until("the end of the job", |block| {
            block
                .agent
                .jobs()
                .is_none_or(|jobs| jobs.requested == jobs.completed)
                .then_some(())
        });
    }
}

pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|i| (i.wrapping_mul(seed | 1) >> 3) as u8 ^ seed as u8)
        .collect()
}

#[test]
fn bytes_survive_a_swap_out_and_in() {
    let mut bench = bench("swap", |_| ());
    let len = 6 * CHUNK + 700;
    let at = bench.alloc(len);
    assert_eq!(bench.usage(), (7 * CHUNK + CONTEXT, 0));
    assert!(
        !bench.daemon.has_rung(),
        "within the budget nobody is asked"
    );
    assert_eq!(bench.daemon.set_volume(7 * CHUNK), 7 * CHUNK);
    assert!(bench.daemon.rings(), "an answer rings");
    let bytes = pattern(3, len as usize);
    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
    bench.idle();

    assert_eq!(
        bench.daemon.swap(Direction::Out, 7 * CHUNK),
        SwapOutcome::Done
    );
    assert_eq!(bench.usage(), (CONTEXT, 7 * CHUNK));
    assert_eq!(bench.driver.used(), 0, "really gone from the GPU");
    assert!(bench.driver.read(at, 1).is_err());

    assert_eq!(
        bench.daemon.swap(Direction::In, 2 * CHUNK),
        SwapOutcome::Done
    );
    assert_eq!(bench.usage(), (5 * CHUNK + CONTEXT, 2 * CHUNK));
    assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
    let back = bench.launch(|| bench.driver.read(at, len as usize).unwrap());
    assert!(back == bytes, "every byte is as it was");
    assert_eq!(bench.agent.free(at), Some(Ok(())));
    assert_eq!(bench.usage(), (CONTEXT, 0));
}

#[test]
fn a_grant_opens_nothing_while_memory_is_out() {
    let mut bench = bench("grant", |_| ());
    let at = bench.alloc(CHUNK);
    bench.daemon.set_volume(CHUNK);
    assert_eq!(bench.daemon.swap(Direction::Out, CHUNK), SwapOutcome::Done);
    std::thread::scope(|scope| {
        let agent = bench.agent;
        let driver = bench.driver;
        let work = scope.spawn(move || {
            let _call = agent.enter();
            driver.read(at, 1)
        });
        bench.daemon.grant_next();
        std::thread::sleep(Duration::from_millis(60));
        assert!(!work.is_finished(), "granted, but its memory is not there");
        assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
        bench.grant_until(|| work.is_finished());
        assert!(work.join().unwrap().is_ok());
    });
}

#[test]
fn over_budget_the_daemon_is_asked_and_a_refusal_is_out_of_memory() {
    let bench = bench("budget", |terms| terms.budget = 3 * CHUNK);
    bench.alloc(2 * CHUNK - 600);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| bench.agent.alloc(3 * CHUNK));
        let wanted = bench.daemon.answer_next(|wanted| wanted);
        assert_eq!(wanted, 5 * CHUNK + CONTEXT);
        asked.join().unwrap().expect("managed").expect("granted");
    });
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| bench.agent.alloc(3 * CHUNK));
        bench.daemon.answer_next(|_| 5 * CHUNK + CONTEXT);
        assert_eq!(asked.join().unwrap(), Some(Err(Status::OUT_OF_MEMORY)));
    });
    assert_eq!(bench.usage().0, 5 * CHUNK + CONTEXT, "all or nothing");
    assert_eq!(bench.driver.used(), 5 * CHUNK);
}

#[test]
fn where_the_driver_has_less_than_the_budget_more_must_leave() {
    let bench = bench("less", |terms| terms.budget = 3 * CHUNK);
    // Others hold two chunks more than they are counted with.
    bench.driver.set_others(MEMORY - 2 * CHUNK + 1);
    let given = std::thread::scope(|scope| {
        let asked = scope.spawn(|| bench.agent.alloc(2 * CHUNK));
        let first = bench.daemon.answer_next(|wanted| {
            bench.driver.set_others(MEMORY - 2 * CHUNK);
            wanted
        });
        let at = asked.join().unwrap().expect("managed").expect("in the end");
        bench
            .driver
            .write(at, &vec![1; 2 * CHUNK as usize])
            .unwrap();
        first
    });
    assert_eq!(given, 4 * CHUNK + CONTEXT, "more and more must be free");
    assert_eq!(bench.usage().0, 2 * CHUNK + CONTEXT, "and is given back");
    // What nobody can give ends in an error, and nothing stays behind.
    bench.driver.set_others(MEMORY);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| bench.agent.alloc(CHUNK));
        bench.daemon.answer_next(|_| 4 * CHUNK + CONTEXT);
        assert_eq!(asked.join().unwrap(), Some(Err(Status::OUT_OF_MEMORY)));
    });
    assert_eq!(bench.usage().0, 2 * CHUNK + CONTEXT);
}

#[test]
fn an_implicit_job_ends_when_its_streams_are_idle() {
    let bench = bench("implicit", |_| ());
    bench.alloc(10);
    let stream = Stream(0x77);
    bench.agent.work.add_stream(stream);
    bench.launch(|| bench.driver.set_busy(stream, true));
    let job = bench.jobs();
    assert_eq!(job.kind, JobKind::Implicit);
    assert_eq!(job.completed + 1, job.requested);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(bench.jobs(), job, "a kernel runs");
    bench.driver.set_busy(stream, false);
    bench.daemon.completed(job.requested);
    bench.launch(|| ());
    bench.idle();
    assert!(bench.jobs().requested > job.requested);
}

#[test]
fn a_capture_keeps_its_job() {
    let bench = bench("capture", |_| ());
    bench.alloc(10);
    let stream = Stream(0x78);
    bench.agent.work.add_stream(stream);
    let begun = bench.launch(|| {
        bench.agent.begin_capture(stream, || {
            assert!(bench.agent.work.captures(), "asked too early");
            bench.driver.set_capturing(stream, true);
            Status::SUCCESS
        })
    });
    assert_eq!(begun, Status::SUCCESS);
    let job = bench.jobs();
    assert_eq!(job.completed + 1, job.requested);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(bench.jobs(), job);
    // It ends unseen: another stream's end, or an error.
    bench.driver.set_capturing(stream, false);
    bench.daemon.completed(job.requested);
}

#[test]
fn declared_jobs_nest_and_last_until_their_work_is_done() {
    let bench = bench("declared", |_| ());
    bench.alloc(10);
    let stream = Stream(0x79);
    bench.agent.work.add_stream(stream);
    let (busy, works) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let program = scope.spawn(|| {
            bench.agent.job_begin(None);
            bench.agent.job_begin(None);
            drop(bench.agent.enter());
            bench.agent.job_end();
            std::thread::sleep(Duration::from_millis(30));
            bench.driver.set_busy(stream, true);
            busy.send(()).unwrap();
            bench.agent.job_end();
        });
        bench.daemon.grant_next();
        let jobs = bench.jobs();
        assert_eq!((jobs.kind, jobs.requested), (JobKind::Declared, 1));
        works.recv_timeout(BOUND).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(bench.jobs().completed, 0);
        bench.driver.set_busy(stream, false);
        program.join().unwrap();
    });
    assert_eq!(bench.jobs().completed, 1);
}

#[test]
fn a_revoked_job_ends_and_asks_again() {
    let bench = bench("revoke", |terms| terms.idle_us = 50_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    bench.daemon.block().daemon.revoke(1);
    bench.daemon.ring(Direction::Out);
    bench.daemon.completed(1);
    bench.launch(|| ());
    assert_eq!(bench.jobs().requested, 2);
}

#[test]
fn work_that_does_not_end_is_reported_and_nothing_leaves() {
    let mut bench = bench("undrainable", |terms| terms.drain_ms = 30);
    bench.alloc(CHUNK);
    bench.daemon.set_volume(CHUNK);
    let stream = Stream(0x7a);
    bench.agent.work.add_stream(stream);
    bench.launch(|| bench.driver.set_busy(stream, true));
    let job = bench.jobs();
    assert_eq!(
        bench.daemon.swap(Direction::Out, CHUNK),
        SwapOutcome::Undrainable
    );
    assert_eq!(bench.usage(), (CHUNK + CONTEXT, 0));
    // The gate is open as it was: another launch passes without a new job.
    drop(bench.agent.enter());
    assert_eq!(bench.jobs(), job);
    bench.driver.set_busy(stream, false);
}

#[test]
fn senseless_requests_and_forged_doorbells_change_nothing() {
    let mut bench = bench("hostile", |_| ());
    bench.alloc(2 * CHUNK);
    bench.daemon.set_volume(2 * CHUNK);
    for target in [CHUNK / 2, 1000 * CHUNK, u64::MAX, u64::MAX - CHUNK + 1] {
        assert_eq!(
            bench.daemon.swap(Direction::Out, target),
            SwapOutcome::Failed
        );
    }
    for _ in 0..100 {
        bench.daemon.ring(Direction::Out);
        bench.daemon.ring(Direction::In);
    }
    assert_eq!(bench.usage(), (2 * CHUNK + CONTEXT, 0));
    let jobless = bench.daemon.block().agent.jobs();
    assert_eq!(jobless, None);
}

#[test]
fn what_cannot_be_pinned_is_said() {
    let mut bench = bench("pin", |_| ());
    bench.alloc(2 * CHUNK);
    bench.driver.refuse_pins();
    assert_eq!(bench.daemon.set_volume(2 * CHUNK), 0);
    assert_eq!(bench.daemon.block().agent.fault(), Status::OUT_OF_MEMORY.0);
    assert_eq!(
        bench.daemon.swap(Direction::Out, CHUNK),
        SwapOutcome::Failed
    );
}

#[test]
fn a_failing_copy_loses_nothing() {
    let mut bench = bench("failing", |_| ());
    let at = bench.alloc(3 * CHUNK);
    bench.daemon.set_volume(3 * CHUNK);
    let bytes = pattern(11, 3 * CHUNK as usize);
    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
    bench.idle();
    bench.driver.fail_copies(true);
    assert_eq!(
        bench.daemon.swap(Direction::Out, 3 * CHUNK),
        SwapOutcome::Failed
    );
    bench.driver.fail_copies(false);
    assert_eq!(
        bench.daemon.swap(Direction::Out, 3 * CHUNK),
        SwapOutcome::Done
    );
    bench.driver.fail_copies(true);
    assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Failed);
    assert_eq!(bench.usage(), (CONTEXT, 3 * CHUNK));
    bench.driver.fail_copies(false);
    assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
    assert!(bench.launch(|| bench.driver.read(at, bytes.len()).unwrap()) == bytes);
}

#[test]
fn another_daemon_learns_the_truth_and_waiters_ask_it_again() {
    let mut bench = bench("reconnect", |_| ());
    let at = bench.alloc(2 * CHUNK);
    bench.daemon.set_volume(2 * CHUNK);
    let bytes = pattern(5, 2 * CHUNK as usize);
    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
    bench.idle();
    assert_eq!(bench.daemon.swap(Direction::Out, CHUNK), SwapOutcome::Done);
    let cookie = bench.daemon.cookie;
    let done = bench.jobs().completed;
    std::thread::scope(|scope| {
        let agent = bench.agent;
        let driver = bench.driver;
        let work = scope.spawn(move || {
            let _call = agent.enter();
            driver.read(at, 2 * CHUNK as usize)
        });
        bench.daemon.until("a job", |block| {
            block.agent.jobs().filter(|jobs| jobs.requested == done + 1)
        });
        bench.daemon.die();
        bench.daemon = bench.listener.welcome(bench.terms);
        let hello = bench.daemon.hello;
        assert_eq!((hello.registration, hello.cookie), (7, cookie.0));
        let state = hello.devices[0];
        assert_eq!(
            (state.resident_bytes, state.swapped_bytes),
            (CHUNK + CONTEXT, CHUNK)
        );
        assert_eq!((state.backing_bytes, state.chunk_bytes), (2 * CHUNK, CHUNK));
        let jobs = (state.requested, state.granted, state.completed);
        assert_eq!(jobs, (done + 1, done, done));
        assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
        assert_eq!(bench.daemon.grant_next(), done + 1);
        bench.grant_until(|| work.is_finished());
        assert!(work.join().unwrap().unwrap() == bytes);
    });
    bench.idle();
}

#[test]
fn a_job_that_ends_between_hello_and_welcome_is_known_to_have_ended() {
    let mut bench = bench("ended", |_| ());
    bench.alloc(10);
    std::thread::scope(|scope| {
        let agent = bench.agent;
        let (end, ended) = std::sync::mpsc::channel();
        let program = scope.spawn(move || {
            agent.job_begin(None);
            ended.recv().unwrap();
            agent.job_end();
        });
        bench.daemon.grant_next();
        bench.daemon.die();
        bench.daemon = bench.listener.welcome_after(bench.terms, || {
            end.send(()).unwrap();
            program.join().unwrap();
        });
        let state = bench.daemon.hello.devices[0];
        assert_eq!((state.requested, state.completed), (1, 0));
    });
    bench.daemon.completed(1);
}

#[test]
fn a_free_waits_for_work_that_still_drains() {
    let mut bench = bench("free", |_| ());
    let at = bench.alloc(2 * CHUNK);
    bench.daemon.set_volume(2 * CHUNK);
    let stream = Stream(0x7b);
    bench.agent.work.add_stream(stream);
    bench.launch(|| bench.driver.set_busy(stream, true));
    let seq = bench.daemon.request(Direction::Out, CHUNK, CHUNK);
    let start = Instant::now();
    while gate::is_open(bench.agent.devices[0].bit) {
        assert!(start.elapsed() < BOUND, "the gate never closed");
        std::thread::yield_now();
    }
    std::thread::scope(|scope| {
        // Under a closed gate; what runs may still use it.
        let freed = scope.spawn(|| bench.agent.free(at));
        std::thread::sleep(Duration::from_millis(30));
        bench.driver.set_busy(stream, false);
        assert_eq!(freed.join().unwrap(), Some(Ok(())));
    });
    assert_eq!(bench.daemon.outcome(seq), SwapOutcome::Done);
}

#[test]
fn without_any_daemon_everything_comes_back_and_goes_on() {
    let mut bench = bench("alone", |terms| terms.orphan_ms = 150);
    let at = bench.alloc(2 * CHUNK);
    bench.daemon.set_volume(2 * CHUNK);
    let bytes = pattern(9, 2 * CHUNK as usize);
    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
    bench.idle();
    assert_eq!(
        bench.daemon.swap(Direction::Out, 2 * CHUNK),
        SwapOutcome::Done
    );
    bench.listener.close();
    bench.daemon.die();
    let (agent, driver) = (bench.agent, bench.driver);
    let (said, waited) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _call = agent.enter();
        let _ = said.send(driver.read(at, 2 * CHUNK as usize));
    });
    let back = waited.recv_timeout(BOUND).expect("it goes on alone");
    assert!(back.unwrap() == bytes);
    // Budgets are no more.
    assert!(matches!(agent.alloc(20 * CHUNK), Some(Ok(_))));
}

#[derive(Clone, Debug)]
enum Step {
    Alloc(u64),
    Free(usize),
    Out(u64),
    In(u64),
    Work,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1..3 * CHUNK).prop_map(Step::Alloc),
        (0..32usize).prop_map(Step::Free),
        (0..9u64).prop_map(Step::Out),
        (0..9u64).prop_map(Step::In),
        Just(Step::Work),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Any order of allocations, frees, swaps and work: no byte changes, the sums are right.
    #[test]
    fn no_sequence_loses_a_byte(steps in proptest::collection::vec(step(), 1..30)) {
        let mut bench = bench("sequence", |_| ());
        bench.alloc(1);
        bench.daemon.set_volume(8 * CHUNK);
        let mut live: Vec<(u64, Vec<u8>)> = Vec::new();
        for (seed, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc(bytes) => {
                    let bytes = pattern(seed as u64, bytes as usize);
                    let at = bench.alloc(bytes.len() as u64);
                    let (_, swapped) = bench.usage();
                    if swapped > 0 {
                        bench.daemon.swap(Direction::In, 0);
                    }
                    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
                    bench.idle();
                    live.push((at, bytes));
                }
                Step::Free(pick) if !live.is_empty() => {
                    let (at, _) = live.swap_remove(pick % live.len());
                    prop_assert_eq!(bench.agent.free(at), Some(Ok(())));
                }
                Step::Free(_) => {}
                Step::Out(chunks) => {
                    prop_assert_eq!(bench.daemon.swap(Direction::Out, chunks * CHUNK), SwapOutcome::Done);
                }
                Step::In(chunks) => {
                    prop_assert_eq!(bench.daemon.swap(Direction::In, chunks * CHUNK), SwapOutcome::Done);
                    prop_assert!(bench.usage().1 <= chunks * CHUNK);
                }
                Step::Work => {
                    bench.daemon.swap(Direction::In, 0);
                    let fine = bench.launch(|| {
                        live.iter().all(|(at, bytes)| bench.driver.read(*at, bytes.len()).unwrap() == *bytes)
                    });
                    prop_assert!(fine, "a byte changed");
                    bench.idle();
                }
            }
            let usage = bench.daemon.block().agent.usage();
            prop_assert_eq!(usage.resident_bytes - CONTEXT + usage.swapped_bytes, usage.arena_bytes);
            prop_assert_eq!(bench.driver.used(), usage.resident_bytes - CONTEXT);
        }
    }
}
