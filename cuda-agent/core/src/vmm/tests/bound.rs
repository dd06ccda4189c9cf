//! The program's own memory bound to a multicast object: all of it is the driver's for good.

use std::time::{Duration, Instant};

use super::*;
use crate::agent::tests::CHUNK;
use crate::driver::fake::UNIT;

/// Binds by a driver that takes so many parts; what was bound, and what was taken back.
fn bind(
    program: &Program,
    handle: u64,
    (offset, units): (u64, u64),
    takes: usize,
) -> (Option<Result<()>>, Vec<Part>, u64) {
    let (mut bound, mut back) = (Vec::new(), 0);
    let take = |part| {
        if bound.len() == takes {
            return Err(Status::OUT_OF_MEMORY);
        }
        bound.push(part);
        Ok(())
    };
    let agent = program.bench.agent;
    let (offset, bytes) = (offset * UNIT, units * UNIT);
    let result = agent.bind_physical(handle, offset, bytes, take, |bytes| back = bytes);
    (result, bound, back)
}

#[test]
fn what_is_bound_comes_back_and_stays_part_by_part() {
    let mut program = Program::new("bound", 8);
    // Of four units each: three in a first chunk, beside another's, and the rest in others.
    let other = program.create(1).unwrap();
    let handle = program.create(9).unwrap();
    program.map(0, 9, handle).unwrap();
    program.allow(0, 9, &[Access::full(0)]).unwrap();
    program.write(3, b"bound");
    program.out(4);
    assert!(program.bench.usage().1 >= 3 * CHUNK, "out");
    program.back(0);
    let bench = &program.bench;
    bench.launch(|| {
        let (result, parts, _) = bind(&program, handle, (2, 6), 9);
        result.unwrap().unwrap();
        let mut next = 0;
        for part in &parts {
            assert_eq!(part.at, next);
            next += part.bytes;
            assert!(
                program
                    .driver()
                    .is_live(part.handle, part.offset + part.bytes)
            );
        }
        assert_eq!(next, 6 * UNIT);
        assert!(parts.len() > 1, "no part is larger than a chunk");
        // Where the driver takes only some of it nothing stays bound.
        let (result, parts, back) = bind(&program, handle, (0, 9), 1);
        assert_eq!(result, Some(Err(Status::OUT_OF_MEMORY)));
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), back);
        for wrong in [(0, 0), (0, 10), (9, 1), (1, u64::MAX / UNIT)] {
            let (result, parts, _) = bind(&program, handle, wrong, 9);
            assert_eq!((result, parts.len()), (Some(Err(Status::INVALID_VALUE)), 0));
        }
        assert_eq!(bind(&program, 7, (0, 1), 9).0, None, "the driver's");
    });
    program.bench.idle();
    program.out(8);
    let at = program.region + 3 * UNIT;
    assert_eq!(program.driver().read(at, 5).unwrap(), b"bound", "it left");
    program.release(other).unwrap();
    program.unmap(0, 9).unwrap();
    program.release(handle).unwrap();
}

/// Whether that is so soon.
fn in_time(is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() && start.elapsed() < Duration::from_secs(5) {
        std::thread::yield_now();
    }
    is_so()
}

#[test]
fn a_handle_that_another_thread_releases_stays_until_it_is_bound() {
    let program = Program::new("bound-released", 8);
    let (agent, driver) = (program.bench.agent, program.driver());
    let before = driver.used();
    let handle = program.create(3).unwrap();
    let mut is_bound = false;
    let result = program.bench.launch(|| {
        std::thread::scope(|scope| {
            let bind = |part: Part| {
                let release = scope.spawn(|| agent.release_physical(handle, || Ok(())));
                assert!(in_time(|| release.is_finished()), "it waits for the others");
                assert_eq!(release.join().unwrap(), Ok(()));
                is_bound = driver.is_live(part.handle, part.bytes);
                Ok(())
            };
            agent.bind_physical(handle, 0, 3 * UNIT, bind, |_| ())
        })
    });
    assert_eq!(result, Some(Ok(())));
    assert_eq!(driver.used(), before, "nobody needs it any more");
    assert!(is_bound, "the driver's handle was nobody's, or another's");
    let (result, parts, _) = bind(&program, handle, (0, 3), 9);
    assert_eq!((result, parts.len()), (Some(Err(Status::INVALID_VALUE)), 0));
}

/// The driver binds once all GPUs have joined, and they may join by a thread that needs the book before.
#[test]
fn other_threads_use_the_book_while_a_binding_waits_for_their_gpu() {
    let program = Program::new("bound-waits", 8);
    let [handle, other] = [3, 2].map(|units| program.create(units).unwrap());
    let agent = program.bench.agent;
    let result = program.bench.launch(|| {
        std::thread::scope(|scope| {
            let bind = |_| {
                let joins = scope.spawn(|| {
                    assert!(agent.mapped_at(program.region).is_none());
                    agent.release_physical(other, || Ok(()))
                });
                assert!(in_time(|| joins.is_finished()), "each waits for the other");
                joins.join().unwrap()
            };
            agent.bind_physical(handle, 0, 3 * UNIT, bind, |_| ())
        })
    });
    assert_eq!(result, Some(Ok(())));
    program.release(handle).unwrap();
    assert_eq!(program.release(handle), Err(Status::INVALID_VALUE));
}

#[test]
fn what_could_not_be_bound_is_the_programs_as_before() {
    let program = Program::new("bound-refused", 8);
    let before = program.driver().used();
    let handle = program.create(9).unwrap();
    program.bench.launch(|| {
        let (result, _, back) = bind(&program, handle, (0, 9), 1);
        assert_eq!(result, Some(Err(Status::OUT_OF_MEMORY)));
        assert!(back > 0);
    });
    program.release(handle).unwrap();
    assert_eq!(program.driver().used(), before);
}
