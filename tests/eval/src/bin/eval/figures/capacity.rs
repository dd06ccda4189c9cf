//! Fig. 7(b).

use anyhow::Result;
use rtswap_eval::figures::approach::{Assumptions, Judge};
use rtswap_eval::figures::capacity::{Curve, MOST, curves};
use rtswap_eval::figures::published;
use rtswap_eval::figures::sensitivity::cases;
use rtswap_eval::figures::tasks::draw;
use rtswap_policy::admission::Test;

use super::{SEEDS, SETS, admitted, lines, means, others};
use crate::report::Report;

/// In percent: the figure's curve is computed in steps of one; the paper does not say its own.
const STEPS: [u64; 3] = [1, 5, 10];

pub(crate) fn report(test: Test) -> Result<Report> {
    let mut report = Report::new("fig7b", "task sets of five admitted, by GPU memory");
    report.test = Some(test.name());
    report.seeds = SEEDS.to_vec();
    let figure = |assumptions, seed, step| {
        let judge = Judge::new(test, assumptions, seed);
        curves(&judge, &draw(seed, SETS), step)
    };
    let usual = |seed, step| figure(Assumptions::default(), seed, step);
    let sustained = |curves: [Curve; 5]| curves.map(|curve| curve.sustained_of_all);
    let curves = usual(SEEDS[0], STEPS[0]);
    let what = "mean reduction that RT-Swap sustains";
    report.compare(what, "%", published::SUSTAINED, curves[0].sustained);
    let what = "mean reduction that the others sustain";
    let ours = others(sustained(curves.clone()));
    report.compare(what, "%", published::SUSTAINED_OTHERS, ours);
    let coarse = (0..=MOST as usize).step_by(STEPS[1] as usize);
    let each = curves.each_ref().map(|curve| curve.admitted.as_slice());
    report.tables.push(admitted("less by %", coarse, &each));
    let by_seed = SEEDS.map(|seed| (format!("seed {seed}"), usual(seed, STEPS[0])));
    let by_step = STEPS.map(|step| (format!("in steps of {step} %"), usual(SEEDS[0], step)));
    let by_case = cases().into_iter().skip(1).map(|case| {
        let curves = figure(case.assumptions, SEEDS[0], STEPS[0]);
        (case.name.into(), curves)
    });
    let runs = by_seed.into_iter().chain(by_step).chain(by_case);
    report.tables.push(means(
        "mean reduction sustained in %, over the sets that RT-Swap admits at 0 %",
        runs.map(|(name, curves)| (name, sustained(curves))),
    ));
    report.note(
        "a set counts with the last reduction at which it is still admitted; the others' mean is \
         over MIN, MO-VMM, Pageable and Base, with zero for a set that one of them does not admit \
         at all",
    );
    let line = |place: usize| {
        let sets = (0..).zip(&curves[place].admitted).step_by(2);
        sets.map(|(reduction, sets)| (f64::from(reduction), *sets))
            .collect()
    };
    let title = "Task sets of five admitted (modelled)";
    report.svg = lines(title, "GPU memory less by %", line).svg()?;
    Ok(report)
}
