//! Tables 2 and 3.

use anyhow::Result;
use rtswap_eval::swapnet::models::{Device, Prepared, RESNET};
use rtswap_eval::swapnet::published::{LAYERS, PARTITIONS};
use rtswap_eval::swapnet::{MIB, mib};
use rtswap_planner::blocks::partition_into;

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn table_2() -> Result<Report> {
    let title = "the model info table of ResNet-101";
    let mut report = Report::new("swapnet-table2", title);
    let model = Prepared::new(RESNET, &Device::NX)?;
    let layers = model.info.layers();
    let columns =
        "paper | MB | references | MFLOPs | ours | first operator | MB | references | MFLOPs";
    let mut table = Table::new(
        format!("{} layers, the paper's has 101", layers.len()),
        columns,
    );
    let number = |value| Cell::Number(value, 3);
    for (at, (name, megabytes, references, flops)) in LAYERS.into_iter().enumerate() {
        // The last two of the paper's rows are the last two of the model.
        let own = if at < 5 {
            at
        } else {
            layers.len() + at - LAYERS.len()
        };
        let layer = &layers[own];
        let mut cells = row![name];
        cells.push(number(megabytes));
        cells.extend(row![references]);
        cells.push(number(flops / 1e6));
        let first = &model.graph.operator(layer.operators.start).name;
        cells.extend(row![format!("{}", own + 1), first.as_str()]);
        cells.push(number(mib(layer.bytes)));
        cells.extend(row![layer.references()]);
        cells.push(number(layer.flops as f64 / 1e6));
        table.rows.push(cells);
    }
    report.tables.push(table);
    report.note(
        "a layer of ours begins at each operator that has parameters, so that a convolution and its batch normalisation are \
         two, and takes the operators without parameters behind it; a multiply-add counts as two FLOPs",
    );
    report.note(
        "the batch counter of a normalisation, one of the paper's five references, is not read in inference and is not in the \
         graph; the paper's sizes are not those of ResNet-101's first layers (its first convolution has 0.04 MB)",
    );
    report.svg = Bars {
        title: "Layers of ResNet-101",
        y: "MB",
        groups: (0..layers.len().div_ceil(20))
            .map(|at| format!("{}", 20 * at + 1))
            .collect(),
        series: vec![(
            "20 layers each".to_owned(),
            layers
                .chunks(20)
                .map(|layers| mib(layers.iter().map(|layer| layer.bytes).sum()))
                .collect(),
        )],
    }
    .svg()?;
    Ok(report)
}

pub(crate) fn table_3() -> Result<Report> {
    let title = "partitions of ResNet-101 in three blocks";
    let mut report = Report::new("swapnet-table3", title);
    let model = Prepared::new(RESNET, &Device::NX)?;
    let columns = "budget MB | cut behind the layers | memory MB | latency ms | paper ms";
    let mut table = Table::new("", columns);
    let (mut groups, mut latency) = (Vec::new(), Vec::new());
    let budgets = [
        (95, None),
        (105, Some(PARTITIONS[0][1])),
        (109, Some(PARTITIONS[1][1])),
        (119, None),
        (136, None),
    ];
    for (budget, published) in budgets {
        let found = partition_into(&model.costs, budget * MIB, 3..=3);
        let ms = found.as_ref().map(|one| one.latency_ns as f64 / 1e6);
        if let Some(published) = published {
            report.compare(format!("{budget} MB"), "ms", published, ms);
        }
        let mut cells = row![budget];
        let points = found.as_ref().map(|one| format!("{:?}", one.points));
        cells.push(points.map_or("exceed".into(), Into::into));
        let peak = found.as_ref().map(|one| mib(one.peak_bytes));
        let paper = published.map(|one| one.value);
        let number = |one: Option<f64>| one.map_or(Cell::Nothing, |one| Cell::Number(one, 1));
        cells.extend([peak, ms, paper].map(number));
        table.rows.push(cells);
        groups.push(format!("{budget} MB"));
        latency.push(ms.unwrap_or_default());
    }
    report.tables.push(table);
    report.note("ours are the fastest with three blocks in that budget; the paper's are examples of its table's rows");
    report.svg = Bars {
        title: "ResNet-101 in three blocks (modelled)",
        y: "ms",
        groups,
        series: vec![("latency".to_owned(), latency)],
    }
    .svg()?;
    Ok(report)
}
