//! Fig. 16.

use anyhow::Result;
use rtswap_eval::swapnet::ablation::blocks;
use rtswap_eval::swapnet::mib;
use rtswap_eval::swapnet::models::{Device, Prepared, RESNET};
use rtswap_eval::swapnet::published::THREE_BLOCKS;

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn figure_16() -> Result<Report> {
    let mut report = Report::new("swapnet-fig16", "ResNet-101 in more blocks");
    let model = Prepared::new(RESNET, &Device::NX)?;
    let columns = "blocks | memory MB | latency ms | longer than direct ms";
    let mut table = Table::new("", columns);
    let (mut groups, mut memory, mut latency) = (Vec::new(), Vec::new(), Vec::new());
    for count in 3..=7 {
        let Some(found) = blocks(&model, count) else {
            continue;
        };
        let (peak, ms) = (mib(found.peak_bytes), found.latency_ns as f64 / 1e6);
        if count == 3 {
            report.compare("memory, 3 blocks", "MB", THREE_BLOCKS[0], peak);
            report.compare("latency, 3 blocks", "ms", THREE_BLOCKS[1], ms);
        }
        let mut cells = row![count];
        cells.extend([peak, ms, ms - model.direct_ms()].map(|value| Cell::Number(value, 1)));
        table.rows.push(cells);
        groups.push(format!("{count} blocks"));
        memory.push(peak);
        latency.push(ms);
    }
    report.tables.push(table);
    report.note("each in a twentieth more memory than two blocks of the same size take");
    report.svg = Bars {
        title: "ResNet-101 in more blocks (modelled)",
        y: "MB, ms",
        groups,
        series: vec![("MB".to_owned(), memory), ("ms".to_owned(), latency)],
    }
    .svg()?;
    Ok(report)
}
