//! `rtswapctl calibrate` on links that it has not seen.
#![allow(missing_docs)]

mod best;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program, Verdict, until_judged};
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::units::{Bytes, Nanos};
use serde_json::Value;

/// A calibration takes about half a minute.
const BOUND: Duration = Duration::from_mins(4);
const MEMORY_MIB: u64 = 768;

/// How far the model of a whole swap may be off, in per cent, and ρ.
const MODEL_PERCENT: f64 = 3.0;
const DUPLEX: f64 = 0.03;
/// By how much a call may take longer than it is made to, as a factor and beside it.
const CALL_MORE: f64 = 1.03;
const CALL_SLACK_US: f64 = 10.0;

/// The chunk sizes that a GPU of so much memory is tried with.
const SIZES_MIB: [u64; 5] = [2, 4, 8, 16, 32];

/// A simulated link. Times in µs, rates in GiB/s.
#[derive(Clone, Copy)]
struct Link {
    out: f64,
    into: f64,
    duplex: f64,
    /// Of a copy engine that stood idle: once a swap.
    start: f64,
    /// Each copy, which is each chunk.
    copy: f64,
    /// The other calls for a chunk, out and in.
    calls: [f64; 2],
}

const LINKS: [Link; 3] = [
    Link {
        out: 0.42,
        into: 0.31,
        duplex: 0.6,
        start: 900.0,
        copy: 10.0,
        calls: [63.6, 69.5],
    },
    Link {
        out: 0.25,
        into: 0.5,
        duplex: 0.8,
        start: 3_000.0,
        copy: 400.0,
        calls: [150.0, 300.0],
    },
    Link {
        out: 0.8,
        into: 0.65,
        duplex: 1.0,
        start: 500.0,
        copy: 40.0,
        calls: [600.0, 800.0],
    },
];

impl Link {
    fn machine(&self) -> Result<Machine> {
        let toml = format!(
            "duplex = {:?}\ncopy_start_us = {:?}\ncopy_us = {:?}\nunmap_us = {:?}\nrelease_us = {:?}\n\
             create_us = {:?}\nmap_us = {:?}\naccess_us = {:?}\n",
            self.duplex,
            self.start,
            self.copy,
            self.calls_us("unmap"),
            self.calls_us("release"),
            self.calls_us("create"),
            self.calls_us("map"),
            self.calls_us("access"),
        );
        Machine::new(MachineOptions {
            memory_mib: MEMORY_MIB,
            link_gib_per_s: self.out,
            h2d_gib_per_s: Some(self.into),
            simgpu_toml: toml,
            described: false,
            ..MachineOptions::default()
        })
    }

    /// What one of the calls for a chunk takes, in µs.
    fn calls_us(&self, call: &str) -> f64 {
        let [out, into] = self.calls;
        match call {
            "unmap" | "release" => out / 2.0,
            "create" => into / 2.0,
            "map" | "access" => into / 4.0,
            _ => unreachable!("no {call} is called for a chunk"),
        }
    }

    /// What a swap costs on it. The calls for a chunk are made while another one is copied, which takes longer on each of
    /// these links: but for those of one chunk they cost nothing.
    fn cost(&self) -> SwapCost {
        let direction = |rate: f64, calls: f64| DirectionCost {
            base: Nanos(((self.start + calls) * 1e3) as u64),
            per_chunk: Nanos((self.copy * 1e3) as u64),
            bytes_per_second: (rate * f64::from(1 << 30)) as u64,
        };
        SwapCost {
            out: direction(self.out, self.calls[0]),
            in_: direction(self.into, self.calls[1]),
        }
    }
}

fn direction(answer: &Value, name: &str) -> Result<DirectionCost> {
    let of = &answer[name];
    let micros = |key: &str| {
        let value = of[key]
            .as_f64()
            .with_context(|| format!("{name} has no {key}"))?;
        anyhow::Ok(Nanos((value * 1e3) as u64))
    };
    Ok(DirectionCost {
        base: micros("base_us")?,
        per_chunk: micros("per_chunk_us")?,
        bytes_per_second: of["bytes_per_second"].as_u64().context("no speed")?,
    })
}

/// The calls that took otherwise than the link has them. The simulated GPU's own work for a large chunk may add to it.
fn calls_off(link: &Link, answer: &Value) -> Result<Vec<String>> {
    let sizes = answer["sizes"].as_array().context("no sizes")?;
    ensure!(sizes.len() == SIZES_MIB.len(), "{answer}");
    let mut off = Vec::new();
    for (size, mib) in sizes.iter().zip(SIZES_MIB) {
        ensure!(size["chunk_bytes"] == mib << 20, "{size}");
        for call in ["create", "map", "access", "unmap", "release"] {
            let us = size["calls"][format!("{call}_us")].as_f64();
            let (us, made) = (us.context(call)?, link.calls_us(call));
            println!("{call} of {mib} MiB: {us:.1} µs for {made:.1} µs");
            ensure!(us > made * 0.99, "{call} of {mib} MiB: {us} µs for {made}");
            if us > made * CALL_MORE + CALL_SLACK_US {
                off.push(format!("{call} of {mib} MiB: {us:.1} µs for {made:.1} µs"));
            }
        }
    }
    Ok(off)
}

/// `rtswapctl calibrate --json`.
fn calibrate(machine: &Machine, further: &[&str]) -> Result<Value> {
    let mut command = machine.command(machine.binary("rtswapctl"));
    command.args(["calibrate", "--json"]).args(further);
    Program::start(command)?.finish(BOUND)?.json()
}

/// Runs the calibration of a link, and says how far it is off: as a verdict, because a busy host makes all swaps slow.
fn judge(link: Link) -> Result<Verdict> {
    let machine = link.machine()?;
    let _daemon = machine.daemon()?;
    let answer = calibrate(&machine, &[])?;
    let (made, measured) = (
        link.cost(),
        SwapCost {
            out: direction(&answer, "out")?,
            in_: direction(&answer, "in")?,
        },
    );
    let chunk = Bytes(answer["chunk_bytes"].as_u64().context("no chunk size")?);
    let mut off = calls_off(&link, &answer)?;
    for part in [4, 8, 16] {
        let volume = Bytes((MEMORY_MIB << 20) / part);
        let ways = [
            (made.out, measured.out, "out"),
            (made.in_, measured.in_, "in"),
        ];
        for (made, measured, name) in ways {
            let (made, measured) = (made.bound(volume, chunk), measured.bound(volume, chunk));
            let percent = (measured.0 as f64 / made.0 as f64 - 1.0) * 100.0;
            println!("{volume} {name} by {chunk}: {measured} for {made}, {percent:+.2} %");
            if percent.abs() > MODEL_PERCENT {
                off.push(format!("{volume} {name}: {percent:+.1} %"));
            }
        }
    }
    let duplex = answer["duplex"].as_f64().context("no duplex")?;
    println!("ρ {duplex:.3} for {}", link.duplex);
    if (duplex - link.duplex).abs() > DUPLEX {
        off.push(format!("ρ {duplex:.3} for {}", link.duplex));
    }
    let sizes = SIZES_MIB.map(|mib| Bytes(mib << 20));
    let best = best::chunk(made, Bytes(MEMORY_MIB << 20), &sizes)?;
    println!("chunks of {chunk}, the best by simulation {best}");
    ensure!(
        chunk.0 <= 2 * best.0 && best.0 <= 2 * chunk.0,
        "chunks of {chunk} were chosen, and {best} is best"
    );
    ensure!(answer["used"] == true, "{answer}");
    let gpu = &machine.status()?["gpus"][0];
    ensure!(gpu["chunk_bytes"] == chunk.0, "{gpu}");
    ensure!(gpu["swap_cost_source"] == "calibrated", "{gpu}");
    Ok(if off.is_empty() {
        Verdict::Judged
    } else {
        Verdict::Unjudged(off.join(", "))
    })
}

#[test]
#[ignore = "minutes, and nothing beside it: cargo test -p rtswap-e2e --test calibrate -- --ignored --test-threads 1"]
fn a_half_duplex_link_is_measured() -> Result<()> {
    until_judged("the first link", || judge(LINKS[0]))
}

#[test]
#[ignore = "minutes, and nothing beside it: cargo test -p rtswap-e2e --test calibrate -- --ignored --test-threads 1"]
fn a_link_that_reads_faster_than_it_writes_is_measured() -> Result<()> {
    until_judged("the second link", || judge(LINKS[1]))
}

#[test]
#[ignore = "minutes, and nothing beside it: cargo test -p rtswap-e2e --test calibrate -- --ignored --test-threads 1"]
fn a_link_with_slow_calls_is_measured() -> Result<()> {
    until_judged("the third link", || judge(LINKS[2]))
}
