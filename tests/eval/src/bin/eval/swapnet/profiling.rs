//! Fig. 9.

use anyhow::{Context, Result};
use rtswap_eval::swapnet::models::{Device, Prepared, RESNET};
use rtswap_eval::swapnet::profiling::profile;
use rtswap_eval::swapnet::published::ASSEMBLY_US;
use rtswap_planner::blocks::{Coefficients, Execution};

use crate::chart::Bars;
use crate::report::{Report, Table, row};

const SEED: u64 = 1;
const BLOCKS: usize = 200;
/// The deviation of each time, as a share of it.
const NOISE: f64 = 0.05;

/// A coefficient and its unit, and what it is.
type Coefficient = (&'static str, fn(&Coefficients) -> f64);

pub(crate) fn figure_9() -> Result<Report> {
    let title = "the coefficients of the device, by regression";
    let mut report = Report::new("swapnet-fig9", title);
    report.seeds = vec![SEED];
    let model = Prepared::new(RESNET, &Device::NX)?;
    let found = profile(&model, &Device::NX, NOISE, BLOCKS, SEED);
    let [found, device] = found.context("the blocks do not tell the coefficients apart")?;
    let assembly_us = found.assembly_ns_per_reference / 1e3;
    report.compare("assembly, one reference", "us", ASSEMBLY_US, assembly_us);
    let mut table = Table::new("", "coefficient | device | regression");
    let rows: [Coefficient; 5] = [
        ("alpha, ns per KiB", |of| of.read_ns_per_byte * 1024.0),
        ("beta, us per reference", |of| {
            of.assembly_ns_per_reference / 1e3
        }),
        ("gamma, ms per GFLOP", |of| match of.execution {
            Execution::PerFlop(ns) => ns * 1e3,
            Execution::Recorded => 0.0,
        }),
        ("eta, us per reference", |of| {
            of.reset_ns_per_reference / 1e3
        }),
        ("garbage collection, ms per block", |of| {
            of.collection_ns / 1e6
        }),
    ];
    let mut ratios = Vec::new();
    for (name, of) in rows {
        table.rows.push(row![name, of(&device), of(&found)]);
        ratios.push(of(&found) / of(&device));
    }
    report.tables.push(table);
    report.note(format!(
        "{BLOCKS} blocks of ResNet-101 with the constants of the other figures and a normal deviation of {:.0} %: what is \
         tested is the regression; the text of the paper has no measured points",
        100.0 * NOISE
    ));
    report.svg = Bars {
        title: "Coefficients by regression, as a share of the device's",
        y: "",
        groups: ["alpha", "beta", "gamma", "eta", "collection"]
            .map(Into::into)
            .to_vec(),
        series: vec![("ratio".to_owned(), ratios)],
    }
    .svg()?;
    Ok(report)
}
