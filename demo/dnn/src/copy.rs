//! Copies without pause, in place of jobs: what loads the copy engines for others.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::{Copies, Options};
use crate::failure::Failure;
use crate::gpu::Gpu;
use crate::lane::{Lane, Way};
use crate::reference;

/// Copies that wait in each direction: on the fastest link more than one pause's worth.
const DEPTH: usize = 8;
/// Between two looks at them.
const PAUSE: Duration = Duration::from_micros(200);

/// The report of one run, from the instant at which all directions had copied something.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    name: String,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    into: Option<Moved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<Moved>,
    wrong_words: u64,
}

/// What one direction copied.
#[derive(Clone, Copy, Debug, Serialize)]
struct Moved {
    bytes: u64,
    gib_per_s: f64,
}

/// Copies until standard input ends, or for as long as `options` say.
pub(crate) fn run(options: &Options, copies: Copies) -> Result<ExitCode, Failure> {
    options.check()?;
    let gpu = Gpu::open(options.gpu)?;
    let words = reference::layer_words(options.memory, options.layers);
    let ways: &[Way] = match copies {
        Copies::In => &[Way::In],
        Copies::Out => &[Way::Out],
        Copies::Both => &[Way::In, Way::Out],
    };
    let lanes = ways
        .iter()
        .map(|way| Lane::new(&gpu, *way, &words, options.seed));
    let mut lanes = lanes.collect::<Result<Vec<_>, _>>()?;
    let end = End::new(options.duration);
    let mut moved = vec![0; lanes.len()];
    let mut start = None;
    let took = loop {
        for (lane, moved) in lanes.iter_mut().zip(&mut moved) {
            lane.fill_queue(DEPTH)?;
            *moved += lane.ended()?;
        }
        if start.is_none() && moved.iter().all(|moved| *moved > 0) {
            eprintln!("ready");
            start = Some(Instant::now());
            moved.fill(0);
        }
        let took = start.map(|start| start.elapsed());
        if end.has_come(took) {
            break took.unwrap_or_default();
        }
        thread::sleep(PAUSE);
    };
    let mut wrong_words = 0;
    for lane in &mut lanes {
        wrong_words += lane.wrong_words()?;
    }
    let of = |way| {
        let at = ways.iter().position(|it| *it == way)?;
        let gib = moved[at] as f64 / f64::from(1 << 30);
        Some(Moved {
            bytes: moved[at],
            gib_per_s: if took.is_zero() {
                0.0
            } else {
                gib / took.as_secs_f64()
            },
        })
    };
    let report = Report {
        version: 1,
        name: options.name.clone(),
        into: of(Way::In),
        out: of(Way::Out),
        wrong_words,
    };
    report.print(options.json);
    Ok(ExitCode::from(u8::from(wrong_words > 0)))
}

impl Report {
    fn print(&self, json: bool) {
        if json {
            let text = serde_json::to_string(self).expect("a report is plain JSON");
            println!("{text}");
            return;
        }
        println!("{}: {} wrong words", self.name, self.wrong_words);
        for (way, moved) in [("in", self.into), ("out", self.out)] {
            if let Some(Moved { bytes, gib_per_s }) = moved {
                println!("{way:4} {bytes} bytes, {gib_per_s:.3} GiB/s");
            }
        }
    }
}

/// When the copies end.
enum End {
    After(Duration),
    Input(Arc<AtomicBool>),
}

impl End {
    fn new(duration: Option<Duration>) -> Self {
        if let Some(duration) = duration {
            return Self::After(duration);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        thread::spawn(move || {
            // However it ends, it has ended.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            told.store(true, Ordering::Relaxed);
        });
        Self::Input(ended)
    }

    fn has_come(&self, took: Option<Duration>) -> bool {
        match self {
            Self::After(duration) => took.is_some_and(|took| took >= *duration),
            Self::Input(ended) => ended.load(Ordering::Relaxed),
        }
    }
}
