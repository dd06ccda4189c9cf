//! Random streams against a plain model: who may have a freed byte, and when.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::*;
use crate::cuda::{Context, MemoryPool, Status, Stream};
use crate::driver::Driver;
use crate::driver::fake::FakeDriver;
use crate::memory::ALIGN;

const POOL: MemoryPool = MemoryPool(9);
const EXTENT: u64 = 32 * ALIGN;
const CONTEXT: Context = FakeDriver::CONTEXT;

fn room() -> (&'static FakeDriver, Room) {
    let driver = FakeDriver::leak([3; 16], 1 << 30);
    let room = Room::default();
    room.add_pool(POOL, PoolUse::Ours(u64::MAX));
    (driver, room)
}

fn stream(number: usize) -> Stream {
    Stream(0x1000 + number)
}

#[derive(Clone, Debug)]
enum Step {
    /// Allocates on a stream and works with it there.
    Alloc(usize, u64),
    /// Frees a live block on a stream, after more work there.
    Free(usize, usize),
    /// Frees a live block that is done with.
    FreeNow(usize),
    /// A stream does some of its work.
    Complete(usize, u64),
    Settle,
    /// A stream ends, also inside the agent, and another gets its handle.
    End(usize, bool),
    Trim(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..4usize, 1..12 * ALIGN).prop_map(|(on, bytes)| Step::Alloc(on, bytes)),
        4 => (0..64usize, 0..4usize).prop_map(|(pick, on)| Step::Free(pick, on)),
        1 => (0..64usize).prop_map(Step::FreeNow),
        3 => (0..4usize, 1..6u64).prop_map(|(on, by)| Step::Complete(on, by)),
        2 => Just(Step::Settle),
        1 => (0..4usize, any::<bool>()).prop_map(|(on, inside)| Step::End(on, inside)),
        1 => (0..6 * EXTENT).prop_map(Step::Trim),
    ];
    proptest::collection::vec(step, 1..200)
}

/// The model: what is live, and for each freed unit of memory what it must wait for. Who frees a
/// block has ordered that after all uses of it, so that only the last free of a unit counts.
#[derive(Default)]
struct Model {
    live: Vec<(u64, u64)>,
    /// The stream whose order it was freed in, the number of its work then, the stream's life.
    freed: BTreeMap<u64, (Stream, u64, u32)>,
    lives: [u32; 4],
}

fn units(at: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (at..at + bytes).step_by(ALIGN as usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nobody_gets_bytes_that_an_earlier_stream_still_uses(steps in steps()) {
        let (driver, room) = room();
        let mut model = Model::default();
        let mut next = 1u64 << 32;
        for step in steps {
            match step {
                Step::Alloc(on, bytes) => {
                    let line = Line::Created(stream(on));
                    let at = room.take(POOL, bytes, line).or_else(|| {
                        // Next to the last extent: neighbours must not join.
                        let at = next;
                        next += EXTENT;
                        room.grow(POOL, at, EXTENT, bytes, line)
                    });
                    let at = at.expect("an extent holds any of them");
                    prop_assert_eq!(at % ALIGN, 0);
                    for (other, len) in &model.live {
                        prop_assert!(at + bytes <= *other || other + len <= at, "two have it");
                    }
                    for unit in units(at, bytes) {
                        let Some((by, number, life)) = model.freed.remove(&unit) else {
                            continue;
                        };
                        let same = by == stream(on) && life == model.lives[on];
                        let passed = driver.progress(by).1 >= number;
                        prop_assert!(same || passed, "given while a stream uses it");
                    }
                    driver.submit(stream(on));
                    let (live, pool) = room.live_around(at + bytes - 1).expect("it is live");
                    prop_assert_eq!((live.at, live.bytes, pool), (at, bytes, POOL));
                    model.live.push((at, bytes));
                }
                Step::Free(pick, on) if !model.live.is_empty() => {
                    let (at, bytes) = model.live.swap_remove(pick % model.live.len());
                    let number = driver.submit(stream(on));
                    let mark = room.mark(driver, stream(on), CONTEXT).unwrap();
                    prop_assert_eq!(room.free(at, Line::Created(stream(on)), mark), Ok(()));
                    let free = (stream(on), number, model.lives[on]);
                    model.freed.extend(units(at, bytes).map(|unit| (unit, free)));
                    let again = room.mark(driver, stream(on), CONTEXT).unwrap();
                    let twice = room.free(at, Line::Created(stream(on)), again);
                    prop_assert_eq!(twice, Err(Status::INVALID_VALUE));
                    prop_assert!(room.live_around(at).is_none());
                }
                Step::FreeNow(pick) if !model.live.is_empty() => {
                    let (at, _) = model.live.swap_remove(pick % model.live.len());
                    prop_assert_eq!(room.free_at_once(at), Ok(()));
                    prop_assert_eq!(room.free_at_once(at), Err(Status::INVALID_VALUE));
                }
                Step::Complete(on, by) => {
                    let done = driver.progress(stream(on)).1;
                    driver.complete(stream(on), done + by);
                }
                Step::Settle => {
                    room.settle(driver);
                }
                Step::End(on, inside) => {
                    if inside {
                        room.note_end(stream(on));
                    } else {
                        room.end_stream(stream(on));
                    }
                    model.lives[on] += 1;
                }
                Step::Trim(keep) => {
                    for at in room.trim(POOL, keep) {
                        prop_assert!(!room.holds(at));
                        let used = model.live.iter().any(|(it, _)| (at..at + EXTENT).contains(it));
                        prop_assert!(!used, "given back with somebody in it");
                        for unit in units(at, EXTENT) {
                            if let Some((by, number, _)) = model.freed.remove(&unit) {
                                let passed = driver.progress(by).1 >= number;
                                prop_assert!(passed, "given back while a stream uses it");
                            }
                        }
                    }
                }
                Step::Free(..) | Step::FreeNow(_) => {}
            }
            let spans = model.live.iter().map(|(_, bytes)| bytes.next_multiple_of(ALIGN));
            let (_, used) = room.levels(POOL).unwrap();
            prop_assert_eq!(used.now, spans.sum::<u64>());
        }
        // Everything comes back in whole extents once all work is done.
        for (at, _) in std::mem::take(&mut model.live) {
            room.free_at_once(at).unwrap();
        }
        (0..4).for_each(|on| driver.complete(stream(on), u64::MAX));
        prop_assert!(room.wait(driver, std::time::Duration::ZERO));
        room.trim(POOL, 0);
        let (reserved, used) = room.levels(POOL).unwrap();
        prop_assert_eq!((reserved.now, used.now), (0, 0));
    }
}

#[test]
fn a_loop_on_one_stream_keeps_one_event() {
    let (driver, room) = room();
    let line = Line::Created(stream(0));
    let at = room.grow(POOL, 1 << 32, EXTENT, 700, line).unwrap();
    let mut at = at;
    for _ in 0..1000 {
        driver.submit(stream(0));
        let mark = room.mark(driver, stream(0), CONTEXT).unwrap();
        room.free(at, line, mark).unwrap();
        at = room.take(POOL, 700, line).expect("reused at once");
        assert_eq!(at, 1 << 32);
    }
    assert!(driver.events() <= 2, "{} events", driver.events());
}

#[test]
fn what_a_dead_context_marked_is_free_and_its_events_are_forgotten() {
    let (driver, room) = room();
    let line = Line::Legacy(CONTEXT);
    let at = room.grow(POOL, 1 << 32, EXTENT, 700, line).unwrap();
    driver.submit(Stream::LEGACY);
    let mark = room.mark(driver, Stream::LEGACY, CONTEXT).unwrap();
    room.free(at, line, mark).unwrap();
    assert!(room.settle(driver), "its work goes on");
    room.end_context(CONTEXT);
    assert!(!room.settle(driver));
    assert_eq!(room.release(true), [1 << 32]);
    let before = driver.events();
    room.mark(driver, Stream::LEGACY, CONTEXT).unwrap();
    assert_eq!(
        driver.events(),
        before + 1,
        "no event of the dead context is used"
    );
}

#[test]
fn a_pool_keeps_what_its_threshold_says_and_never_more_than_its_most() {
    let (driver, room) = room();
    let line = Line::Created(stream(0));
    let extents: Vec<u64> = (0..3).map(|i| (1 << 32) + i * EXTENT).collect();
    for &at in &extents {
        assert_eq!(room.grow(POOL, at, EXTENT, EXTENT, line), Some(at));
    }
    for &at in &extents {
        let mark = room.mark(driver, stream(0), CONTEXT).unwrap();
        room.free(at, line, mark).unwrap();
    }
    room.set_keep(POOL, 2 * EXTENT);
    assert!(!room.settle(driver));
    assert_eq!(room.release(false).len(), 1);
    let (reserved, used) = room.levels(POOL).unwrap();
    assert_eq!((reserved.now, reserved.most), (2 * EXTENT, 3 * EXTENT));
    assert_eq!((used.now, used.most), (0, 3 * EXTENT));
    room.add_pool(MemoryPool(10), PoolUse::Ours(EXTENT));
    assert!(room.may_grow(MemoryPool(10), EXTENT));
    assert!(!room.may_grow(MemoryPool(10), EXTENT + 1));
    assert!(driver.stream_done(stream(0)));
}
