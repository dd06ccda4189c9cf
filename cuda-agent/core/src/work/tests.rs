//! Marks, drains and the bound on calls in flight, of an agent on a fake driver.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{Capture, in_context};
use crate::agent::tests::{Bench, bench};
use crate::cuda::{Context, Stream};
use crate::driver::Driver;
use crate::driver::fake::FakeDriver;
use crate::gate::{self, HostCall};

/// How long so many calls on a stream take.
fn calls(bench: &Bench, stream: Stream, count: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        drop(bench.agent.enter_on(stream, &|_| ()));
    }
    start.elapsed()
}

#[test]
fn a_call_too_far_ahead_waits_once_and_for_a_bounded_time() {
    const BOUND: Duration = Duration::from_secs(2);
    let bench = bench("ahead", |terms| {
        terms.in_flight = 32;
        terms.drain_ms = 2_000;
        terms.idle_us = 60_000_000;
    });
    bench.alloc(10);
    bench.launch(|| ());
    let stream = Stream(0x90);
    assert!(calls(&bench, stream, 500) < BOUND, "its GPU keeps up");
    bench.driver.set_busy(stream, true);
    assert!(
        calls(&bench, stream, 24) < BOUND,
        "so many may be in flight"
    );
    assert!(calls(&bench, stream, 40) >= BOUND);
    assert!(
        calls(&bench, stream, 500) < BOUND,
        "what it waits for may wait for it: it is not held twice"
    );
    bench.driver.set_busy(stream, false);
    assert!(calls(&bench, stream, 500) < BOUND, "that is over");
    bench.driver.set_busy(stream, true);
    assert!(
        calls(&bench, stream, 100) >= BOUND,
        "other work, held again"
    );
    bench.driver.set_busy(stream, false);
}

#[test]
fn the_default_stream_is_bounded_by_each_of_its_names() {
    const BOUND: Duration = Duration::from_millis(300);
    let bench = bench("default-ahead", |terms| {
        terms.in_flight = 32;
        terms.drain_ms = 300;
        terms.idle_us = 60_000_000;
    });
    bench.alloc(10);
    bench.launch(|| ());
    for name in [Stream(0), Stream::LEGACY, Stream::PER_THREAD] {
        bench.driver.set_busy(name, true);
        assert!(calls(&bench, name, 500) >= BOUND, "{name:?}");
        bench.driver.set_busy(name, false);
        // What is done makes room again.
        calls(&bench, name, 500);
    }
}

#[test]
fn many_streams_in_turn_are_counted_too() {
    let bench = bench("in-turn", |terms| {
        terms.in_flight = 64;
        terms.drain_ms = 300;
        terms.idle_us = 60_000_000;
    });
    bench.alloc(10);
    bench.launch(|| ());
    bench.driver.set_busy(Stream(0x1000), true);
    // More than a thread keeps in mind: each call pushes another stream out.
    let start = Instant::now();
    for call in 0..10_000 {
        calls(&bench, Stream(0x1000 + 0x10 * (call % 100)), 1);
    }
    assert!(start.elapsed() >= Duration::from_millis(300));
    bench.driver.set_busy(Stream(0x1000), false);
}

#[test]
fn a_stream_made_unseen_is_learnt_by_its_first_call() {
    let bench = bench("unseen", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let (used, idle) = (Stream(0x91), Stream(0x92));
    calls(&bench, used, 1);
    bench.driver.set_busy(used, true);
    assert!(!bench.agent.work.looks_done(0));
    bench.driver.set_busy(used, false);
    bench.driver.set_busy(idle, true);
    assert!(bench.agent.work.looks_done(0), "nobody worked on it");
    bench.driver.set_busy(idle, false);

    // Found done with the gate closed, it is asked again after its next call.
    bench.daemon.block().daemon.revoke(1);
    bench.daemon.ring(rtswap_wire::page::Direction::Out);
    bench.daemon.completed(1);
    bench.launch(|| {
        calls(&bench, used, 1);
    });
    bench.driver.set_busy(used, true);
    assert!(!bench.agent.work.looks_done(0));
    bench.driver.set_busy(used, false);
}

/// A drain that waits for a host function which waits for a thread that waits for the drain.
#[test]
fn a_drain_lets_through_whom_its_host_function_waits_for() {
    let bench = bench("host-call", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let stream = Stream(0x93);
    std::thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let (passed, passes) = mpsc::channel();
        scope.spawn(move || {
            let _call = HostCall::begin(device.bit);
            begun.send(()).unwrap();
            passes.recv_timeout(Duration::from_secs(20)).unwrap();
        });
        begins.recv().unwrap();
        let start = Instant::now();
        let closer = scope.spawn(|| device.end_job(&bench.agent.work, Duration::from_secs(20)));
        while gate::is_open(device.bit) {
            std::thread::yield_now();
        }
        drop(bench.agent.enter_on(stream, &|_| ()));
        // What it began must be waited for, although the stream was looked at before.
        bench.driver.set_busy(stream, true);
        passed.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(
            !closer.is_finished(),
            "the drain forgot the call let through"
        );
        bench.driver.set_busy(stream, false);
        assert!(closer.join().unwrap());
        assert!(start.elapsed() < Duration::from_secs(15));
    });
    assert!(!device.runs());
    assert!(!gate::is_open(device.bit));
}

/// The call let through has noted its stream, and puts its work there only after the drain looked.
#[test]
fn a_drain_asks_again_for_what_a_call_let_through_began_late() {
    let bench = bench("late-work", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let stream = Stream(0x95);
    bench.driver.set_apart(stream);
    std::thread::scope(|scope| {
        let (begun, begins) = mpsc::channel();
        let (passed, passes) = mpsc::channel();
        let host = scope.spawn(move || {
            let _call = HostCall::begin(device.bit);
            begun.send(()).unwrap();
            passes.recv_timeout(Duration::from_secs(20)).unwrap();
        });
        begins.recv().unwrap();
        let closer = scope.spawn(|| device.end_job(&bench.agent.work, Duration::from_secs(20)));
        while gate::is_open(device.bit) {
            std::thread::yield_now();
        }
        let call = bench.agent.enter_on(stream, &|_| ());
        passed.send(()).unwrap();
        host.join().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        bench.driver.set_busy(stream, true);
        drop(call);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!closer.is_finished(), "its work was forgotten");
        bench.driver.set_busy(stream, false);
        assert!(closer.join().unwrap());
    });
    assert!(!device.runs());
}

#[test]
fn without_a_host_function_nobody_passes_a_drain() {
    let bench = bench("no-host-call", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let stream = Stream(0x94);
    calls(&bench, stream, 1);
    bench.driver.set_busy(stream, true);
    std::thread::scope(|scope| {
        let closer = scope.spawn(|| device.end_job(&bench.agent.work, Duration::from_secs(20)));
        while gate::is_open(device.bit) {
            std::thread::yield_now();
        }
        let late = scope.spawn(|| drop(bench.agent.enter_on(stream, &|_| ())));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!late.is_finished());
        bench.driver.set_busy(stream, false);
        assert!(closer.join().unwrap());
        // It is the next job's.
        bench.daemon.grant_next();
        late.join().unwrap();
    });
}

/// What a drain found done is asked again after the next call, also one of the thread that had the
/// stream in mind.
#[test]
fn after_a_drain_each_thread_notes_its_streams_again() {
    let bench = bench("note-again", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let stream = Stream(0x96);
    bench.driver.set_apart(stream);
    calls(&bench, stream, 3);
    assert!(device.end_job(&bench.agent.work, Duration::from_secs(20)));
    std::thread::scope(|scope| {
        scope.spawn(|| bench.daemon.grant_next());
        calls(&bench, stream, 1);
    });
    bench.driver.set_busy(stream, true);
    assert!(!bench.agent.work.looks_done(0), "its stream was forgotten");
    bench.driver.set_busy(stream, false);
}

/// A host function notes a stream while the drain goes on, and has it in mind in the next job.
#[test]
fn after_a_drain_host_functions_note_their_streams_again() {
    let bench = bench("host-notes", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let (stream, other) = (Stream(0x97), Stream(0x98));
    bench.driver.set_apart(stream);
    calls(&bench, other, 1);
    bench.driver.set_busy(other, true);
    std::thread::scope(|scope| {
        let (run, runs) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        // The driver's own thread.
        let agent = bench.agent;
        scope.spawn(move || {
            for () in runs {
                let call = HostCall::begin(device.bit);
                drop(agent.enter_on(stream, &|_| ()));
                drop(call);
                ended.send(()).unwrap();
            }
        });
        let closer = scope.spawn(|| device.end_job(&bench.agent.work, Duration::from_secs(20)));
        // Until the drain has emptied what threads have in mind and waits for the other stream.
        while gate::is_open(device.bit) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        run.send(()).unwrap();
        ends.recv_timeout(Duration::from_secs(20)).unwrap();
        bench.driver.set_busy(other, false);
        assert!(closer.join().unwrap());
        bench.launch(|| ());
        run.send(()).unwrap();
        ends.recv_timeout(Duration::from_secs(20)).unwrap();
        drop(run);
    });
    bench.driver.set_busy(stream, true);
    assert!(!bench.agent.work.looks_done(0), "its stream was forgotten");
    bench.driver.set_busy(stream, false);
}

#[test]
fn what_cannot_be_asked_by_a_stream_holds_a_drain() {
    const SHORT: Duration = Duration::from_millis(20);
    let bench = bench("unasked", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let device = &bench.agent.devices[0];
    let end = |bound| device.end_job(&bench.agent.work, bound);
    // Another thread's own stream: only the legacy stream waits for it.
    bench.driver.set_busy(Stream::PER_THREAD, true);
    assert!(!end(SHORT) && gate::is_open(device.bit));
    bench.driver.set_busy(Stream::PER_THREAD, false);
    // A stream that was destroyed before its work was done.
    let gone = Stream(0x99);
    bench.driver.set_apart(gone);
    calls(&bench, gone, 1);
    let number = bench.driver.submit(gone);
    bench.driver.set_busy(gone, true);
    bench.agent.stream_gone(gone);
    assert!(!end(SHORT) && gate::is_open(device.bit));
    bench.driver.complete(gone, number);
    bench.driver.set_busy(gone, false);
    assert!(end(Duration::from_secs(20)));
}

#[test]
fn what_is_made_in_a_context_is_given_on_although_the_one_before_has_gone() {
    let driver = FakeDriver::leak([1; 16], 0);
    let (before, other) = (Context(0xc1), Context(0xc2));
    driver.set_context(Some(before)).unwrap();
    let made = in_context(driver, other, || {
        assert_eq!(driver.current_context(), Ok(Some(other)));
        driver.end_context(before);
        driver.create_event()
    });
    driver.destroy_event(made.unwrap()).unwrap();
    assert_eq!(driver.current_context(), Ok(None), "the program is in ours");
}

#[test]
fn a_capture_on_a_threads_own_stream_ends_with_the_thread() {
    let bench = bench("own-capture", |terms| terms.idle_us = 60_000_000);
    bench.alloc(10);
    bench.launch(|| ());
    let (work, own) = (&bench.agent.work, Stream::PER_THREAD);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            for capture in [Capture::Begins, Capture::Goes, Capture::No] {
                work.set_capture(own, capture);
                assert_eq!(work.captures(), capture != Capture::No);
            }
            work.set_capture(own, Capture::Begins);
            work.set_capture(own, Capture::Goes);
            assert!(work.captures() && work.may_capture());
        });
        thread.join().unwrap();
    });
    let device = &bench.agent.devices[0];
    assert!(device.end_job(work, Duration::from_secs(20)), "undrainable");
}
