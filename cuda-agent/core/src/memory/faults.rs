//! Each driver call of a sequence is refused once: nothing is lost, and no account lies.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rtswap_wire::page::Direction;

use super::*;
use crate::agent::tests::{CHUNK, MEMORY, bench, pattern};
use crate::driver::fake::{FakeDriver, UNIT};

/// Slots of the backing store.
const SLOTS: usize = 12;
/// What the driver's state shows of memory that could not be taken off the GPU.
const STUCK: [&str; 2] = ["unmap", "release"];

#[derive(Clone, Debug)]
enum Act {
    Alloc(u64),
    Free(usize),
    /// Units, and whether the GPU may only read it in the end.
    Create(u64, bool),
    /// Maps it at more addresses.
    Again(usize),
    Destroy(usize),
    Out(u64),
    /// To so many chunks; stopped before the given one.
    In(u64, usize),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1..3 * CHUNK).prop_map(Act::Alloc),
        (0..8usize).prop_map(Act::Free),
        (1..9u64, any::<bool>()).prop_map(|(units, only)| Act::Create(units, only)),
        (0..8usize).prop_map(Act::Again),
        (0..8usize).prop_map(Act::Destroy),
        (0..8u64).prop_map(Act::Out),
        (0..8u64, 0..9usize).prop_map(|(left, stop)| Act::In(left, stop)),
    ];
    proptest::collection::vec(act, 4..14)
}

/// Physical memory of the program's own.
struct Own {
    pieces: Vec<PieceId>,
    at: Vec<u64>,
    data: Vec<u8>,
}

impl Own {
    fn placed(&self, mut at: u64) -> Vec<Placed> {
        let placed = self.pieces.iter().map(|&id| {
            at += id.bytes;
            (id, at - id.bytes)
        });
        placed.collect()
    }
}

struct Program {
    driver: &'static FakeDriver,
    memory: Memory,
    objects: Vec<(u64, Vec<u8>)>,
    own: Vec<Own>,
    next: u64,
}

impl Program {
    fn new(view: &View) -> Self {
        let driver = FakeDriver::leak([1; 16], MEMORY);
        let mut memory = Memory::new(driver, 0, view.clone()).unwrap();
        memory.set_view(view.clone(), 0);
        let (segments, pinned) = Backing::pin(driver, CHUNK, SLOTS);
        pinned.unwrap();
        memory.grow_backing(segments, FakeDriver::CONTEXT);
        Self {
            driver,
            memory,
            objects: Vec::new(),
            own: Vec::new(),
            next: 1 << 30,
        }
    }

    fn swap(&mut self, direction: Direction, chunks: u64, stop: usize) {
        let mut left = stop;
        let mut reins = |_| {
            left = left.saturating_sub(1);
            if left == 0 { Reins::Abort } else { Reins::Go }
        };
        let (context, target) = (FakeDriver::CONTEXT, chunks * CHUNK);
        self.memory
            .swap(direction, target, context, &mut 0, &mut reins);
    }

    /// As before work: everything comes back, after one refusal at most.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.swap(Direction::In, 0, usize::MAX);
        }
        assert_eq!(self.memory.swapped_bytes(), 0, "does not come back");
    }

    fn act(&mut self, act: &Act, number: u64) {
        match *act {
            Act::Alloc(bytes) => {
                if let Ok(at) = self.memory.alloc(bytes, FakeDriver::CONTEXT) {
                    let data = pattern(number, bytes as usize);
                    self.settle();
                    self.driver.write(at, &data).unwrap();
                    self.objects.push((at, data));
                }
            }
            Act::Free(pick) if pick < self.objects.len() => {
                let (at, _) = self.objects.swap_remove(pick);
                let _ = self.memory.free(at);
            }
            Act::Create(units, only_read) => {
                let Ok(pieces) = self.memory.create(units * UNIT) else {
                    return;
                };
                let data = pattern(number, (units * UNIT) as usize);
                let at = Vec::new();
                self.own.push(Own { pieces, at, data });
                let last = self.own.len() - 1;
                self.map(last);
                if let Some(&at) = self.own[last].at.first() {
                    self.settle();
                    self.driver.write(at, &self.own[last].data).unwrap();
                    if only_read {
                        self.restrict(last, at);
                    }
                } else {
                    self.destroy(last);
                }
            }
            Act::Again(pick) if pick < self.own.len() => self.map(pick),
            Act::Destroy(pick) if pick < self.own.len() => self.destroy(pick),
            Act::Out(chunks) => self.swap(Direction::Out, chunks.min(SLOTS as u64), usize::MAX),
            Act::In(left, stop) => self.swap(Direction::In, left, stop),
            Act::Free(_) | Act::Again(_) | Act::Destroy(_) => {}
        }
    }

    /// At addresses of its own, where the GPU may write; nowhere if that is refused.
    fn map(&mut self, pick: usize) {
        let own = &mut self.own[pick];
        let at = self.next;
        self.next += 64 * UNIT;
        let placed = own.placed(at);
        if self.memory.map(&placed).is_err() {
            return;
        }
        if self.memory.set_access(&placed, &[Access::full(0)]).is_err() {
            self.memory.unmap(&placed).unwrap();
            return;
        }
        own.at.push(at);
    }

    fn restrict(&mut self, pick: usize, at: u64) {
        let placed = self.own[pick].placed(at);
        let rights = Access {
            rights: Access::READ,
            ..Access::full(0)
        };
        let _ = self.memory.set_access(&placed, &[rights]);
    }

    fn destroy(&mut self, pick: usize) {
        let own = self.own.swap_remove(pick);
        for &at in &own.at {
            let placed = own.placed(at);
            // A program tries again.
            if self.memory.unmap(&placed).is_err() {
                self.memory.unmap(&placed).expect("only one is refused");
            }
        }
        let _ = self.memory.destroy(&own.pieces);
    }

    fn check(&self) {
        let usage = self.memory.usage();
        let used = self.driver.used();
        assert!(
            used <= usage.resident_bytes,
            "{used} bytes are there, {usage:?} are told"
        );
        let told = self.memory.view().agent().usage();
        assert_eq!(told, usage, "what the daemon is told");
    }

    fn check_bytes(&mut self) {
        self.settle();
        for (at, data) in &self.objects {
            assert_eq!(&self.driver.read(*at, data.len()).unwrap(), data);
        }
        for own in &self.own {
            for at in &own.at {
                assert_eq!(self.driver.read(*at, own.data.len()).unwrap(), own.data);
            }
        }
    }

    fn end(&mut self) {
        while let Some((at, _)) = self.objects.pop() {
            let _ = self.memory.free(at);
        }
        while !self.own.is_empty() {
            self.destroy(0);
        }
        self.check();
        if self.driver.refused().is_some_and(|it| STUCK.contains(&it)) {
            return;
        }
        let (used, mapped) = (self.driver.used(), self.driver.mappings());
        assert_eq!((used, mapped), (0, 0), "left on the GPU");
        assert_eq!(self.memory.usage().resident_bytes, 0, "left in the account");
    }
}

/// Does all of it with one call refused; how many calls there were.
fn run(view: &View, acts: &[Act], refused: usize) -> usize {
    let mut program = Program::new(view);
    program.driver.refuse_call(refused);
    for (number, act) in acts.iter().enumerate() {
        program.act(act, number as u64 + 1);
        program.check();
    }
    program.check_bytes();
    let calls = program.driver.calls();
    program.end();
    calls
}

#[test]
fn one_refused_call_loses_nothing() {
    let bench = bench("faults", |_| ());
    let view = bench.agent.devices[0].view();
    let config = Config {
        failure_persistence: None,
        ..Config::with_cases(24)
    };
    TestRunner::new(config)
        .run(&acts(), |acts| {
            let calls = run(&view, &acts, usize::MAX / 2);
            for refused in 0..calls {
                run(&view, &acts, refused);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn chunks_that_are_made_or_freed_never_pass_for_memory_that_stays() {
    let bench = bench("making", |_| ());
    let view = bench.agent.devices[0].view();
    let mut program = Program::new(&view);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (page, looks) = (view, Arc::clone(&seen));
    let look = move |call| {
        let usage = page.agent().usage();
        looks.lock().unwrap().push((call, usage));
    };
    program.driver.subscribe(Some(Arc::new(look)));
    let at = program.memory.alloc(3 * CHUNK, FakeDriver::CONTEXT);
    let pieces = program.memory.create(2 * CHUNK + UNIT).unwrap();
    program.memory.destroy(&pieces).unwrap();
    program.memory.free(at.unwrap()).unwrap();
    program.driver.subscribe(None);

    let seen = seen.lock().unwrap();
    for (call, usage) in seen.iter() {
        assert_eq!(usage.arena_bytes, usage.resident_bytes, "at {call}");
    }
    let calls = |name| seen.iter().filter(|(call, _)| *call == name).count();
    assert_eq!((calls("create"), calls("release")), (6, 6));
    let most = seen.iter().map(|(_, usage)| usage.arena_bytes).max();
    assert_eq!(most, Some(6 * CHUNK));
}

#[test]
fn a_broken_context_ends_all_the_same() {
    let bench = bench("broken", |_| ());
    bench.alloc(3 * CHUNK);
    // The first call is the wait for its work, as after a kernel that went astray.
    bench.driver.refuse_call(0);
    bench.agent.end_context(FakeDriver::CONTEXT).unwrap();
    assert_eq!(bench.driver.refused(), Some("synchronize"));
    assert_eq!((bench.driver.used(), bench.usage()), (0, (0, 0)));
}

#[test]
fn a_stream_without_its_events_is_freed_and_made_again() {
    let bench = bench("engine", |_| ());
    let view = bench.agent.devices[0].view();
    for refused in 0..3 {
        let mut program = Program::new(&view);
        let driver = program.driver;
        driver.refuse_call(refused);
        let mut prepare = || program.memory.prepare_engine(FakeDriver::CONTEXT);
        assert_eq!(prepare(), Err(Status::UNKNOWN));
        assert!(driver.refused().is_some());
        assert_eq!((driver.streams(), driver.events()), (0, 0));
        prepare().unwrap();
        assert_eq!((driver.streams(), driver.events()), (1, 2));
    }
}
