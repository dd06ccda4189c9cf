//! Table II.

use anyhow::Result;
use rtswap_eval::figures::fragmentation::{Column, table};
use rtswap_eval::figures::published;
use rtswap_eval::figures::workload::Reading;
use rtswap_policy::admission::Test;
use rtswap_policy::units::Bytes;

use super::{SEEDS, gibibytes};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn report(_: Test) -> Result<Report> {
    let mut report = Report::new("table2", "what an allocation per memory object wastes");
    report.seeds = SEEDS.to_vec();
    let columns = table(&Reading::default(), SEEDS[0]);
    for (column, number) in columns.iter().zip(published::PER_OBJECT_GB) {
        let what = format!("{} 416, an allocation per object", column.model.name());
        report.compare(what, "GB", number, gibibytes(column.per_object));
    }
    for (column, number) in columns.iter().zip(published::PACKED_WASTE_GB) {
        let what = format!("{} 416, wasted by packing into 2 MB", column.model.name());
        report.compare(
            what,
            "GB",
            number,
            gibibytes(column.packed - column.payload),
        );
    }
    let heads = "model | < 2 MB | > 2 MB | asked GB | per object GB | packed GB | packed 64 MB";
    for seed in SEEDS {
        let mut shown = Table::new(format!("seed {seed}"), heads);
        for column in table(&Reading::default(), seed) {
            let (small, large) = column.counted;
            let mut cells = row![column.model.name(), small, large];
            for bytes in [
                column.payload,
                column.per_object,
                column.packed,
                column.packed_64,
            ] {
                cells.push(Cell::Number(gibibytes(bytes), 3));
            }
            shown.rows.push(cells);
        }
        report.tables.push(shown);
    }
    report.note(
        "the counts and the sums are the paper's; the sizes are drawn, evenly over powers of two \
         from 4 KiB, because no sizes are published",
    );
    report.note(
        "the published waste of packing is rounded to 1 MB, so a ratio to it says little; packing \
         wastes less than one chunk and the alignment of each object to 512 B",
    );
    let series = |name: &str, bytes: fn(&Column) -> Bytes| {
        let values = columns.iter().map(|column| gibibytes(bytes(column)));
        (name.to_string(), values.collect())
    };
    let published = published::PER_OBJECT_GB.map(|number| number.value);
    report.svg = Bars {
        title: "Memory of one model at 416 (modelled)",
        y: "GB",
        groups: columns
            .iter()
            .map(|column| column.model.name().into())
            .collect(),
        series: vec![
            series("asked for", |column| column.payload),
            series("an allocation per object", |column| column.per_object),
            series("packed into chunks of 2 MB", |column| column.packed),
            (
                "an allocation per object, published".into(),
                published.to_vec(),
            ),
        ],
    }
    .svg()?;
    Ok(report)
}
