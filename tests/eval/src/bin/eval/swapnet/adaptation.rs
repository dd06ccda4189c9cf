//! Fig. 18.

use anyhow::{Context, Result};
use rtswap_eval::swapnet::ablation::fewest_blocks;
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
    let columns = "budget MB | blocks | cut behind the layers | memory MB | latency ms";
    let mut shown = Table::new("", columns);
    let mut latencies = [Vec::new(), Vec::new()];
    for (at, budget) in BUDGETS.into_iter().enumerate() {
        let adapted = adapt(&table, &planner, budget * MIB);
        let (partition, plan) = adapted.context("the table has no such budget")?;
        validate(&model.graph, &plan)?;
        let fewest = fewest_blocks(&model, budget * MIB);
        let fewest = fewest.context("no blocks fit")?;
        if at > 0 {
            let what = format!("latency behind adaptation {at}, fewest blocks");
            let ms = fewest.latency_ns as f64 / 1e6;
            report.compare(what, "ms", ADAPTED_MS[at - 1], ms);
            let what = format!("time of adaptation {at}");
            report.compare(what, "ms", ADAPTATION_MS[at - 1], None);
        }
        for (found, latencies) in [&fewest, &partition].into_iter().zip(&mut latencies) {
            let ms = found.latency_ns as f64 / 1e6;
            let mut cells = row![budget, found.count(), format!("{:?}", found.points)];
            cells.extend([mib(found.peak_bytes), ms].map(|value| Cell::Number(value, 1)));
            shown.rows.push(cells);
            latencies.push(ms);
        }
    }
    report.tables.push(shown);
    report.note(format!(
        "each budget twice: with the fewest blocks as the paper has them, and from a table of {} partitions, where what takes \
         less memory at the same latency stands for larger budgets too; the paper does not say to which budgets it changes, these are those of its three \
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
        series: ["fewest blocks", "from the table"]
            .map(ToOwned::to_owned)
            .into_iter()
            .zip(latencies)
            .collect(),
    }
    .svg()?;
    Ok(report)
}
