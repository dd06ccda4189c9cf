//! How fast memory moves: by chunk size against the modelled link, what it costs in driver calls,
//! and both directions at once. Also Fig. 4(b), which is the same with 300 MB.

use std::time::Duration;

use anyhow::Result;
use rtswap_e2e::Puppet;
use rtswap_wire::page::Direction;

use crate::report::{Bound, Report, Table, number};
use crate::stage::{Calls, Held, Scale, link_gib_per_s};

/// Chunk sizes as meant, in MiB.
const CHUNKS_MIB: [u64; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
/// From this one on a swap must be as fast as the link.
const FAST_FROM_MIB: u64 = 32;
/// The paper's best.
const PAPER_MIB: u64 = 64;
/// Of a chunk out: copy, event, wait for it, unmap, release; in: create, map, access, copy, event,
/// wait for it.
const CALLS_PER_CHUNK: u64 = 6;
/// What Fig. 4 swaps, in MiB as meant.
const FIG4_MIB: u64 = 300;
/// The most chunks that the simulated memory is filled with.
const MOST_CHUNKS: u64 = 150;
/// Each is taken so often; the best counts.
const ROUNDS: usize = 3;

/// The published numbers of Fig. 4(b), by chunk size, in ms.
const PUBLISHED: [(u64, f64); 3] = [(2, 35.3), (64, 26.2), (256, 41.6)];

/// One chunk size.
struct Speed {
    scale: Scale,
    chunks: u64,
    /// Seconds as meant for `chunks` chunks, out and in.
    all: [f64; 2],
    /// Seconds as meant for 300 MB.
    fig4: [f64; 2],
    /// Driver calls of one swap of all chunks, out and in.
    calls: [Calls; 2],
}

/// Sweeps the chunk sizes.
pub(crate) fn sweep(report: &mut Report) -> Result<()> {
    let link = link_gib_per_s();
    let mut table = Table::new(
        "Swaps by chunk size, as meant on the paper's machine (modelled; best of 3)",
        &["chunk MiB", "out GiB/s", "of link", "in GiB/s", "of link"],
    );
    let mut fig4 = Table::new(
        "Fig. 4(b): 300 MB by chunk size, ms (modelled)",
        &["chunk MiB", "out", "published", "in"],
    );
    let mut heads = vec!["chunk MiB"];
    heads.extend(Calls::KINDS);
    let mut calls = Table::new(
        "Driver calls per GiB swapped, out | in (counted by the simulated GPU)",
        &heads,
    );
    let mut slowest = [f64::MAX; 2];
    for meant in CHUNKS_MIB {
        let speed = measure(Scale::of(meant))?;
        let gib = speed.scale.gib(speed.chunks);
        let rate = [gib / speed.all[0], gib / speed.all[1]];
        let share = [rate[0] / link.0, rate[1] / link.1];
        if meant >= FAST_FROM_MIB {
            slowest = [slowest[0].min(share[0]), slowest[1].min(share[1])];
        }
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        table.rows.push(vec![
            meant.to_string(),
            number(rate[0]),
            percent(share[0]),
            number(rate[1]),
            percent(share[1]),
        ]);
        let published = PUBLISHED.iter().find(|(chunk, _)| *chunk == meant);
        fig4.rows.push(vec![
            meant.to_string(),
            number(speed.fig4[0] * 1e3),
            published.map_or(String::new(), |(_, ms)| number(*ms)),
            number(speed.fig4[1] * 1e3),
        ]);
        let mut row = vec![meant.to_string()];
        for kind in 0..Calls::KINDS.len() {
            let per_gib = |way: usize| (speed.calls[way].0[kind] as f64 / gib).round();
            row.push(format!("{} | {}", per_gib(0), per_gib(1)));
        }
        calls.rows.push(row);
        if meant == PAPER_MIB {
            count(report, &speed);
        }
    }
    for (way, share) in ["out", "in"].into_iter().zip(slowest) {
        let name = format!("swap-{way}, least share of the link at chunks of 32 MiB and more");
        report
            .modelled(&name, share * 100.0, "%")
            .bound(Bound::least(95.0, 0.03));
    }
    report.tables.extend([table, calls, fig4]);
    Ok(())
}

/// The calls of both ways at the paper's chunk size. They are the same in each run.
fn count(report: &mut Report, speed: &Speed) {
    let gib = speed.scale.gib(speed.chunks);
    for (way, calls) in ["out", "in"].into_iter().zip(speed.calls) {
        let name = format!("driver calls per GiB swapped {way} in chunks of {PAPER_MIB} MiB");
        let most = (CALLS_PER_CHUNK * 1024 / PAPER_MIB) as f64;
        report
            .measured(&name, calls.sum() as f64 / gib, "calls")
            .bound(Bound::most(most, 0.0).robust());
        let name = format!("waits for a whole stream or context per GiB swapped {way}");
        report
            .measured(&name, calls.syncs() as f64 / gib, "calls")
            .bound(Bound::most(0.0, 0.0).robust());
    }
}

fn measure(scale: Scale) -> Result<Speed> {
    let machine = scale.machine()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let fig4_chunks = FIG4_MIB.div_ceil(scale.meant_mib);
    let chunks = (1024 / scale.meant_mib).clamp(fig4_chunks.min(MOST_CHUNKS), MOST_CHUNKS);
    let mut held = Held::start(&machine, &listener, scale, chunks)?;
    let mut calls = [Calls::default(); 2];
    let mut both = |count: u64| -> Result<[f64; 2]> {
        let mut best = [Duration::MAX; 2];
        for _ in 0..ROUNDS {
            for (way, direction) in [Direction::Out, Direction::In].into_iter().enumerate() {
                let before = Calls::of(&machine, held.pid())?;
                let target = if direction == Direction::Out {
                    count
                } else {
                    0
                };
                let took = held.swap(direction, target)?.took;
                best[way] = best[way].min(took);
                if count == chunks {
                    calls[way] = Calls::of(&machine, held.pid())?.since(&before);
                }
            }
        }
        Ok(best.map(|took| scale.seconds(took)))
    };
    let all = both(chunks)?;
    let fig4 = if fig4_chunks == chunks {
        all
    } else {
        both(fig4_chunks)?
    };
    held.finish()?;
    Ok(Speed {
        scale,
        chunks,
        all,
        fig4,
        calls,
    })
}

/// One task out while another comes in.
pub(crate) fn duplex(report: &mut Report) -> Result<()> {
    const CHUNKS: u64 = 32;
    let scale = Scale::of(64);
    let machine = scale.machine()?;
    let listener = Puppet::listen(&machine.runtime_dir())?;
    let mut one = Held::start(&machine, &listener, scale, CHUNKS)?;
    let mut other = Held::start(&machine, &listener, scale, CHUNKS)?;
    other.swap(Direction::Out, CHUNKS)?;
    let (mut alone, mut together) = ([Duration::MAX; 2], Duration::MAX);
    for _ in 0..ROUNDS {
        // One after the other, which also brings both back to where they were.
        alone[0] = alone[0].min(one.swap(Direction::Out, CHUNKS)?.took);
        alone[1] = alone[1].min(one.swap(Direction::In, 0)?.took);
        one.begin(Direction::Out, CHUNKS)?;
        other.begin(Direction::In, 0)?;
        together = together.min(one.end()?.took.max(other.end()?.took));
        other.begin(Direction::Out, CHUNKS)?;
        one.begin(Direction::In, 0)?;
        together = together.min(other.end()?.took.max(one.end()?.took));
    }
    one.finish()?;
    other.finish()?;
    let ratio = (alone[0] + alone[1]).as_secs_f64() / together.as_secs_f64();
    report
        .modelled(
            "two tasks in opposite directions at once, over one",
            ratio,
            "times",
        )
        .bound(Bound::least(1.8, 0.03));
    Ok(())
}
