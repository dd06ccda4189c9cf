//! The program's own memory against a fake driver and a fake daemon, swapped by the real thread.

mod bound;
mod shared;

use proptest::prelude::*;
use rtswap_wire::page::{Direction, SwapOutcome};

use super::*;
use crate::agent::tests::{Bench, CHUNK, CONTEXT, bench, pattern};
use crate::driver::Driver;
use crate::driver::fake::{FakeDriver, UNIT};
use crate::session::fake_daemon::Terms;

const REGION: u64 = 64 * UNIT;
const PROP: AllocationProp = AllocationProp {
    kind: AllocationProp::PINNED,
    handle_types: 0,
    location: Location {
        kind: Location::DEVICE,
        id: 0,
    },
    metadata: 0,
    flags: [0; 8],
};

fn rights(rights: u32) -> [Access; 1] {
    let location = Location::device(0);
    [Access { location, rights }]
}

/// A program that makes these calls, where the driver's own must not be needed.
struct Program {
    bench: Bench,
    region: u64,
}

impl Program {
    fn new(name: &str, slots: u64) -> Self {
        Self::with_terms(name, slots, |_| ())
    }

    fn with_terms(name: &str, slots: u64, change: impl FnOnce(&mut Terms)) -> Self {
        let bench = bench(name, change);
        // The agent learns the context by it.
        bench.agent.alloc(1).unwrap().unwrap();
        bench.daemon.set_volume(slots * CHUNK);
        let region = bench.driver.reserve(REGION, UNIT).unwrap();
        bench.agent.addresses_reserved(region, REGION);
        Self { bench, region }
    }

    fn driver(&self) -> &'static FakeDriver {
        self.bench.driver
    }

    /// Chunks that hold the program's own memory.
    fn bundles(&self) -> u64 {
        self.bench.daemon.block().agent.usage().arena_bytes / CHUNK - 1
    }

    fn create(&self, units: u64) -> Result<u64> {
        self.create_as(units, &PROP)
    }

    fn create_as(&self, units: u64, prop: &AllocationProp) -> Result<u64> {
        let unused = || panic!("nothing here is the driver's");
        let bytes = units * UNIT;
        self.bench.agent.create_physical(bytes, prop, 0, unused)
    }

    fn release(&self, handle: u64) -> Result<()> {
        self.bench.agent.release_physical(handle, || unreachable!())
    }

    fn map(&self, unit: u64, units: u64, handle: u64) -> Result<()> {
        let (at, bytes) = (self.region + unit * UNIT, units * UNIT);
        let unused = || unreachable!();
        let agent = self.bench.agent;
        agent.map_physical(at, bytes, 0, handle, 0, unused)
    }

    fn unmap(&self, unit: u64, units: u64) -> Result<()> {
        let (at, bytes) = (self.region + unit * UNIT, units * UNIT);
        let driver = |at, bytes| self.driver().unmap(at, bytes);
        self.bench.agent.unmap_physical(at, bytes, driver)
    }

    fn allow(&self, unit: u64, units: u64, access: &[Access]) -> Result<()> {
        let (at, bytes) = (self.region + unit * UNIT, units * UNIT);
        let driver = |at, bytes| self.driver().set_access(at, bytes, access);
        self.bench.agent.set_access(at, bytes, access, driver)
    }

    fn allowed(&self, unit: u64) -> Option<u64> {
        let at = self.region + unit * UNIT;
        let answer = self.bench.agent.get_access(Location::device(0), at)?;
        answer.ok()
    }

    fn out(&mut self, chunks: u64) {
        let target = chunks * CHUNK;
        let outcome = self.bench.daemon.swap(Direction::Out, target);
        assert_eq!(outcome, SwapOutcome::Done);
    }

    fn back(&mut self, chunks: u64) {
        let target = chunks * CHUNK;
        let outcome = self.bench.daemon.swap(Direction::In, target);
        assert_eq!(outcome, SwapOutcome::Done);
    }

    /// GPU work, with everything there.
    fn work<T: Send>(&mut self, work: impl FnOnce(&FakeDriver, u64) -> T + Send) -> T {
        self.back(0);
        let (driver, region) = (self.bench.driver, self.region);
        let done = self.bench.launch(|| work(driver, region));
        self.bench.idle();
        done
    }

    fn write(&mut self, unit: u64, bytes: &[u8]) {
        self.work(|driver, region| driver.write(region + unit * UNIT, bytes).unwrap());
    }

    fn read(&mut self, unit: u64, len: usize) -> Result<Vec<u8>> {
        self.work(|driver, region| driver.read(region + unit * UNIT, len))
    }
}

#[test]
fn small_pieces_share_chunks_and_a_large_handle_takes_several() {
    let program = Program::new("pieces", 8);
    let before = program.bench.usage().0;
    let small: Vec<u64> = (0..4).map(|_| program.create(1).unwrap()).collect();
    assert_eq!(program.bench.usage().0 - before, CHUNK, "four units are δ");
    let large = program.create(9).unwrap();
    assert_eq!(program.bench.usage().0 - before, 4 * CHUNK);
    assert_eq!(program.driver().used(), CHUNK + 13 * UNIT);
    for handle in small {
        program.release(handle).unwrap();
    }
    assert_eq!(program.bench.usage().0 - before, 3 * CHUNK, "a whole one");
    // Three units of the last bundle are free, and one more is opened.
    let other = program.create(4).unwrap();
    assert_eq!(program.bench.usage().0 - before, 4 * CHUNK);
    program.release(large).unwrap();
    program.release(other).unwrap();
    assert_eq!(program.bench.usage().0, before);
    assert_eq!(program.driver().used(), CHUNK);
    assert_eq!(program.release(other), Err(Status::INVALID_VALUE));
}

#[test]
fn what_is_mapped_while_it_is_out_is_there_when_it_comes_back() {
    let mut program = Program::new("mapped-out", 8);
    let handle = program.create(6).unwrap();
    program.map(0, 6, handle).unwrap();
    program.allow(0, 6, &rights(Access::READ_WRITE)).unwrap();
    let bytes = pattern(5, 6 * UNIT as usize);
    program.write(0, &bytes);
    program.unmap(0, 6).unwrap();
    // Mapped nowhere: copied through addresses of the agent's own.
    program.out(3);
    assert_eq!(program.driver().used(), 0);
    program.map(20, 6, handle).unwrap();
    assert_eq!(program.map(20, 6, handle), Err(Status::INVALID_VALUE));
    assert_eq!(program.map(62, 6, handle), Err(Status::INVALID_VALUE));
    assert_eq!(program.allowed(20), Some(0));
    program.allow(20, 6, &rights(Access::READ)).unwrap();
    assert_eq!(program.allowed(22), Some(1));
    assert_eq!(program.read(20, bytes.len()), Ok(bytes.clone()));
    let denied = program.work(|driver, region| driver.write(region + 20 * UNIT, &[1]));
    assert_eq!(denied, Err(Status(700)), "it may only be read");
    // Read-only memory comes back through addresses of the agent's own too.
    program.out(3);
    assert_eq!(program.read(20, bytes.len()), Ok(bytes));
    // The last mapping of a released handle frees it.
    program.release(handle).unwrap();
    assert_eq!(program.map(0, 6, handle), Err(Status::INVALID_VALUE));
    program.unmap(20, 6).unwrap();
    assert_eq!(program.bench.usage(), (CHUNK + CONTEXT, 0));
    assert_eq!(program.driver().mappings(), 1, "of the arena's chunk");
}

#[test]
fn a_part_of_a_handle_that_is_mapped_leaves_and_returns_with_all_of_it() {
    let mut program = Program::new("part", 8);
    let handle = program.create(6).unwrap();
    program.map(0, 6, handle).unwrap();
    program.allow(0, 6, &rights(Access::READ_WRITE)).unwrap();
    let bytes = pattern(4, 6 * UNIT as usize);
    program.write(0, &bytes);
    assert_eq!(program.map(10, 7, handle), Err(Status::INVALID_VALUE));
    // The driver must see it at once, so that it waits for a job.
    program.out(3);
    let (agent, at) = (program.bench.agent, program.region + 10 * UNIT);
    let from = |offset| agent.map_physical(at, 5 * UNIT, offset, handle, 0, || unreachable!());
    assert_eq!(from(UNIT), Err(Status::NOT_SUPPORTED));
    let part = move || agent.map_physical(at, 5 * UNIT, 0, handle, 0, || unreachable!());
    assert_eq!(program.work(|_, _| part()), Ok(()));
    program.allow(10, 5, &rights(Access::READ)).unwrap();
    program.unmap(0, 6).unwrap();
    program.out(3);
    let len = 5 * UNIT as usize;
    assert_eq!(program.read(10, len), Ok(bytes[..len].to_vec()));
    assert!(program.read(10, len + 1).is_err(), "no more than that");
    program.map(0, 6, handle).unwrap();
    program.allow(0, 6, &rights(Access::READ)).unwrap();
    assert_eq!(program.read(0, bytes.len()), Ok(bytes));
}

#[test]
fn a_handle_mapped_twice_stays_one_memory() {
    let mut program = Program::new("twice", 8);
    let handle = program.create(5).unwrap();
    for unit in [0, 10] {
        program.map(unit, 5, handle).unwrap();
        program.allow(unit, 5, &rights(Access::READ_WRITE)).unwrap();
    }
    let at = program.region + 12 * UNIT;
    let again = program.bench.agent.retain_physical(at, || unreachable!());
    assert_eq!(again, Ok(handle));
    let bytes = pattern(8, 5 * UNIT as usize);
    program.write(0, &bytes);
    program.out(3);
    assert_eq!(program.read(10, bytes.len()), Ok(bytes.clone()));
    program.out(1);
    program.unmap(0, 5).unwrap();
    program.release(handle).unwrap();
    program.release(handle).unwrap();
    assert_eq!(program.release(handle), Err(Status::INVALID_VALUE));
    assert_eq!(program.read(10, bytes.len()), Ok(bytes));
    let mapped = program.bench.agent.mapped_at(at).unwrap();
    assert_eq!((mapped.at, mapped.bytes), (at - 2 * UNIT, 5 * UNIT));
}

#[test]
fn ranges_must_be_whole_mappings() {
    let program = Program::new("ranges", 4);
    let [one, two] = [2, 3].map(|units| program.create(units).unwrap());
    program.map(0, 2, one).unwrap();
    program.map(2, 3, two).unwrap();
    for (unit, units) in [(0, 1), (1, 1), (0, 4), (0, 6), (1, 4)] {
        let wrong = Err(Status::INVALID_VALUE);
        assert_eq!(program.unmap(unit, units), wrong, "{unit} {units}");
        let all = rights(Access::READ_WRITE);
        assert_eq!(program.allow(unit, units, &all), wrong, "{unit} {units}");
    }
    program.allow(0, 5, &rights(Access::READ_WRITE)).unwrap();
    let agent = program.bench.agent;
    let free = agent.free_addresses(program.region, REGION, || unreachable!());
    assert_eq!(free, Err(Status::INVALID_VALUE), "something is mapped");
    program.unmap(0, 5).unwrap();
    agent
        .free_addresses(program.region, REGION, || Ok(()))
        .unwrap();
    assert!(agent.mapped_at(program.region).is_none());
}

#[test]
fn what_must_stay_the_drivers_is_counted_until_nothing_needs_it() {
    let program = Program::new("alone", 4);
    let (agent, driver) = (program.bench.agent, program.driver());
    let before = program.bench.usage();
    // Compressible memory is left to the driver.
    let odd = AllocationProp {
        flags: [1, 0, 0, 0, 0, 0, 0, 0],
        ..PROP
    };
    let bytes = 2 * UNIT;
    let create = || driver.create(0, bytes).map(|handle| handle.0);
    let handle = agent.create_physical(bytes, &odd, 0, create).unwrap();
    assert!(!Book::is_ours(handle));
    assert_eq!(program.bench.usage().0 - before.0, bytes);
    let (at, raw) = (program.region, crate::cuda::Handle(handle));
    let map = || driver.map(at, bytes, raw);
    agent.map_physical(at, bytes, 0, handle, 0, map).unwrap();
    let ours = program.create(2).unwrap();
    program.map(2, 2, ours).unwrap();
    // A run of ours and the driver's.
    program.allow(0, 4, &rights(Access::READ_WRITE)).unwrap();
    driver.write(at, &vec![3; 4 * UNIT as usize]).unwrap();
    agent.release_physical(handle, || Ok(())).unwrap();
    assert_eq!(program.bench.usage().0 - before.0, CHUNK + bytes);
    program.unmap(0, 4).unwrap();
    assert_eq!(program.bench.usage().0 - before.0, CHUNK);
    let refused = || Err(Status::NOT_SUPPORTED);
    let refused = agent.create_physical(bytes, &odd, 0, refused);
    assert_eq!(refused, Err(Status::NOT_SUPPORTED));
    assert_eq!(program.bench.usage().0 - before.0, CHUNK);
}

#[test]
fn memory_of_the_host_is_not_counted_and_that_of_unknown_places_is() {
    let program = Program::new("places", 4);
    let (agent, driver) = (program.bench.agent, program.driver());
    let before = program.bench.usage();
    for (kind, counted) in [
        (Location::HOST, 0),
        (Location::HOST_NUMA, 0),
        (Location::HOST_NUMA_CURRENT, 0),
        // CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN, or whatever else comes after it.
        (6, UNIT),
    ] {
        let location = Location { kind, id: 0 };
        let prop = AllocationProp { location, ..PROP };
        let create = || driver.create(0, UNIT).map(|handle| handle.0);
        let handle = agent.create_physical(UNIT, &prop, 0, create).unwrap();
        assert!(!Book::is_ours(handle), "{kind}");
        assert_eq!(program.bench.usage().0 - before.0, counted, "{kind}");
        agent.release_physical(handle, || Ok(())).unwrap();
        assert_eq!(program.bench.usage(), before, "{kind}");
    }
}

#[test]
fn what_a_peer_may_use_comes_back_and_stays() {
    let mut program = Program::new("peer", 8);
    let handle = program.create(4).unwrap();
    program.map(0, 4, handle).unwrap();
    program.allow(0, 4, &rights(Access::READ_WRITE)).unwrap();
    let bytes = pattern(2, 4 * UNIT as usize);
    program.write(0, &bytes);
    program.out(2);
    let peer = [Access::full(1)];
    std::thread::scope(|scope| {
        let (agent, driver, at) = (program.bench.agent, program.bench.driver, program.region);
        let allowed = scope.spawn(move || {
            let call = |at, bytes| driver.set_access(at, bytes, &peer);
            agent.set_access(at, CHUNK, &peer, call)
        });
        program.back(0);
        program.bench.grant_until(|| allowed.is_finished());
        assert_eq!(allowed.join().unwrap(), Ok(()));
    });
    program.bench.idle();
    program.out(2);
    // The arena's chunk left; what a peer may use at any time did not.
    assert_eq!(program.bench.usage(), (CHUNK + CONTEXT, CHUNK));
    let arena = program.bench.daemon.block().agent.usage().arena_bytes;
    assert_eq!(arena, CHUNK, "it counts as what cannot leave");
    assert_eq!(
        program.driver().read(program.region, bytes.len()),
        Ok(bytes)
    );
    program.unmap(0, 4).unwrap();
    program.release(handle).unwrap();
    assert_eq!(program.bench.usage(), (CONTEXT, CHUNK));
}

#[test]
fn what_another_gpu_may_reach_never_leaves() {
    let mut program = Program::new("reach", 8);
    let (agent, driver) = (program.bench.agent, program.driver());
    let at = agent.alloc(2 * CHUNK).unwrap().unwrap();
    let handle = program.create(4).unwrap();
    program.map(0, 4, handle).unwrap();
    program.out(4);
    assert_eq!(driver.used(), 0);
    program.work(|_, region| {
        agent.keep_range(at, 1).unwrap();
        agent.keep_range(region, 1).unwrap();
    });
    program.out(4);
    // The arena's first object lies in a chunk of the second.
    let arena = program.bench.daemon.block().agent.usage().arena_bytes;
    assert_eq!(
        (arena, driver.used()),
        (0, 4 * CHUNK),
        "shared chunks stay too"
    );
    program.work(|_, _| agent.devices[0].memory().share(1).unwrap());
    let later = agent.alloc(CHUNK).unwrap().unwrap();
    for address in [at, later] {
        assert!(driver.may_write(1, address), "a peer reaches all of it");
    }
    program.out(8);
    assert!(driver.read(later, 1).is_ok());
    for address in [at, later] {
        agent.free(address).unwrap().unwrap();
    }
    program.unmap(0, 4).unwrap();
    program.release(handle).unwrap();
    assert_eq!(driver.used(), CHUNK);
}

#[derive(Clone, Debug)]
enum Step {
    /// Created, mapped for all use and filled.
    Load(u64, u64),
    Create(u64),
    Release(usize),
    Retain(usize),
    Map(usize, u64),
    Unmap(usize),
    Allow(usize, u32),
    Write(usize),
    Out(u64),
    In(u64),
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..32usize;
    prop_oneof![
        4 => (1..6u64, 0..20u64).prop_map(|(units, at)| Step::Load(units, 3 * at)),
        2 => (1..10u64).prop_map(Step::Create),
        1 => any.clone().prop_map(Step::Release),
        1 => any.clone().prop_map(Step::Retain),
        4 => (any.clone(), 0..20u64).prop_map(|(pick, at)| Step::Map(pick, 3 * at)),
        1 => any.clone().prop_map(Step::Unmap),
        3 => (any.clone(), prop_oneof![Just(0), Just(1), Just(3)])
            .prop_map(|(pick, rights)| Step::Allow(pick, rights)),
        3 => any.prop_map(Step::Write),
        2 => (0..12u64).prop_map(Step::Out),
        2 => (0..12u64).prop_map(Step::In),
        1 => Just(Step::Check),
    ]
}

/// What a program knows of its memory.
#[derive(Default)]
struct Model {
    memories: Vec<Memory>,
    /// Unit, memory, rights.
    maps: Vec<(u64, usize, u32)>,
}

struct Memory {
    handle: u64,
    units: u64,
    references: u32,
    /// Once written.
    bytes: Option<Vec<u8>>,
}

impl Model {
    fn lives(&self, memory: usize) -> bool {
        let mapped = self.maps.iter().any(|map| map.1 == memory);
        self.memories[memory].references > 0 || mapped
    }

    fn units(&self) -> u64 {
        let live = (0..self.memories.len()).filter(|&memory| self.lives(memory));
        live.map(|memory| self.memories[memory].units).sum()
    }

    fn is_free(&self, unit: u64, units: u64) -> bool {
        let apart = |&(at, other, _): &(u64, usize, u32)| {
            unit + units <= at || at + self.memories[other].units <= unit
        };
        (unit + units) * UNIT <= REGION && self.maps.iter().all(apart)
    }

    fn pick(len: usize, pick: usize) -> Option<usize> {
        pick.checked_rem(len)
    }
}

fn check(program: &mut Program, model: &Model) -> std::result::Result<(), TestCaseError> {
    let maps = &model.maps;
    let wrong = program.work(|driver, region| {
        let is_wrong = |map: &&(u64, usize, u32)| {
            let memory = &model.memories[map.1];
            let read = driver.read(region + map.0 * UNIT, (memory.units * UNIT) as usize);
            match (&memory.bytes, map.2) {
                (_, 0) => read != Err(Status(700)),
                (Some(bytes), _) => read.as_ref() != Ok(bytes),
                (None, _) => read.is_err(),
            }
        };
        maps.iter().find(is_wrong).copied()
    });
    prop_assert_eq!(wrong, None);
    let used = CHUNK + model.units() * UNIT;
    prop_assert_eq!(program.driver().used(), used, "all that lives, once");
    let arena = model
        .memories
        .iter()
        .enumerate()
        .filter(|(memory, _)| model.lives(*memory));
    let pieces: u64 = arena.map(|(_, memory)| memory.units).sum();
    prop_assert!(program.bench.usage().0 >= CONTEXT + CHUNK + pieces * UNIT);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Any order of calls and swaps against a plain model: no byte changes, whatever is mapped
    /// where, every answer is the driver's, and nothing stays behind.
    #[test]
    fn no_sequence_of_mappings_loses_a_byte(steps in proptest::collection::vec(step(), 1..60)) {
        let mut program = Program::new("mappings", 12);
        let mut model = Model::default();
        for (seed, step) in steps.into_iter().enumerate() {
            let (bundles, units) = (program.bundles(), model.units());
            match step {
                Step::Load(units, unit) => {
                    if !model.is_free(unit, units) {
                        continue;
                    }
                    let handle = program.create(units).unwrap();
                    program.map(unit, units, handle).unwrap();
                    program.allow(unit, units, &rights(Access::READ_WRITE)).unwrap();
                    let bytes = pattern(seed as u64, (units * UNIT) as usize);
                    program.write(unit, &bytes);
                    model.maps.push((unit, model.memories.len(), Access::READ_WRITE));
                    model.memories.push(Memory { handle, units, references: 1, bytes: Some(bytes) });
                }
                Step::Create(units) => {
                    let handle = program.create(units).unwrap();
                    prop_assert!(model.memories.iter().all(|it| it.handle != handle));
                    model.memories.push(Memory { handle, units, references: 1, bytes: None });
                }
                Step::Release(pick) => {
                    let Some(pick) = Model::pick(model.memories.len(), pick) else { continue };
                    let memory = &mut model.memories[pick];
                    let held = memory.references > 0;
                    prop_assert_eq!(program.release(memory.handle).is_ok(), held);
                    memory.references -= u32::from(held);
                }
                Step::Retain(pick) => {
                    let Some(pick) = Model::pick(model.maps.len(), pick) else { continue };
                    let (unit, memory, _) = model.maps[pick];
                    let memory = &mut model.memories[memory];
                    let last = program.region + (unit + memory.units) * UNIT - 1;
                    let handle = program.bench.agent.retain_physical(last, || unreachable!());
                    prop_assert_eq!(handle, Ok(memory.handle));
                    memory.references += 1;
                }
                Step::Map(pick, unit) => {
                    let Some(pick) = Model::pick(model.memories.len(), pick) else { continue };
                    let memory = &model.memories[pick];
                    let fits = (unit + memory.units) * UNIT <= REGION;
                    let right = model.is_free(unit, memory.units) && memory.references > 0;
                    // Unreserved addresses are refused by the driver, which the fake does not know.
                    if fits {
                        prop_assert_eq!(program.map(unit, memory.units, memory.handle).is_ok(), right);
                    }
                    if right {
                        model.maps.push((unit, pick, 0));
                    }
                }
                Step::Unmap(pick) => {
                    let Some(pick) = Model::pick(model.maps.len(), pick) else { continue };
                    let (unit, memory, _) = model.maps.swap_remove(pick);
                    program.unmap(unit, model.memories[memory].units).unwrap();
                }
                Step::Allow(pick, given) => {
                    let Some(pick) = Model::pick(model.maps.len(), pick) else { continue };
                    let (unit, memory, allowed) = &mut model.maps[pick];
                    program.allow(*unit, model.memories[*memory].units, &rights(given)).unwrap();
                    *allowed = given;
                    prop_assert_eq!(program.allowed(*unit), Some(u64::from(given)));
                }
                Step::Write(pick) => {
                    let Some(pick) = Model::pick(model.maps.len(), pick) else { continue };
                    let (unit, memory, allowed) = model.maps[pick];
                    let memory = &mut model.memories[memory];
                    if allowed == Access::READ_WRITE {
                        let bytes = pattern(seed as u64, (memory.units * UNIT) as usize);
                        program.write(unit, &bytes);
                        memory.bytes = Some(bytes);
                    }
                }
                Step::Out(chunks) => program.out(chunks),
                Step::In(chunks) => program.back(chunks),
                Step::Check => check(&mut program, &model)?,
            }
            // No chunk is opened while holes are left.
            let (more, delta) = (model.units().saturating_sub(units), CHUNK / UNIT);
            if more > 0 {
                let holes = bundles * delta - units;
                let opened = more.saturating_sub(holes).div_ceil(delta);
                prop_assert_eq!(program.bundles(), bundles + opened);
            }
            let usage = program.bench.daemon.block().agent.usage();
            prop_assert_eq!(usage.resident_bytes - CONTEXT + usage.swapped_bytes, usage.arena_bytes);
            prop_assert!(program.driver().used() <= usage.resident_bytes - CONTEXT);
        }
        check(&mut program, &model)?;
        for (unit, memory, _) in std::mem::take(&mut model.maps) {
            program.unmap(unit, model.memories[memory].units).unwrap();
        }
        for memory in &model.memories {
            for _ in 0..memory.references {
                program.release(memory.handle).unwrap();
            }
        }
        prop_assert_eq!(program.driver().mappings(), 1, "of the arena's chunk");
        prop_assert_eq!(program.bench.usage(), (CHUNK + CONTEXT, 0));
    }
}
