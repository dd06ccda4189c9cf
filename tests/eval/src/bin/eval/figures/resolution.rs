//! Fig. 7(c).

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::figures::approach::{Approach, Assumptions, Judge};
use rtswap_eval::figures::generate::CONVERTED_TASKS;
use rtswap_eval::figures::published;
use rtswap_eval::figures::resolution::{Curve, curves, draw};
use rtswap_eval::figures::sensitivity::cases;
use rtswap_policy::admission::Test;

use super::{SEEDS, SETS, approaches};
use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

pub(super) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("fig7c", "task sets of ten admitted, by their resolution");
    report.test = Some(test.name());
    report.seeds = SEEDS.to_vec();
    let figure = |assumptions, seed| -> Vec<Curve> {
        curves(&Judge::new(test, assumptions, seed), &draw(seed, SETS))
    };
    let curves = figure(Assumptions::default(), SEEDS[0]);
    let what = "mean share of tasks in high resolution, RT-Swap";
    report.compare(what, "%", published::ENABLED, curves[0].enabled);
    let what = "mean share of tasks in high resolution, the others";
    report.compare(what, "%", published::ENABLED_OTHERS, others(&curves));
    let mut table = Table::new(
        format!("sets admitted of {SETS}, seed {}", SEEDS[0]),
        &approaches("high of 10"),
    );
    for high in 0..=CONVERTED_TASKS {
        let mut cells = row![high];
        cells.extend(curves.iter().map(|curve| Cell::from(curve.admitted[high])));
        table.rows.push(cells);
    }
    report.tables.push(table);
    let mut columns = approaches("as");
    columns.push("others");
    let mut table = Table::new("mean share of tasks in high resolution, in %", &columns);
    let mut push = |name: String, curves: &[Curve]| {
        let mut cells = row![name];
        cells.extend(curves.iter().map(|curve| Cell::from(curve.enabled)));
        cells.extend(row![others(curves)]);
        table.rows.push(cells);
    };
    for seed in SEEDS {
        push(
            format!("seed {seed}"),
            &figure(Assumptions::default(), seed),
        );
    }
    for case in &cases()[1..] {
        push(case.name.into(), &figure(case.assumptions, SEEDS[0]));
    }
    report.tables.push(table);
    report.note(
        "of each series of sets the last counts with which all before it are admitted too; the \
         others' mean is over MIN, MO-VMM, Pageable and Base",
    );
    report.svg = Lines {
        title: "Task sets of ten admitted (modelled)",
        x: "tasks in high resolution",
        y: "% of sets",
        series: curves
            .iter()
            .map(|curve| Series {
                name: curve.approach.name().into(),
                values: curve
                    .admitted
                    .iter()
                    .enumerate()
                    .map(|(high, &sets)| (high as f64, 100.0 * f64::from(sets) / f64::from(SETS)))
                    .collect(),
            })
            .collect(),
        published: Vec::new(),
        label: |tasks| format!("{tasks:.0}"),
        legend: SeriesLabelPosition::UpperRight,
    }
    .svg()?;
    Ok(report)
}

/// The mean over all but RT-Swap.
fn others(curves: &[Curve]) -> f64 {
    let each = curves
        .iter()
        .filter(|curve| curve.approach != Approach::RtSwap);
    let sum: f64 = each.map(|curve| curve.enabled).sum();
    sum / (curves.len() - 1) as f64
}
