//! Fig. 18.

use anyhow::{Context, Result};
use rtswap_eval::swapnet::adaptation::{adapt, budgets};
use rtswap_eval::swapnet::models::{Device, Prepared, RESNET};
use rtswap_eval::swapnet::published::{ADAPTATION_MS, ADAPTED_MS};
use rtswap_eval::swapnet::{MIB, mib};
use rtswap_planner::blocks::{BlockPlanner, LookupTable};
use rtswap_planner::validator::validate;

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

/// MB: those of the three applications.
const BUDGETS: [u64; 3] = [136, 119, 102];
/// The least budget of the table, in MB.
const LEAST: u64 = 80;

pub(crate) fn figure_18() -> Result<Report> {
    let mut report = Report::new("swapnet-fig18", "ResNet-101 in a budget that changes");
    let model = Prepared::new(RESNET, &Device::NX)?;
    let table = LookupTable::new(&model.costs, budgets(&model, LEAST * MIB));
    let planner = BlockPlanner::new(&model.graph, &model.info);
    let columns = "budget MB | blocks | cut behind the layers | memory MB | latency ms | swap-ins";
    let mut shown = Table::new("", columns);
    let mut latencies = Vec::new();
    for (at, budget) in BUDGETS.into_iter().enumerate() {
        let adapted = adapt(&table, &planner, budget * MIB);
        let (partition, plan) = adapted.context("the table has no such budget")?;
        validate(&model.graph, &plan)?;
        let ms = partition.latency_ns as f64 / 1e6;
        if at > 0 {
            let what = format!("latency behind adaptation {at}");
            report.compare(what, "ms", ADAPTED_MS[at - 1], ms);
            let what = format!("time of adaptation {at}");
            report.compare(what, "ms", ADAPTATION_MS[at - 1], None);
        }
        let mut cells = row![budget, partition.count(), format!("{:?}", partition.points)];
        cells.extend([mib(partition.peak_bytes), ms].map(|value| Cell::Number(value, 1)));
        cells.extend(row![plan.swap_in.len()]);
        shown.rows.push(cells);
        latencies.push(ms);
    }
    report.tables.push(shown);
    report.note(format!(
        "from a table of {} partitions; the paper does not say to which budgets it changes, these are those of its three \
         applications",
        table.partitions().len()
    ));
    report.note(
        "the time of an adaptation is measured by a test, `adaptation_is_fast` in tests/eval/tests/swapnet.rs, because the \
         same command writes the same bytes",
    );
    report.svg = Bars {
        title: "ResNet-101 in a budget that changes (modelled)",
        y: "ms",
        groups: BUDGETS.map(|budget| format!("{budget} MB")).to_vec(),
        series: vec![("latency".to_owned(), latencies)],
    }
    .svg()?;
    Ok(report)
}
