//! Jobs that come and go, and wrong predictions.

use anyhow::Result;
use rtswap_eval::tensile::dynamic::{Course, ERROR, Prediction, VISITS, Visit, course};
use rtswap_eval::tensile::method::Method;
use rtswap_eval::tensile::workloads::WORKLOADS;

use super::percent;
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

const PREDICTIONS: [(&str, Prediction); 5] = [
    ("right", Prediction::RIGHT),
    ("errors", wrong(1.0)),
    ("errors, half as long", wrong(0.5)),
    ("errors, twice as long", wrong(2.0)),
    ("errors, four times as long", wrong(4.0)),
];

const fn wrong(factor: f64) -> Prediction {
    Prediction {
        error: ERROR,
        factor,
    }
}

const METHODS: [(&str, Method); 4] = [
    ("vDNN", Method::VDnn),
    ("Capuchin", Method::Capuchin),
    ("TENSILE", Method::TRACE),
    ("TENSILE, our order", Method::DEFERRED),
];

pub(crate) fn report(runs: u64) -> Result<Report> {
    let mut report = Report::new(
        "tensile-dynamic",
        "jobs that come and go, and wrong predictions",
    );
    report.seeds = (1..=runs).collect();
    let mut table = Table::new(
        "VGG, and beside it ResNet-50 and Inception V3 for a time: percent",
        "method | saved | extra | ± | passive swaps",
    );
    for (name, method) in METHODS {
        let course = course(&VISITS, method, wrong(1.0), runs)?;
        let mut cells = row![name];
        cells.extend(
            [course.saved, course.extra.mean, course.extra.deviation]
                .map(|part| Cell::Number(percent(part), 2)),
        );
        cells.push(Cell::Number(course.passive, 1));
        table.rows.push(cells);
    }
    report.tables.push(table);
    let mut table = Table::new(
        "TENSILE in our order, 60 iterations alone, by its first prediction: percent",
        "workload | prediction | saved | extra | first five iterations | last five | plans made again",
    );
    let mut bars = [("first five", Vec::new()), ("last five", Vec::new())];
    for workload in [WORKLOADS[0], WORKLOADS[1]] {
        let alone = [Visit {
            workload,
            begins_ms: 0,
            iterations: 60,
        }];
        for (name, prediction) in PREDICTIONS {
            let Course {
                extra,
                ends,
                saved,
                drifts,
                ..
            } = course(&alone, Method::DEFERRED, prediction, runs)?;
            let mut cells = row![workload.name, name];
            cells.extend(
                [saved, extra.mean, ends[0], ends[1]].map(|part| Cell::Number(percent(part), 2)),
            );
            cells.push(Cell::Number(drifts, 1));
            table.rows.push(cells);
            if workload == WORKLOADS[0] {
                for ((_, values), end) in bars.iter_mut().zip(ends) {
                    values.push(percent(end).max(0.0));
                }
            }
        }
    }
    report.tables.push(table);
    report.note("TENSILE plans for all jobs when one is launched or has ended, and when the expected times of its operators have drifted by 30 % together");
    report.note(
        "errors: each operator's time is wrong by a factor, log-normal with a deviation of 0.55",
    );
    report.svg = Bars {
        title: "Extra time of VGG by the first prediction (modelled)",
        y: "%",
        groups: PREDICTIONS.map(|(name, _)| name.to_owned()).to_vec(),
        series: bars
            .map(|(name, values)| (name.to_owned(), values))
            .to_vec(),
    }
    .svg()?;
    Ok(report)
}
