//! Threads against a closer that must never be passed.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;

/// The word of a call is its thread's: another thread must neither end the call nor mark streams for
/// it. Does not compile where a guard can be sent or shared: two implementations fit then.
const _: () = {
    trait Fits<By> {
        const ONE: () = ();
    }
    struct Sent;
    struct Shared;
    impl<T> Fits<()> for T {}
    impl<T: Send> Fits<Sent> for T {}
    impl<T: Sync> Fits<Shared> for T {}
    let () = <InCall as Fits<_>>::ONE;
    let () = <HostCall as Fits<_>>::ONE;
};

/// Whether memory is mapped, in plain memory, as what launches use: ThreadSanitizer reports each of its
/// accesses that the gate does not order.
struct Mapped(UnsafeCell<bool>);

// SAFETY: that the gate keeps readers and the writer apart is what is tested.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn get(&self) -> bool {
        // SAFETY: within a call that the gate let through nobody writes.
        unsafe { self.0.get().read_volatile() }
    }

    fn set(&self, mapped: bool) {
        // SAFETY: behind the closed gate nobody else is there.
        unsafe { self.0.get().write_volatile(mapped) };
    }
}

/// Threads launch on "memory" that is there only while the gate is open. Ten thousand forced
/// closings at least, and a thousand launches, which a busy machine lets in late; a single one that
/// finds the memory gone fails.
fn no_launch_meets_unmapped_memory(gate: u64, try_enter: fn(u64) -> Option<InCall>) {
    init();
    let mapped = Arc::new(Mapped(UnsafeCell::new(true)));
    let stop = Arc::new(AtomicBool::new(false));
    let launches = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let (mapped, stop) = (Arc::clone(&mapped), Arc::clone(&stop));
            let launches = Arc::clone(&launches);
            std::thread::spawn(move || {
                while !stop.load(Relaxed) {
                    if let Some(call) = try_enter(gate) {
                        for _ in 0..20 {
                            assert!(mapped.get(), "launched on unmapped memory");
                        }
                        if launches.fetch_add(1, Relaxed).is_multiple_of(64) {
                            // A long one, which a closer meets.
                            std::thread::yield_now();
                            assert!(mapped.get(), "unmapped under a launch");
                        }
                        drop(call);
                    } else {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let start = Instant::now();
    for round in 0.. {
        if round >= 10_000 && launches.load(Relaxed) > 1000 {
            break;
        }
        assert!(
            start.elapsed() < Duration::from_mins(1),
            "the threads never launched"
        );
        close(gate);
        assert!(
            wait_for_calls(gate, Duration::from_secs(20)),
            "a call never ended"
        );
        mapped.set(false);
        if round % 8 == 0 {
            // Long enough for a launch under way to meet it.
            std::thread::yield_now();
        }
        std::hint::spin_loop();
        mapped.set(true);
        open(gate);
        if round % 64 == 0 {
            std::thread::yield_now();
        }
    }
    stop.store(true, Relaxed);
    for thread in threads {
        thread.join().expect("a launch failed");
    }
}

#[test]
fn no_launch_passes_a_closing_gate() {
    no_launch_meets_unmapped_memory(1 << 51, |gate| {
        const STREAM: usize = 0xabc0;
        // The hot path where it goes, as the hooks do, and the looked-up one where not.
        if let Ok(call) = InCall::enter(STREAM) {
            return Some(call);
        }
        let mut call = InCall::begin();
        (call.goes_through(gate) == 0).then(|| {
            call.mark(STREAM, 100);
            call
        })
    });
}

/// The gates that a call goes through change from call to call.
#[test]
fn no_launch_passes_its_own_gate_after_calls_through_another() {
    const OTHER: u64 = 1 << 49;
    no_launch_meets_unmapped_memory(1 << 50, |gate| {
        let mut elsewhere = InCall::begin();
        let _ = elsewhere.goes_through(OTHER);
        drop(elsewhere);
        let mut call = InCall::begin();
        (call.goes_through(gate) == 0).then_some(call)
    });
}

/// Store and load of the one against store and load of the other, as close as can be: a call that
/// found the gate open is seen by the closer.
#[test]
fn a_closer_sees_each_call_that_it_did_not_stop() {
    const GATE: u64 = 1 << 45;
    const ROUNDS: u64 = 20_000;
    fn wait_for(word: &AtomicU64, value: u64) {
        let mut spins = 0u32;
        while word.load(Acquire) != value {
            spins += 1;
            if spins.is_multiple_of(200) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }
    // By a cycle or so.
    let differ = |steps: u64| (0..steps).for_each(|step| _ = std::hint::black_box(step));
    init();
    let [begun, passed, looked, ended] = [const { AtomicU64::new(0) }; 4];
    let (tell, told) = std::sync::mpsc::channel();
    let missed = std::thread::scope(|scope| {
        let (begun, passed, looked, ended) = (&begun, &passed, &looked, &ended);
        scope.spawn(move || {
            tell.send(Thread::register()).unwrap();
            for round in 1..=ROUNDS {
                wait_for(begun, round);
                differ(round * 7 % 128);
                let mut call = InCall::begin();
                if call.goes_through(GATE) == 0 {
                    passed.store(round, SeqCst);
                }
                wait_for(looked, round);
                drop(call);
                ended.store(round, SeqCst);
            }
        });
        let thread = told.recv().unwrap();
        let rounds = (1..=ROUNDS).filter(|&round| {
            open(GATE);
            begun.store(round, SeqCst);
            differ(round / 128 % 128);
            close(GATE);
            // The first thing that `wait_for_calls` asks, without what it does before.
            let nobody = thread.busy_at(GATE).is_none();
            looked.store(round, SeqCst);
            wait_for(ended, round);
            nobody && passed.load(SeqCst) == round
        });
        rounds.count()
    });
    open(GATE);
    assert_eq!(missed, 0, "calls were under way behind the closed gate");
}

#[test]
fn a_call_through_another_gate_is_not_waited_for() {
    const MINE: u64 = 1 << 48;
    const OTHER: u64 = 1 << 47;
    init();
    let (tell, told) = std::sync::mpsc::channel();
    let (let_go, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        let mut call = InCall::begin();
        assert_eq!(call.goes_through(OTHER), 0);
        tell.send(()).unwrap();
        wait.recv().unwrap();
        drop(call);
    });
    told.recv().unwrap();
    close(MINE | OTHER);
    assert!(wait_for_calls(MINE, Duration::from_secs(20)));
    assert!(activity(OTHER).1 && !wait_for_calls(OTHER, Duration::ZERO));
    let_go.send(()).unwrap();
    thread.join().unwrap();
    assert!(wait_for_calls(OTHER, Duration::ZERO));
    open(MINE | OTHER);
}

#[test]
fn a_nested_call_is_known() {
    let outer = InCall::begin();
    let inner = InCall::begin();
    assert!(!outer.is_nested() && inner.is_nested());
    assert!(
        InCall::enter(0x10).is_err(),
        "within a call the agent is asked"
    );
    drop(inner);
    assert!(activity(1).1, "the outer call goes on");
    drop(outer);
}
