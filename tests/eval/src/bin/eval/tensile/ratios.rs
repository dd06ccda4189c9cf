//! Tables 1 and 2: memory saved, extra time, and the one over the other.

use anyhow::Result;
use rtswap_eval::figures::published::Published;
use rtswap_eval::tensile::measure::{Measured, measure};
use rtswap_eval::tensile::method::Method;
use rtswap_eval::tensile::published::{Ratios, TABLE_1, TABLE_2};
use rtswap_eval::tensile::workloads::{UNFUSED, WORKLOADS};

use super::{effort, percent};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

/// The methods of both tables. The paper has the first three.
const METHODS: [(&str, Method); 4] = [
    ("vDNN", Method::VDnn),
    ("Capuchin", Method::Capuchin),
    ("TENSILE", Method::TRACE),
    ("TENSILE, our order", Method::DEFERRED),
];

const COLUMNS: &str = "workload | method | saved | of freed | extra | ± | without the first iteration | CBR | paper: saved | extra | CBR";

pub(crate) fn table_1(runs: u64) -> Result<Report> {
    let mut report = Report::new("tensile-table1", "one job on an RTX 2080 Ti");
    let mut table = Table::new("percent; CBR as a ratio", COLUMNS);
    let mut bars = Vec::new();
    for workload in WORKLOADS.iter().chain([&UNFUSED]) {
        let graph = workload.graph()?;
        let measured = measure(&[&graph], &METHODS.map(|(_, method)| method), effort(runs))?;
        let is_published = workload.name == WORKLOADS[0].name;
        let published = is_published.then_some(&TABLE_1);
        if let Some(published) = published {
            compare(&mut report, workload.name, &measured, published, "Table 1");
        }
        add(&mut table, workload.name, &measured, published);
        bars.push((workload.name.to_owned(), measured));
    }
    finish(
        report,
        table,
        runs,
        &bars,
        "Extra time of one job (modelled)",
    )
}

pub(crate) fn table_2(runs: u64) -> Result<Report> {
    let mut report = Report::new("tensile-table2", "one to three jobs that train VGG");
    let mut table = Table::new("percent; CBR as a ratio", COLUMNS);
    let mut bars = Vec::new();
    let graph = WORKLOADS[0].graph()?;
    for (jobs, published) in (1..).zip(&TABLE_2) {
        let graphs = vec![&graph; jobs];
        let measured = measure(&graphs, &METHODS.map(|(_, method)| method), effort(runs))?;
        let name = format!("VGG x{jobs}");
        compare(&mut report, &name, &measured, published, "Table 2");
        add(&mut table, &name, &measured, Some(published));
        bars.push((name, measured));
    }
    finish(
        report,
        table,
        runs,
        &bars,
        "Extra time of several jobs (modelled)",
    )
}

/// Holds the published methods against the paper, and TENSILE in our order as well.
fn compare(
    report: &mut Report,
    workload: &str,
    measured: &[Measured],
    published: &[Ratios; 3],
    source: &'static str,
) {
    let published = published.iter().chain(published.last());
    for (((name, _), measured), published) in METHODS.iter().zip(measured).zip(published) {
        let mut one = |what: &str, value: f64, ours: f64| {
            let published = Published {
                value: percent(value),
                source,
            };
            let what = format!("{workload}, {name}: {what}");
            report.compare(what, "%", published, percent(ours));
        };
        one("saved", published.saved, measured.saved);
        one("extra", published.extra, measured.extra.mean);
    }
}

fn add(table: &mut Table, workload: &str, measured: &[Measured], published: Option<&[Ratios; 3]>) {
    for (at, ((name, _), measured)) in METHODS.iter().zip(measured).enumerate() {
        let published = published.and_then(|published| published.get(at));
        let mut cells = row![workload, *name];
        let parts = [
            measured.saved,
            measured.saved_of_freed,
            measured.extra.mean,
            measured.extra.deviation,
            measured.extra_later,
        ];
        cells.extend(parts.map(|part| Cell::Number(percent(part), 2)));
        cells.push(measured.benefit().into());
        cells.push(published.map(|of| percent(of.saved)).into());
        cells.push(published.map(|of| percent(of.extra)).into());
        cells.push(published.map(|of| of.benefit).into());
        table.rows.push(cells);
    }
}

fn finish(
    mut report: Report,
    table: Table,
    runs: u64,
    bars: &[(String, Vec<Measured>)],
    title: &'static str,
) -> Result<Report> {
    report.tables.push(table);
    report.seeds = (1..=runs).collect();
    report.note(
        "saved: of the memory of jobs that free nothing within an iteration, as the paper counts",
    );
    report.note("of freed: of the memory of jobs that free each tensor behind its last use");
    report
        .note("extra: beyond the time of the same jobs without swaps, in runs with the same noise");
    report.note("CBR: saved over extra; nothing where the extra time is within its deviation");
    let series = METHODS.iter().enumerate().map(|(at, (name, _))| {
        let values = bars
            .iter()
            .map(|(_, measured)| percent(measured[at].extra.mean).max(0.0));
        ((*name).to_owned(), values.collect())
    });
    report.svg = Bars {
        title,
        y: "%",
        groups: bars.iter().map(|(name, _)| name.clone()).collect(),
        series: series.collect(),
    }
    .svg()?;
    Ok(report)
}
