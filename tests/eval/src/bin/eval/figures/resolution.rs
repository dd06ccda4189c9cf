//! Fig. 7(c).

use anyhow::Result;
use rtswap_eval::figures::approach::{Assumptions, Judge};
use rtswap_eval::figures::generate::CONVERTED_TASKS;
use rtswap_eval::figures::published;
use rtswap_eval::figures::resolution::{Curve, curves, draw};
use rtswap_eval::figures::sensitivity::cases;
use rtswap_policy::admission::Test;

use super::{SEEDS, SETS, admitted, lines, means, others};
use crate::report::Report;

pub(crate) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("fig7c", "task sets of ten admitted, by their resolution");
    report.test = Some(test.name());
    report.seeds = SEEDS.to_vec();
    let figure =
        |assumptions, seed| curves(&Judge::new(test, assumptions, seed), &draw(seed, SETS));
    let usual = |seed| figure(Assumptions::default(), seed);
    let enabled = |curves: [Curve; 5]| curves.map(|curve| Some(curve.enabled));
    let curves = usual(SEEDS[0]);
    let what = "mean share of tasks in high resolution, RT-Swap";
    report.compare(what, "%", published::ENABLED, curves[0].enabled);
    let what = "mean share of tasks in high resolution, the others";
    let ours = others(enabled(curves.clone()));
    report.compare(what, "%", published::ENABLED_OTHERS, ours);
    let each = curves.each_ref().map(|curve| curve.admitted.as_slice());
    report
        .tables
        .push(admitted("high of 10", 0..=CONVERTED_TASKS, &each));
    let by_seed = SEEDS.map(|seed| (format!("seed {seed}"), usual(seed)));
    let by_case = cases().into_iter().skip(1).map(|case| {
        let curves = figure(case.assumptions, SEEDS[0]);
        (case.name.into(), curves)
    });
    let runs = by_seed.into_iter().chain(by_case);
    report.tables.push(means(
        "mean share of tasks in high resolution, in %",
        runs.map(|(name, curves)| (name, enabled(curves))),
    ));
    report.note(
        "of each series of sets the last counts with which all before it are admitted too; the \
         others' mean is over MIN, MO-VMM, Pageable and Base",
    );
    let line = |place: usize| {
        let sets = (0..).zip(&curves[place].admitted);
        sets.map(|(high, sets)| (f64::from(high), *sets)).collect()
    };
    let title = "Task sets of ten admitted (modelled)";
    report.svg = lines(title, "tasks in high resolution", line).svg()?;
    Ok(report)
}
