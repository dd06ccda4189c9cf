//! Swaps of weights and optimiser's states across iterations, on and off.

use anyhow::Result;
use rtswap_eval::tensile::measure::measure;
use rtswap_eval::tensile::method::{Kept, Method, Order};
use rtswap_eval::tensile::workloads::{UNFUSED, WORKLOADS};

use super::{effort, ms, percent};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

const WAYS: [(&str, Kept); 3] = [
    ("on", Kept::Swapped),
    ("off", Kept::Missed),
    ("kept in GPU memory", Kept::Resident),
];

pub(crate) fn report(runs: u64) -> Result<Report> {
    let mut report = Report::new("tensile-across", "swaps across iterations, on and off");
    report.seeds = (1..=runs).collect();
    let mut table = Table::new(
        "percent, passive swaps of an iteration, and for how long operators waited for them",
        "workload | order | across iterations | saved | extra | passive swaps | ms",
    );
    let mut bars: Vec<(String, Vec<f64>)> = WAYS
        .iter()
        .map(|(name, _)| ((*name).to_owned(), Vec::new()))
        .collect();
    for workload in WORKLOADS.iter().chain([&UNFUSED]) {
        let graph = workload.graph()?;
        for (order, of) in [("PyTorch's", Order::Trace), ("ours", Order::Deferred)] {
            let methods = WAYS.map(|(_, kept)| Method::ours(of, kept));
            let measured = measure(&[&graph], &methods, effort(runs))?;
            for (((name, _), measured), bars) in WAYS.iter().zip(measured).zip(&mut bars) {
                let mut cells = row![workload.name, order, *name];
                let parts = [measured.saved, measured.extra.mean];
                cells.extend(parts.map(|part| Cell::Number(percent(part), 2)));
                cells.push(Cell::Number(measured.passive, 1));
                cells.push(Cell::Number(ms(measured.passive_ns), 2));
                table.rows.push(cells);
                if of == Order::Deferred {
                    bars.1.push(measured.passive);
                }
            }
        }
    }
    report.tables.push(table);
    report.note("off: the same tensors leave, and each comes back where an operator misses it");
    report.note("one passive swap of each iteration is that of its input, without swaps too");
    report.svg = Bars {
        title: "Passive swaps of an iteration in our order (modelled)",
        y: "swaps",
        groups: WORKLOADS
            .iter()
            .chain([&UNFUSED])
            .map(|workload| workload.name.to_owned())
            .collect(),
        series: bars,
    }
    .svg()?;
    Ok(report)
}
