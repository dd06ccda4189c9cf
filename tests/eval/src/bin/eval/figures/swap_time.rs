//! Fig. 4.

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::figures::published::{self, Published};
use rtswap_eval::figures::swap_time::{ChunkRow, by_chunk, by_object};
use rtswap_eval::figures::workload::Reading;
use rtswap_policy::admission::Test;
use rtswap_policy::units::Nanos;

use super::{SEEDS, mebibytes, millis};
use crate::chart::{Lines, Series};
use crate::report::{Report, Table, row};

pub(crate) fn report(_: Test) -> Result<Report> {
    let mut report = Report::new("fig4", "how long swapping 300 MB takes");
    report.seeds = vec![SEEDS[0]];
    let rows = by_chunk();
    let at = |chunk: u64| rows.iter().find(|row| row.chunk.0 == chunk << 20);
    for (chunk, number) in published::OUT_BY_CHUNK {
        let ours = at(chunk).map(|row| millis(row.pinned.out));
        report.compare(format!("RT-Swap out, chunk {chunk} MB"), "ms", number, ours);
    }
    let mut compare_64 = |what: &str, number, ours: fn(&ChunkRow) -> Nanos| {
        let ours = at(64).map(|row| millis(ours(row)));
        report.compare(format!("{what}, chunk 64 MB"), "ms", number, ours);
    };
    compare_64("RT-Swap in", published::IN_64, |row| row.pinned.in_);
    let number = published::PAGEABLE_OUT_64;
    compare_64("Pageable out", number, |row| row.pageable.out);
    let number = published::PAGEABLE_IN_64;
    compare_64("Pageable in", number, |row| row.pageable.in_);
    let mut table = Table::new(
        "by chunk size, in ms",
        "chunk MiB | RT-Swap out | RT-Swap in | Pageable out | Pageable in",
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
        "model | largest | out | in | mean | out | in",
    );
    for r in by_object(&Reading::default(), SEEDS[0]) {
        let mut cells = row![r.model.name()];
        for (count, times) in [r.largest, r.mean] {
            cells.extend(row![count, millis(times.out), millis(times.in_)]);
        }
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
    let line = |name: &str, time: fn(&ChunkRow) -> Nanos| {
        let value = |row: &ChunkRow| (mebibytes(row.chunk).log2(), millis(time(row)));
        Series {
            name: name.into(),
            values: rows.iter().map(value).collect(),
        }
    };
    let mark = |(chunk, number): (u64, Published)| ((chunk as f64).log2(), number.value);
    report.svg = Lines {
        title: "Swapping 300 MB: modelled, and published",
        x: "chunk size in MiB",
        y: "ms",
        series: vec![
            line("RT-Swap out", |row| row.pinned.out),
            line("RT-Swap in", |row| row.pinned.in_),
        ],
        published: published::OUT_BY_CHUNK
            .into_iter()
            .chain([(64, published::IN_64)])
            .map(mark)
            .collect(),
        label: |power| format!("{:.0}", power.exp2()),
        legend: SeriesLabelPosition::LowerLeft,
    }
    .svg()?;
    Ok(report)
}
