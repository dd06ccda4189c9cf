//! Table 2.

use anyhow::Result;
use rtswap_eval::advisor::inference::{ideal_ns, time};
use rtswap_eval::advisor::models::INFERENCE_BATCHES;
use rtswap_eval::advisor::published::TABLE_2;
use rtswap_eval::figures::published::Published;

use super::{Searches, seconds};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn table_2(searches: Searches) -> Result<Report> {
    let mut report = Report::new(
        "advisor-table2",
        "one inference of ResNet-152 in little memory",
    );
    for (at, batch) in INFERENCE_BATCHES.into_iter().enumerate() {
        let published = Published {
            value: TABLE_2[4].1[at].unwrap_or_default(),
            source: "Table 2",
        };
        let ours = seconds(ideal_ns(batch)?);
        report.compare(
            format!("batch {batch}, all memory (fitted)"),
            "s",
            published,
            ours,
        );
    }
    let mut table = Table::new(
        "seconds; nothing where an operator does not fit",
        "MB | batch 1 | paper | batch 16 | paper | batch 64 | paper",
    );
    let mut series: Vec<(String, Vec<f64>)> = INFERENCE_BATCHES
        .map(|batch| (format!("batch {batch}"), Vec::new()))
        .to_vec();
    for (megabytes, published) in TABLE_2 {
        let mut cells = row![megabytes];
        for (at, batch) in INFERENCE_BATCHES.into_iter().enumerate() {
            let run = time(batch, megabytes * 1_000_000, searches.ours())?;
            let ours = run.map(|run| seconds(run.total_ns));
            cells.extend(
                [ours, published[at]]
                    .map(|time| time.map_or(Cell::Nothing, |time| Cell::Number(time, 3))),
            );
            series[at].1.push(ours.unwrap_or_default());
        }
        table.rows.push(cells);
    }
    report.tables.push(table);
    report.svg = Bars {
        title: "One inference of ResNet-152 (modelled)",
        y: "s",
        groups: TABLE_2
            .map(|(megabytes, _)| format!("{megabytes} MB"))
            .to_vec(),
        series,
    }
    .svg()?;
    Ok(report)
}
