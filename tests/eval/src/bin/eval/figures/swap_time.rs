//! Fig. 4.

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::figures::published;
use rtswap_eval::figures::swap_time::{by_chunk, by_object};
use rtswap_eval::figures::workload::Reading;

use super::{SEEDS, mebibytes, millis};
use crate::chart::{Lines, Series};
use crate::report::{Report, Table, row};

pub(super) fn report() -> Result<Report> {
    let mut report = Report::new("fig4", "how long swapping 300 MB takes");
    report.seeds = vec![SEEDS[0]];
    let rows = by_chunk();
    let at = |chunk: u64| rows.iter().find(|row| row.chunk.0 == chunk << 20);
    for (chunk, number) in published::OUT_BY_CHUNK {
        let ours = at(chunk).map(|row| millis(row.pinned.out));
        report.compare(format!("RT-Swap out, chunk {chunk} MB"), "ms", number, ours);
    }
    let row_64 = at(64);
    for (what, number, ours) in [
        (
            "RT-Swap in, chunk 64 MB",
            published::IN_64,
            row_64.map(|r| r.pinned.in_),
        ),
        (
            "Pageable out, chunk 64 MB",
            published::PAGEABLE_OUT_64,
            row_64.map(|r| r.pageable.out),
        ),
        (
            "Pageable in, chunk 64 MB",
            published::PAGEABLE_IN_64,
            row_64.map(|r| r.pageable.in_),
        ),
    ] {
        report.compare(what, "ms", number, ours.map(millis));
    }
    let mut table = Table::new(
        "by chunk size, in ms",
        &[
            "chunk MiB",
            "RT-Swap out",
            "RT-Swap in",
            "Pageable out",
            "Pageable in",
        ],
    );
    for r in &rows {
        table.rows.push(row![
            r.chunk.0 >> 20,
            millis(r.pinned.out),
            millis(r.pinned.in_),
            millis(r.pageable.out),
            millis(r.pageable.in_),
        ]);
    }
    report.tables.push(table);
    let mut table = Table::new(
        "MO-VMM, by model at 416, in ms: the largest objects first, and objects of the mean size",
        &["model", "largest", "out", "in", "mean", "out", "in"],
    );
    for r in by_object(&Reading::default(), SEEDS[0]) {
        let ((largest, first), (mean, second)) = (r.largest, r.mean);
        let mut cells = row![
            r.model.name(),
            largest,
            millis(first.out),
            millis(first.in_)
        ];
        cells.extend(row![mean, millis(second.out), millis(second.in_)]);
        table.rows.push(cells);
    }
    report.tables.push(table);
    report.note(
        "the model's two numbers for the way out are fitted to three published times, so only one \
         of these is a prediction; the way in and Pageable have one published time each and fit it \
         by construction",
    );
    report.note("the bar of Pinned in Fig. 4(a) has no number in the text and is left out");
    report.note("no time of MO-VMM is published");
    let line = |name: &str, time: fn(&rtswap_eval::figures::swap_time::ChunkRow) -> f64| Series {
        name: name.into(),
        values: rows
            .iter()
            .map(|row| (mebibytes(row.chunk).log2(), time(row)))
            .collect(),
    };
    let marks =
        published::OUT_BY_CHUNK.map(|(chunk, number)| ((chunk as f64).log2(), number.value));
    let lines = Lines {
        title: "Swapping 300 MB: modelled, and published",
        x: "chunk size in MiB",
        y: "ms",
        series: vec![
            line("RT-Swap out", |row| millis(row.pinned.out)),
            line("RT-Swap in", |row| millis(row.pinned.in_)),
        ],
        published: marks
            .into_iter()
            .chain([(6.0, published::IN_64.value)])
            .collect(),
        label: |power| format!("{:.0}", power.exp2()),
        legend: SeriesLabelPosition::LowerLeft,
    };
    report.svg = lines.svg()?;
    Ok(report)
}
