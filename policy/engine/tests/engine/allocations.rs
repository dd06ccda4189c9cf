//! In steady state the engine allocates nothing for what agents write and for timers: counted by the
//! allocator. In the dev profile that includes the check of the invariants after each event.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rtswap_policy::scheduler::JobKind;
use rtswap_policy::units::Nanos;

use crate::harness::{MS, Pair, Setting};

thread_local! {
    /// What this thread has allocated. Tests run on threads of their own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is ending has no counter any more, and runs no test.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// How often this thread has allocated.
pub(crate) fn so_far() -> u64 {
    ALLOCATIONS.get()
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Jobs of each task until the lists of response times, which grow by doubling, grow no more.
const WARM: u64 = 2_100;

/// Jobs of each task that are counted.
const COUNTED: u64 = 200;

/// Two tasks of `group` processes each that do not fit together, on GPU 0.
fn loaded(setting: Setting, tasks: [usize; 2], group: usize, chunks: u64) -> Pair {
    let mut pair = Pair::new(setting);
    for task in tasks {
        pair.register(task, true);
        for _ in 0..group {
            pair.join(Some(task));
            for _ in 0..chunks / group as u64 {
                let process = pair.world.processes.last_mut().expect("it has joined");
                process.devices[0].allocate(1, true);
                process.bell = true;
                pair.calm_down();
            }
        }
    }
    pair
}

/// A job of each process; then a period passes.
fn round(pair: &mut Pair) {
    for process in &mut pair.world.processes {
        process.bell |= process.devices[0].request(JobKind::Declared);
    }
    pair.calm_down();
    pair.pass(Nanos(300 * MS), false);
}

fn allocates_nothing(setting: Setting, tasks: [usize; 2], group: usize, chunks: u64) {
    let mut pair = loaded(setting, tasks, group, chunks);
    for _ in 0..WARM {
        round(&mut pair);
    }
    let swaps = |pair: &Pair| -> u64 {
        let processes = pair.world.processes.iter();
        processes.map(|process| process.devices[0].swaps).sum()
    };
    let (before, swapped) = (pair.allocations, swaps(&pair));
    for number in 0..COUNTED {
        round(&mut pair);
        let allocations = pair.allocations - before;
        assert_eq!(allocations, 0, "round {number} of groups of {group}");
    }
    let swapped = swaps(&pair) - swapped;
    assert!(swapped >= COUNTED, "{swapped} swaps in {COUNTED} rounds");
}

#[test]
fn none_for_best_effort_groups() {
    for group in 1..=4 {
        allocates_nothing(Setting::of(0), [3, 5], group, 16);
    }
}

#[test]
fn none_for_realtime_groups() {
    for group in 1..=4 {
        allocates_nothing(Setting::of(3), [0, 1], group, 12);
    }
}
