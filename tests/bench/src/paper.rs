//! Fig. 4(a): 300 MB out and in by Pageable, Pinned, MO-VMM and ours. The first three are one small
//! program that moves its own memory, without rtswap.

use anyhow::{Context, Result};
use rtswap_e2e::{Program, Puppet, compile};
use rtswap_eval::figures::fragmentation::Catalogue;
use rtswap_eval::figures::workload::{Model, Reading, Resolution};
use rtswap_policy::units::Bytes;
use rtswap_wire::page::Direction;

use crate::draw::Draw;
use crate::report::{Report, Table, number};
use crate::stage::{BOUND, Held, Scale, source};

const ROUNDS: usize = 3;
/// What is swapped, in MiB as meant.
const VOLUME_MIB: u64 = 300;
/// δ, in MiB as meant.
const CHUNK_MIB: u64 = 64;
/// The link's share that is left with pageable memory, out and in: the published 192.6 ms and
/// 93.9 ms of 300 MB, in five chunks of 64 MB, less what five chunks cost.
const PAGEABLE: (f64, f64) = (
    0.3125 / (0.1926 - 5.0 * 73.6e-6) / 12.08,
    0.3125 / (0.0939 - 5.0 * 79.5e-6) / 11.18,
);

/// Memory for the baselines: small objects take several times their bytes.
const BASELINE_MIB: u64 = 1536;

/// The published numbers of Fig. 4(a), in ms.
const PUBLISHED: [(&str, Option<f64>, Option<f64>); 4] = [
    ("Pageable", Some(192.6), Some(93.9)),
    ("Pinned", None, None),
    ("MO-VMM", None, None),
    ("ours", Some(26.2), Some(28.3)),
];

/// Milliseconds as meant: what the host takes for its own memory, and all.
#[derive(Clone, Copy)]
struct Way {
    host: f64,
    all: f64,
}

/// All four.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let scale = Scale::of(CHUNK_MIB);
    let chunks = VOLUME_MIB.div_ceil(CHUNK_MIB);
    let uniform = vec![scale.chunk_bytes(); chunks as usize];
    let methods = [
        baseline(scale, PAGEABLE, "pageable", &uniform)?,
        baseline(scale, (1.0, 1.0), "pinned", &uniform)?,
        // Objects of some KiB need allocations of 2 MiB, as meant.
        baseline(Scale::of(2), (1.0, 1.0), "pinned", &objects())?,
        ours(scale, chunks)?,
    ];
    let mut table = Table::new(
        "Fig. 4(a): 300 MB at chunks of 64 MiB, ms (modelled; host memory at this host's speed)",
        &[
            "method",
            "out",
            "of it host memory",
            "published",
            "in",
            "of it host memory",
            "published",
        ],
    );
    for ((name, out, into), ways) in PUBLISHED.into_iter().zip(methods) {
        let published = |ms: Option<f64>| ms.map_or(String::new(), number);
        table.rows.push(vec![
            name.into(),
            number(ways[0].all),
            number(ways[0].host),
            published(out),
            number(ways[1].all),
            number(ways[1].host),
            published(into),
        ]);
    }
    report.tables.push(table);
    Ok(())
}

/// A program that moves its own memory.
fn baseline(scale: Scale, link: (f64, f64), method: &str, bytes: &[u64]) -> Result<[Way; 2]> {
    let machine = scale.other_machine(link, BASELINE_MIB)?;
    let program = compile(
        &source("baseline"),
        &machine.path(""),
        &machine.driver_dir(),
    )?;
    let mut command = machine.command(program);
    command.args([method, &ROUNDS.to_string()]);
    command.args(bytes.iter().map(ToString::to_string));
    let answer = Program::start(command)?.finish(BOUND)?.json()?;
    let way = |key: &str| -> Result<Way> {
        let steps = answer[key].as_object().context("no steps")?;
        let ms = |step: &serde_json::Value| step.as_f64().unwrap_or_default() / 1e6 / scale.slower;
        Ok(Way {
            host: ms(&steps["host"]),
            all: steps.values().map(ms).sum(),
        })
    };
    Ok([way("out")?, way("in")?])
}

/// Objects of 300 MiB together, drawn from a model's list in Table II.
fn objects() -> Vec<u64> {
    const SEED: u64 = 1;
    let catalogue = Catalogue::draw(&Reading::default(), SEED);
    let mut draw = Draw(SEED);
    let sizes = catalogue.objects(Model::ResNet, Resolution::Middle).sizes();
    let (mut left, mut drawn) = (VOLUME_MIB << 20, Vec::new());
    while left > 0 {
        let Bytes(size) = sizes[draw.below(sizes.len())];
        drawn.push(size.min(left));
        left -= size.min(left);
    }
    drawn
}

/// The agent.
fn ours(scale: Scale, chunks: u64) -> Result<[Way; 2]> {
    let machine = scale.machine()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut held = Held::start(&machine, &listener, scale, chunks)?;
    let mut best = [Way {
        host: 0.0,
        all: f64::MAX,
    }; 2];
    for _ in 0..ROUNDS {
        for (way, direction, target) in [(0, Direction::Out, chunks), (1, Direction::In, 0)] {
            let took = scale.seconds(held.swap(direction, target)?.took) * 1e3;
            best[way].all = best[way].all.min(took);
        }
    }
    held.finish()?;
    Ok(best)
}
