//! Table 1.

use anyhow::Result;
use rtswap_eval::advisor::models::TRAINED;
use rtswap_eval::advisor::published::TABLE_1;
use rtswap_planner::machine::Roofline;

use super::Searches;
use crate::chart::Bars;
use crate::report::Report;

pub(crate) fn table_1(_: Searches) -> Result<Report> {
    let mut report = Report::new("advisor-table1", "memory, operators and tensor sizes");
    let mut bars = Vec::new();
    for (model, published) in TRAINED.iter().zip(TABLE_1) {
        let [.., batch] = model.batches;
        let graph = model.graph(batch, &Roofline::V100)?;
        let bytes: u64 = graph.tensors().iter().map(|tensor| tensor.bytes).sum();
        let ours = [
            bytes as f64 / 1e9,
            graph.operators().len() as f64,
            graph.sizes().len() as f64,
        ];
        let whats = [("memory", "GB"), ("operators", ""), ("tensor sizes", "")];
        for (((what, unit), published), ours) in whats.into_iter().zip(published).zip(ours) {
            report.compare(format!("{}: {what}", model.name), unit, published, ours);
        }
        bars.push((published[0].value, ours[0]));
    }
    report.note(
        "memory is the sum of all tensors of an iteration, each counted once: nothing is reused, views are the same \
         tensor, gradients of one tensor are added in place",
    );
    report.note(
        "MXNet's operators are larger than PyTorch's: it counts a normalisation's statistics, and all of an LSTM cell's \
         products, as one",
    );
    report.svg = Bars {
        title: "Memory of a training iteration",
        y: "GB",
        groups: TRAINED.map(|model| model.name.into()).to_vec(),
        series: vec![
            ("published".into(), bars.iter().map(|bar| bar.0).collect()),
            ("ours".into(), bars.iter().map(|bar| bar.1).collect()),
        ],
    }
    .svg()?;
    Ok(report)
}
