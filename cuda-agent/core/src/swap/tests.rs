//! Swap-ins by credit: they go as far as the daemon lets them, wait, and end well however that ends.

use std::time::Duration;

use rtswap_wire::page::{Direction, SwapOutcome};

use crate::agent::tests::{Bench, CHUNK, CONTEXT, bench, pattern};
use crate::memory::{Reins, Step};
use crate::work::in_context;

const CHUNKS: u64 = 4;

/// All chunks of a program out, and no budget left to come back with.
fn out(bench: &mut Bench) -> (u64, Vec<u8>) {
    let at = bench.alloc(CHUNKS * CHUNK);
    let bytes = pattern(7, (CHUNKS * CHUNK) as usize);
    bench.launch(|| bench.driver.write(at, &bytes)).unwrap();
    bench.idle();
    bench.daemon.set_volume(CHUNKS * CHUNK);
    let outcome = bench.daemon.swap(Direction::Out, CHUNKS * CHUNK);
    assert_eq!(outcome, SwapOutcome::Done);
    raise(bench, 0);
    (at, bytes)
}

/// Budget for that many chunks beside the context.
fn raise(bench: &Bench, chunks: u64) {
    let block = bench.daemon.block();
    let bytes = CONTEXT + chunks * CHUNK;
    assert_eq!(block.daemon.set_budget(&block.agent, bytes), bytes);
}

fn credit(bench: &Bench, bytes: u64) {
    let block = bench.daemon.block();
    block.daemon.set_credit(&block.agent, bytes);
    bench.daemon.ring(Direction::In);
}

fn until_swapped(bench: &Bench, bytes: u64) {
    bench.daemon.until("chunks that come in", |block| {
        (block.agent.usage().swapped_bytes == bytes).then_some(())
    });
}

/// Has one chunk come in, and the rest wait.
fn one_comes(bench: &mut Bench) -> u32 {
    raise(bench, 1);
    let left = (CHUNKS - 1) * CHUNK;
    let seq = bench.daemon.request(Direction::In, 0, left);
    until_swapped(bench, left);
    seq
}

#[test]
fn a_chunk_comes_for_each_that_the_budget_is_raised_by() {
    let mut bench = bench("chunkwise", |_| ());
    let (at, bytes) = out(&mut bench);
    let seq = bench.daemon.request(Direction::In, 0, CHUNKS * CHUNK);
    for came in 1..=CHUNKS {
        // Rung in vain, it stays.
        bench.daemon.ring(Direction::In);
        std::thread::sleep(Duration::from_millis(10));
        let (resident, swapped) = bench.usage();
        assert_eq!(swapped, (CHUNKS - came + 1) * CHUNK);
        assert_eq!(resident, CONTEXT + (came - 1) * CHUNK);
        raise(&bench, came);
        credit(&bench, (CHUNKS - came) * CHUNK);
        until_swapped(&bench, (CHUNKS - came) * CHUNK);
    }
    assert_eq!(bench.daemon.outcome(seq), SwapOutcome::Done);
    let read = bench.launch(|| bench.driver.read(at, bytes.len()));
    assert!(read.unwrap() == bytes);
}

#[test]
fn credit_holds_a_swap_in_and_abort_ends_it() {
    let mut bench = bench("credit", |_| ());
    bench.alloc(4 * CHUNK);
    bench.daemon.set_volume(4 * CHUNK);
    assert_eq!(
        bench.daemon.swap(Direction::Out, 4 * CHUNK),
        SwapOutcome::Done
    );
    let seq = bench.daemon.request(Direction::In, 0, 3 * CHUNK);
    bench.daemon.until("one chunk", |block| {
        (block.agent.usage().swapped_bytes == 3 * CHUNK).then_some(())
    });
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(bench.usage().1, 3 * CHUNK, "no further than its credit");
    let block = bench.daemon.block();
    block.daemon.abort_swap(&block.agent, seq);
    bench.daemon.ring(Direction::In);
    assert_eq!(bench.daemon.outcome(seq), SwapOutcome::Aborted);
    assert_eq!(bench.usage(), (CHUNK + CONTEXT, 3 * CHUNK));
}

#[test]
fn credit_that_comes_while_chunks_land_is_found_without_a_bell() {
    let mut bench = bench("landing", |_| ());
    out(&mut bench);
    raise(&bench, CHUNKS);
    let device = &bench.agent.devices[0];
    let context = bench.agent.work.context_on(device.ordinal).unwrap();
    let mut asked = vec![];
    // The first may go at once, the others only by the time that the one before has landed.
    let mut reins = |next| {
        let again = asked.last() == Some(&next);
        let first = asked.is_empty();
        asked.push(next);
        if first || again {
            Reins::Go
        } else {
            Reins::Wait
        }
    };
    let step = in_context(bench.driver, context, || {
        let mut memory = device.memory();
        Ok(memory.swap(Direction::In, 0, context, &mut 0, &mut reins))
    });
    assert_eq!(step, Ok(Step::Over(SwapOutcome::Done.into())));
    assert_eq!(asked.len() as u64, 2 * CHUNKS - 1);
    assert_eq!(bench.usage().1, 0);
}

#[test]
fn the_swap_thread_serves_on_while_an_operation_waits() {
    let mut bench = bench("serves", |_| ());
    out(&mut bench);
    let seq = one_comes(&mut bench);
    assert_eq!(bench.daemon.set_volume(6 * CHUNK), 6 * CHUNK);
    raise(&bench, CHUNKS);
    credit(&bench, 0);
    assert_eq!(bench.daemon.outcome(seq), SwapOutcome::Done);
}

#[test]
fn budget_that_the_program_took_fails_the_operation_and_does_not_hold_it() {
    let mut bench = bench("taken", |_| ());
    out(&mut bench);
    let seq = one_comes(&mut bench);
    raise(&bench, 2);
    bench.alloc(CHUNK);
    credit(&bench, (CHUNKS - 2) * CHUNK);
    assert_eq!(bench.daemon.outcome(seq), SwapOutcome::Failed);
    assert_eq!(bench.usage(), (CONTEXT + 2 * CHUNK, (CHUNKS - 1) * CHUNK));
}

#[test]
fn a_daemon_that_is_lost_ends_the_waiting() {
    let mut bench = bench("lost-waiting", |_| ());
    let (at, bytes) = out(&mut bench);
    one_comes(&mut bench);
    bench.daemon.die();
    bench.daemon = bench.listener.welcome(bench.terms);
    let state = bench.daemon.hello.devices[0];
    assert_eq!(state.swapped_bytes, (CHUNKS - 1) * CHUNK);
    // The next daemon's first operation has the same number.
    assert_eq!(bench.daemon.swap(Direction::In, 0), SwapOutcome::Done);
    let read = bench.launch(|| bench.driver.read(at, bytes.len()));
    assert!(read.unwrap() == bytes);
}

#[test]
fn alone_nothing_waits_for_credit() {
    let mut bench = bench("alone-waiting", |terms| terms.orphan_ms = 50);
    let (at, bytes) = out(&mut bench);
    one_comes(&mut bench);
    bench.listener.close();
    bench.daemon.die();
    let (agent, driver) = (bench.agent, bench.driver);
    let read = std::thread::spawn(move || {
        let _call = agent.enter();
        driver.read(at, bytes.len()).map(|read| read == bytes)
    });
    bench
        .daemon
        .until("the program goes on", |_| read.is_finished().then_some(()));
    assert_eq!(read.join().unwrap(), Ok(true));
}
