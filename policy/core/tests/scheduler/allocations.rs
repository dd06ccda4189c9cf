//! A decision allocates nothing: counted by the allocator, after registration and loading. In the
//! dev profile that includes the check of the invariants after each event.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Event, Sharing};

use crate::world::steady::Steady;

thread_local! {
    /// What this thread has allocated. Tests run on threads of their own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // A thread that is ending has no counter any more, and runs no test.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
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

/// Which events were seen, so that none goes uncounted.
fn kind(event: &Event) -> usize {
    match event {
        Event::JobRequested { .. } => 0,
        Event::SwapProgress { .. } => 1,
        Event::SwapEnded { .. } => 2,
        Event::BudgetSet { .. } => 3,
        Event::JobCompleted { .. } => 4,
        Event::Timer => 5,
        other => panic!("not in steady state: {other:?}"),
    }
}

fn none(realtime: u32, others: u32, test: Test, sharing: Sharing, events: u32) {
    let mut steady = Steady::new(realtime, others, test, sharing, || ALLOCATIONS.get());
    let mut seen = [0_u64; 6];
    for number in 0..events {
        let (event, allocations) = steady.next();
        seen[kind(&event)] += 1;
        assert_eq!(allocations, 0, "event {number}, {event:?}");
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

#[test]
fn the_count_works() {
    let before = ALLOCATIONS.get();
    let boxed = std::hint::black_box(Box::new(1));
    assert_eq!(ALLOCATIONS.get(), before + 1, "{boxed}");
}

#[test]
fn none_at_6_tasks() {
    for test in [Test::Theorem1, Test::Demand, Test::Pipelined] {
        none(6, 0, test, Sharing::Exclusive, 50_000);
    }
}

#[test]
fn none_at_1000_tasks() {
    for test in [Test::Demand, Test::Pipelined] {
        none(1_000, 0, test, Sharing::Exclusive, 20_000);
    }
}

#[test]
fn none_with_best_effort() {
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        for test in [Test::Demand, Test::Pipelined] {
            none(6, 3, test, sharing, 50_000);
        }
    }
}
