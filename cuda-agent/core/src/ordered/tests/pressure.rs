//! Stream-ordered calls against a fake driver and a fake daemon.

use std::time::Duration;

use rtswap_wire::page::{Direction, SwapOutcome};

use crate::agent::tests::{Bench, CHUNK, CONTEXT, bench, pattern};
use crate::cuda::{MemoryPool, Status, Stream};
use crate::driver::fake::FakeDriver;
use crate::gate::InCall;
use crate::ops::Owner;

const POOL: MemoryPool = MemoryPool(0xabc);
const ONE: Stream = Stream(0x1001);
const TWO: Stream = Stream(0x1002);

impl Bench {
    fn take(&self, bytes: u64, stream: Stream) -> Result<u64, Status> {
        self.agent
            .alloc_async(bytes, stream, Some(POOL))
            .expect("the pool is ours")
    }

    fn give(&self, at: u64, stream: Stream) -> Result<(), Status> {
        self.agent.free_async(at, stream).expect("it is ours")
    }

    /// Looks what was freed by now, until the GPU holds no more than so many bytes. The swap thread
    /// looks too, and what it took out is there until it is freed.
    fn until_used(&self, bytes: u64) {
        self.agent.collect(self.agent.device(0).unwrap());
        self.daemon.until("the memory goes back", |_| {
            // Freed and counted under one lock.
            let _freed = self.agent.device(0).unwrap().memory();
            (self.driver.used() == bytes).then_some(())
        });
    }
}

/// A pool of four chunks at most, and the context known.
fn small(name: &str) -> Bench {
    let bench = bench(name, |_| ());
    let at = bench.alloc(1);
    bench.agent.free(at).unwrap().unwrap();
    bench.agent.pool_made(POOL, 0, true, 4 * CHUNK);
    bench
}

#[test]
fn what_is_about_to_be_free_is_waited_for() {
    let bench = small("wait");
    let at = bench.take(4 * CHUNK, ONE).unwrap();
    let work = bench.driver.submit(ONE);
    bench.give(at, ONE).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| bench.take(4 * CHUNK, TWO));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!waits.is_finished(), "given while a stream uses it");
        bench.driver.complete(ONE, work);
        assert!(waits.join().unwrap().is_ok());
    });
    // The other one's stream has it now, and gives it back at once to itself.
    let all = bench.agent.pool_levels(POOL).unwrap();
    assert_eq!((all.0.now, all.1.now), (4 * CHUNK, 4 * CHUNK));
}

#[test]
fn nobody_waits_who_must_not() {
    let bench = small("hurry");
    let at = bench.take(4 * CHUNK, ONE).unwrap();
    bench.driver.submit(ONE);
    bench.give(at, ONE).unwrap();
    {
        // A host function, whose stream may be the one.
        let _call = InCall::begin();
        assert_eq!(bench.take(CHUNK, TWO), Err(Status::OUT_OF_MEMORY));
    }
    bench.driver.set_capturing(TWO, true);
    let begun = bench.agent.begin_capture(TWO, || Status::SUCCESS);
    assert_eq!(begun, Status::SUCCESS);
    let other = Stream(0x1003);
    assert_eq!(bench.take(CHUNK, other), Err(Status::OUT_OF_MEMORY));
    // What is captured is the driver's, and frees nothing of ours.
    assert_eq!(bench.agent.alloc_async(CHUNK, TWO, Some(POOL)), None);
    let live = bench.alloc(100);
    assert_eq!(bench.give(live, TWO), Err(Status::INVALID_VALUE));
    assert_eq!(bench.agent.free(live), Some(Ok(())));
    // The same stream needs nobody's leave.
    assert_eq!(bench.take(4 * CHUNK, ONE), Ok(at));
    bench.driver.set_capturing(TWO, false);
}

#[test]
fn idle_memory_makes_room_for_what_cannot_wait() {
    let bench = bench("room", |terms| terms.budget = 4 * CHUNK + CONTEXT);
    bench.agent.pool_made(POOL, 0, true, 0);
    bench.agent.pool_keeps(POOL, u64::MAX);
    let at = bench.take(4 * CHUNK, ONE).unwrap();
    assert_eq!(
        bench.agent.free(at),
        Some(Ok(())),
        "cuMemFree, all work done"
    );
    assert_eq!(
        bench.usage().0,
        4 * CHUNK + CONTEXT,
        "its threshold keeps it"
    );
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| bench.agent.alloc(3 * CHUNK));
        bench.daemon.answer_next(|_| 4 * CHUNK + CONTEXT);
        assert!(asks.join().unwrap().unwrap().is_ok(), "the pool gives way");
    });
    let (reserved, _) = bench.agent.pool_levels(POOL).unwrap();
    assert_eq!(reserved.now, 0);
}

#[test]
fn memory_of_cu_mem_alloc_is_freed_in_order_too() {
    let bench = small("plain");
    let at = bench.alloc(2 * CHUNK);
    let work = bench.driver.submit(ONE);
    assert_eq!(bench.give(at + 512, ONE), Err(Status::INVALID_VALUE));
    bench.give(at, ONE).unwrap();
    assert_eq!(bench.give(at, ONE), Err(Status::INVALID_VALUE), "twice");
    assert_eq!(bench.agent.free(at), Some(Err(Status::INVALID_VALUE)));
    assert_eq!(bench.agent.look_up(at), Some(Err(Status::INVALID_VALUE)));
    let device = bench.agent.device(0).unwrap();
    bench.agent.collect(device);
    assert_eq!(bench.usage().0, 2 * CHUNK + CONTEXT, "a stream uses it");
    bench.driver.complete(ONE, work);
    bench.until_used(0);
    assert_eq!(bench.usage().0, CONTEXT);
}

#[test]
fn pools_of_the_host_and_of_other_kinds_are_the_drivers() {
    let bench = small("kinds");
    let [host, exported] = [MemoryPool(1), MemoryPool(2)];
    bench.agent.pool_elsewhere(host);
    bench.agent.pool_made(exported, 0, false, 0);
    // Opened to any GPU it stays where it is.
    assert_eq!(bench.agent.pool_shared(host), Ok(()));
    for (pool, elsewhere) in [(host, true), (exported, false), (POOL, false)] {
        assert_eq!(bench.agent.is_elsewhere(pool), elsewhere);
    }
    for pool in [host, exported, MemoryPool(3)] {
        assert_eq!(bench.agent.alloc_async(CHUNK, ONE, Some(pool)), None);
    }
    // Opened to another GPU before its first use it is the driver's, and after that it cannot be.
    assert_eq!(bench.agent.pool_shared(exported), Ok(()));
    let at = bench.take(CHUNK, ONE).unwrap();
    assert_eq!(bench.agent.pool_shared(POOL), Err(Status::NOT_SUPPORTED));
    assert_eq!(bench.agent.free(at), Some(Ok(())));
    assert_eq!(bench.agent.pool_shared(POOL), Ok(()));
    assert_eq!(bench.agent.alloc_async(CHUNK, ONE, Some(POOL)), None);
}

#[test]
fn pools_outlive_contexts_and_their_events_do_not() {
    let bench = small("context");
    let kept = bench.take(CHUNK, ONE).unwrap();
    let freed = bench.take(CHUNK, ONE).unwrap();
    let plain = bench.alloc(CHUNK);
    bench.driver.submit(ONE);
    bench.give(freed, ONE).unwrap();
    bench.give(plain, ONE).unwrap();
    bench.agent.end_context(FakeDriver::CONTEXT).unwrap();
    let found = bench.agent.look_up(kept).unwrap().unwrap();
    assert_eq!(found.owner, Owner::Pool(POOL));
    let device = bench.agent.device(0).unwrap();
    bench.agent.collect(device);
    let (reserved, used) = bench.agent.pool_levels(POOL).unwrap();
    assert_eq!((reserved.now, used.now), (CHUNK, CHUNK));
    bench.until_used(CHUNK);
    assert_eq!(bench.agent.free(kept), Some(Ok(())));
    bench.agent.pool_destroyed(POOL);
    bench.until_used(0);
}

#[test]
fn the_bytes_of_a_pool_swap_and_it_works_meanwhile() {
    let mut bench = small("swap");
    // Where no job runs the swap thread gives back what idles.
    bench.agent.pool_keeps(POOL, u64::MAX);
    let at = bench.take(2 * CHUNK, ONE).unwrap();
    let bytes = pattern(5, 2 * CHUNK as usize);
    bench.launch(|| bench.driver.write(at, &bytes).unwrap());
    bench.idle();
    bench.daemon.set_volume(2 * CHUNK);
    assert_eq!(
        bench.daemon.swap(Direction::Out, 2 * CHUNK),
        SwapOutcome::Done
    );
    // New memory is there at once, what is out stays out.
    let more = bench.take(CHUNK, TWO).unwrap();
    assert_ne!(more, at);
    bench.give(more, TWO).unwrap();
    assert_eq!(bench.take(CHUNK, TWO), Ok(more));
    assert_eq!(bench.usage().1, 2 * CHUNK);
    assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
    let back = bench.launch(|| bench.driver.read(at, bytes.len()).unwrap());
    assert!(back == bytes);
}
