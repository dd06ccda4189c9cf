//! Fig. 14.

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::swapnet::applications::{APPLICATIONS, of, prepare, run};
use rtswap_eval::swapnet::distribution::longer_ms;
use rtswap_eval::swapnet::models::{Device, RESNET};
use rtswap_eval::swapnet::published::{RESNET_BLOCKS, ROAD_SIDE_FASTER_MS};

use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

const SEED: u64 = 1;
const INFERENCES: usize = 10_000;
/// The deviation of each delay, as a share of it.
const NOISE: f64 = 0.02;

pub(crate) fn figure_14() -> Result<Report> {
    let title = "how much longer ResNet-101 takes in blocks than at once";
    let mut report = Report::new("swapnet-fig14", title);
    report.seeds = vec![SEED];
    let prepared = prepare(&Device::NX)?;
    let columns = "application | budget | blocks | 10 % | 50 % | 90 % | mean";
    let mut table = Table::new("ms longer than direct inference", columns);
    let mut series = Vec::new();
    let mut means = Vec::new();
    for (application, published) in APPLICATIONS.iter().zip(RESNET_BLOCKS) {
        let mut tasks = application.tasks.iter();
        let Some(task) = tasks.find(|task| task.model == RESNET) else {
            continue;
        };
        let outcome = run(&prepared, task)?;
        let model = of(&prepared, &RESNET)?;
        let fewest = outcome.fewest.count();
        let what = format!("fewest blocks, {}", application.name);
        report.compare(what, "", published, fewest as f64);
        for partition in [&outcome.fewest, &outcome.partition] {
            let all = longer_ms(model, partition, NOISE, INFERENCES, SEED);
            let count = partition.count();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let quantile = |percent: usize| all[all.len() * percent / 100];
            let mut cells = row![application.name, task.budget, count];
            let numbers = [quantile(10), quantile(50), quantile(90), mean];
            cells.extend(numbers.map(|ms| Cell::Number(ms, 1)));
            table.rows.push(cells);
            if count == fewest && means.last() != Some(&mean) {
                means.push(mean);
            }
            let shown = (5..100).step_by(5);
            series.push(Series {
                name: format!("{}, {count} blocks", application.name),
                values: shown
                    .map(|percent| (quantile(percent), percent as f64))
                    .collect(),
            });
        }
    }
    if let [_, road_side, uav] = means[..] {
        let what = "fewest blocks: the road-side unit's is faster than the UAV's";
        report.compare(what, "ms", ROAD_SIDE_FASTER_MS, uav - road_side);
    }
    report.tables.push(table);
    report.note(format!(
        "{INFERENCES} inferences, each delay of each block drawn from a normal distribution with a deviation of {:.0} % of it, \
         against the mean of direct inference: the paper's deviation is not in its text",
        100.0 * NOISE
    ));
    report.note(
        "the paper divides into the fewest blocks; ours tries up to two more, because a small first block is in memory sooner",
    );
    report.svg = Lines {
        title: "ResNet-101 in blocks (modelled)",
        x: "ms longer than direct inference",
        y: "% of inferences",
        series,
        published: Vec::new(),
        label: |at| format!("{at:.0}"),
        legend: SeriesLabelPosition::LowerRight,
    }
    .svg()?;
    Ok(report)
}
