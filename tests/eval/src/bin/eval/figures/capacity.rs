//! Fig. 7(b).

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::figures::approach::{Approach, Assumptions, Judge};
use rtswap_eval::figures::capacity::{Curve, MOST, curves};
use rtswap_eval::figures::published;
use rtswap_eval::figures::sensitivity::cases;
use rtswap_eval::figures::tasks::draw;
use rtswap_policy::admission::Test;

use super::{SEEDS, SETS, approaches};
use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

/// In percent: the figure's curve is computed in steps of one; the paper does not say its own.
const STEPS: [u64; 3] = [1, 5, 10];

pub(super) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("fig7b", "task sets of five admitted, by GPU memory");
    report.test = Some(test.name());
    report.seeds = SEEDS.to_vec();
    let figure = |assumptions, seed, step| -> Vec<Curve> {
        curves(
            &Judge::new(test, assumptions, seed),
            &draw(seed, SETS),
            step,
        )
    };
    let curves = figure(Assumptions::default(), SEEDS[0], STEPS[0]);
    let what = "mean reduction that RT-Swap sustains";
    report.compare(what, "%", published::SUSTAINED, curves[0].sustained);
    let what = "mean reduction that the others sustain";
    report.compare(what, "%", published::SUSTAINED_OTHERS, others(&curves));
    let mut table = Table::new(
        format!("sets admitted of {SETS}, seed {}", SEEDS[0]),
        &approaches("less by %"),
    );
    let coarse = STEPS[1] as usize;
    for reduction in (0..=MOST as usize).step_by(coarse) {
        let mut cells = row![reduction];
        cells.extend(
            curves
                .iter()
                .map(|curve| Cell::from(curve.admitted[reduction])),
        );
        table.rows.push(cells);
    }
    report.tables.push(table);
    let title = "mean reduction sustained in %, over the sets that RT-Swap admits at 0 %";
    let mut columns = approaches("as");
    columns.push("others");
    let mut table = Table::new(title, &columns);
    let mut push = |name: String, curves: &[Curve]| {
        let mut cells = row![name];
        cells.extend(
            curves
                .iter()
                .map(|curve| Cell::from(curve.sustained_of_all)),
        );
        cells.extend(row![others(curves)]);
        table.rows.push(cells);
    };
    for seed in SEEDS {
        push(
            format!("seed {seed}"),
            &figure(Assumptions::default(), seed, STEPS[0]),
        );
    }
    for step in STEPS {
        let curves = figure(Assumptions::default(), SEEDS[0], step);
        push(format!("in steps of {step} %"), &curves);
    }
    for case in &cases()[1..] {
        push(
            case.name.into(),
            &figure(case.assumptions, SEEDS[0], STEPS[0]),
        );
    }
    report.tables.push(table);
    report.note(
        "a set counts with the last reduction at which it is still admitted; the others' mean is \
         over MIN, MO-VMM, Pageable and Base, with zero for a set that one of them does not admit \
         at all",
    );
    report.svg = Lines {
        title: "Task sets of five admitted (modelled)",
        x: "GPU memory less by %",
        y: "% of sets",
        series: curves
            .iter()
            .map(|curve| Series {
                name: curve.approach.name().into(),
                values: curve
                    .admitted
                    .iter()
                    .enumerate()
                    .map(|(reduction, &sets)| {
                        (reduction as f64, 100.0 * f64::from(sets) / f64::from(SETS))
                    })
                    .step_by(2)
                    .collect(),
            })
            .collect(),
        published: Vec::new(),
        label: |percent| format!("{percent:.0}"),
        legend: SeriesLabelPosition::UpperRight,
    }
    .svg()?;
    Ok(report)
}

/// The mean over all but RT-Swap.
fn others(curves: &[Curve]) -> Option<f64> {
    let each = curves
        .iter()
        .filter(|curve| curve.approach != Approach::RtSwap);
    let reached: Option<Vec<f64>> = each.map(|curve| curve.sustained_of_all).collect();
    reached.map(|reached| reached.iter().sum::<f64>() / reached.len() as f64)
}
