//! How long a decision takes: `handle` of one event, its commands taken, the next wake-up asked
//! for. `cargo bench -p rtswap-policy` prints the median and the 99th percentile, the clock's own
//! cost included.

#[path = "../tests/steady/mod.rs"]
mod steady;

use std::hint::black_box;
use std::time::Instant;

use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Command, Sharing};

use steady::Steady;

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
    let mut steady = Steady::new(tasks, 0, test, Sharing::Exclusive);
    let mut commands: Vec<Command> = Vec::with_capacity(4_096);
    let mut spans = Vec::with_capacity(EVENTS);
    for _ in 0..EVENTS {
        let event = steady.next();
        let start = Instant::now();
        steady.scheduler.handle(steady.now, event).unwrap();
        while let Some(command) = steady.scheduler.poll_command() {
            commands.push(command);
        }
        black_box(steady.scheduler.poll_timeout());
        spans.push(start.elapsed().as_nanos() as u64);
        for command in commands.drain(..) {
            steady.obey(command);
        }
    }
    assert!(steady.swaps > 1_000, "nothing was swapped");
    spans
}
