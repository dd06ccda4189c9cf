//! Copies in both directions at once, in real time.

mod hold;

use std::io::{self, Write as _};
use std::sync::Arc;

use simgpu_core::config::{Config, GRANULE, GpuConfig, Size};
use simgpu_core::driver::{Context, CopySide, Driver, Event, Stream};

use hold::hold;

const COPIES: u64 = 60;
const NON_BLOCKING: u32 = 1;
const DUPLEX: f64 = 0.7;
const RUNS: u32 = 3;

/// A direction whose copies are queued; the events around them.
struct Direction {
    stream: Arc<Stream>,
    marks: [Arc<Event>; 2],
}

impl Direction {
    fn queue(context: &Arc<Context>, stream: Arc<Stream>, dst: CopySide, src: CopySide) -> Self {
        let marks = [0, 1].map(|_| Event::new(0).unwrap());
        marks[0].record(&stream).unwrap();
        for _ in 0..COPIES {
            let len = GRANULE as usize;
            context.copy(&stream, dst, src, len, false).unwrap();
        }
        marks[1].record(&stream).unwrap();
        Self { stream, marks }
    }

    fn gib_per_s(&self, context: &Context) -> f64 {
        context.synchronize_stream(&self.stream).unwrap();
        let [before, after] = &self.marks;
        let seconds = f64::from(after.elapsed_ms(before).unwrap()) / 1e3;
        (COPIES * GRANULE) as f64 / f64::from(1 << 30) / seconds
    }
}

#[test]
fn two_streams_of_copies_in_opposite_directions_get_their_share_each() {
    let config = Config {
        gpus: vec![GpuConfig {
            memory: Size(16 << 20),
            context_bytes: Size(GRANULE),
            h2d_gib_per_s: 1.0,
            d2h_gib_per_s: 0.8,
            copy_us: 0.0,
            duplex: DUPLEX,
            ..GpuConfig::default()
        }],
        ..Config::default()
    };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let driver = Driver::attach(dir.path(), Some(&config)).unwrap();
    let context = driver.retain_primary(0).unwrap();
    let device = [0, 1].map(|_| CopySide::Device(context.alloc(GRANULE).unwrap()));
    let host = [0, 1].map(|_| CopySide::Host(context.alloc_host(GRANULE as usize, 0).unwrap()));
    let stream = || context.create_stream(NON_BLOCKING, 0).unwrap();

    let measure = || {
        let alone = [(device[0], host[0]), (host[1], device[1])]
            .map(|(dst, src)| Direction::queue(&context, stream(), dst, src).gib_per_s(&context));
        let streams = [stream(), stream()];
        let held = [0, 1].map(|at| hold(&context, &streams[at]));
        let [first, second] = streams;
        let into = Direction::queue(&context, first, device[0], host[0]);
        let out = Direction::queue(&context, second, host[1], device[1]);
        drop(held);
        let [into, out] = [into, out].map(|direction| direction.gib_per_s(&context));
        // Alone, nothing can make a copy faster than the link.
        let [most_alone, most] = [1.01, 1.03];
        [
            ("in alone", alone[0] / 1.0, most_alone),
            ("out alone", alone[1] / 0.8, most_alone),
            // The faster one copies beside the other up to its end.
            ("in beside out", into / DUPLEX, most),
            // The slower one has the rest of its bytes, a fifth, the link to itself.
            (
                "out beside in",
                out / 0.8 * (DUPLEX.recip() * 0.8 + 0.2),
                most,
            ),
        ]
    };
    // While the host stalls one direction, the other one copies faster: not what is judged here.
    for run in 1..=RUNS {
        let shares = measure();
        let is_right = |(_, share, most): &(&str, f64, f64)| (0.97..*most).contains(share);
        if shares.iter().all(is_right) {
            return;
        }
        // Past the harness, which hides what a test that passes says.
        let _ = writeln!(
            io::stderr(),
            "UNJUDGED: the shared link: run {run} of {RUNS}: of what is expected, at least 0.97: {shares:?}"
        );
    }
    panic!("in none of {RUNS} runs were all shares right");
}
