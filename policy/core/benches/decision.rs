//! How long a decision takes: `handle` of one event, its commands taken, the next wake-up asked
//! for. `cargo bench -p rtswap-policy` prints the median and the 99th percentile, the clock's own
//! cost included.

#[path = "../tests/scheduler/world/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod world;

use std::sync::LazyLock;
use std::time::Instant;

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Event, Sharing};

use world::steady::Steady;

const EVENTS: usize = 200_000;

fn main() {
    println!("one decision in ns, {EVENTS} events in steady state");
    println!(
        "{:>10} {:>6} {:>8} {:>8} {:>8}",
        "test", "tasks", "median", "p99", "max"
    );
    for test in [Test::Demand, Test::Pipelined] {
        for tasks in [6, 100, 1_000] {
            let mut spans = measure(tasks, test);
            spans.sort_unstable();
            let name = test.name();
            let (median, p99) = (spans[EVENTS / 2], spans[EVENTS / 100 * 99]);
            let max = spans[EVENTS - 1];
            println!("{name:>10} {tasks:>6} {median:>8} {p99:>8} {max:>8}");
        }
    }
}

fn measure(tasks: u32, test: Test) -> Vec<u64> {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let clock = || START.elapsed().as_nanos() as u64;
    let mut steady = Steady::new(tasks, 0, test, Sharing::Exclusive, clock);
    let mut swaps = 0;
    let mut spans = Vec::with_capacity(EVENTS);
    for _ in 0..EVENTS {
        let (event, span) = steady.next();
        swaps += u32::from(matches!(event, Event::SwapEnded { .. }));
        spans.push(span);
    }
    assert!(swaps > 1_000, "nothing was swapped");
    spans
}
