//! Fig. 11 to 13.

use anyhow::Result;
use rtswap_eval::swapnet::applications::{
    APPLICATIONS, Application, Outcome, ROAD_SIDE, SELF_DRIVING, UAV, mean_longer, prepare, run,
};
use rtswap_eval::swapnet::memory::{copies, reduction};
use rtswap_eval::swapnet::models::Device;
use rtswap_eval::swapnet::published::{MEAN_LONGER, Span};

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn figure_11() -> Result<Report> {
    report("swapnet-fig11", "self-driving: four models", &SELF_DRIVING)
}

pub(crate) fn figure_12() -> Result<Report> {
    report("swapnet-fig12", "a road-side unit: five models", &ROAD_SIDE)
}

pub(crate) fn figure_13() -> Result<Report> {
    report("swapnet-fig13", "a UAV: two models", &UAV)
}

fn report(figure: &'static str, title: &'static str, application: &Application) -> Result<Report> {
    let mut report = Report::new(figure, title);
    let prepared = prepare(&Device::NX)?;
    let run_all = |application: &Application| {
        let tasks = application.tasks.iter();
        tasks
            .map(|task| run(&prepared, task))
            .collect::<Result<Vec<Outcome>>>()
    };
    let outcomes = run_all(application)?;
    let direct = |one: &Outcome| one.size * copies(one.task.model.processor) as f64;
    let published = application.published;
    let reductions = outcomes
        .iter()
        .map(|one| reduction(one.peak(), direct(one)));
    compare(
        &mut report,
        "less memory than direct inference",
        "%",
        published.direct,
        reductions,
    );
    let compressed = outcomes.iter().filter_map(|one| {
        let size = one.task.compressed? * copies(one.task.model.processor);
        Some(reduction(one.peak(), size as f64))
    });
    compare(
        &mut report,
        "less memory than compressed",
        "%",
        published.compressed,
        compressed,
    );
    compare(
        &mut report,
        "less memory than divided by channels",
        "%",
        published.channels,
        [].into_iter(),
    );
    compare(
        &mut report,
        "longer than direct inference",
        "ms",
        published.longer_ms,
        outcomes.iter().map(Outcome::longer_ms),
    );
    let mut all = Vec::new();
    for application in &APPLICATIONS {
        all.extend(run_all(application)?);
    }
    report.compare(
        "longer on average, all three applications",
        "%",
        MEAN_LONGER,
        mean_longer(&all),
    );
    report.tables.push(memory(&outcomes));
    report.tables.push(latency(&outcomes));
    report.note(
        "latency of direct inference: 451 ms of ResNet-101 follow from the text, the others are assumed (VGG-19 1130, YOLOv3 \
         300, FCN 600); storage 2 GB/s and resets of 52.5 us a reference are assumed; 52.5 us an assembled reference is the \
         paper's; garbage collection makes the release of a third of ResNet-101 take the paper's 30 ms",
    );
    report.note(
        "direct inference and compressed models have two copies of each parameter on the CPU and three on the GPU, as the \
         paper counts; blocks have one; inputs and results of operators (reserve) stand beside both",
    );
    report.note(
        "the paper divides into the fewest blocks; ours tries up to two more, because a small first block is in memory sooner",
    );
    report.note(
        "accuracy, the latency of compressed models, and models divided by channels need the models' training and the \
         hardware",
    );
    report.svg = Bars {
        title: "Inference in blocks (modelled)",
        y: "ms",
        groups: outcomes
            .iter()
            .map(|one| one.task.model.name.to_owned())
            .collect(),
        series: vec![
            (
                "direct".to_owned(),
                outcomes.iter().map(|one| one.direct_ms).collect(),
            ),
            (
                "blocks".to_owned(),
                outcomes.iter().map(Outcome::blocks_ms).collect(),
            ),
        ],
    }
    .svg()?;
    Ok(report)
}

/// Compares the least and the greatest of a range.
fn compare(
    report: &mut Report,
    what: &str,
    unit: &'static str,
    [least, greatest]: Span,
    ours: impl Iterator<Item = f64> + Clone,
) {
    let smallest = ours.clone().min_by(f64::total_cmp);
    report.compare(format!("{what}: least"), unit, least, smallest);
    let largest = ours.max_by(f64::total_cmp);
    report.compare(format!("{what}: greatest"), unit, greatest, largest);
}

fn memory(outcomes: &[Outcome]) -> Table {
    let columns = "model | size | budget | direct | compressed | blocks | less than direct % | less than size % | reserve";
    let mut table = Table::new("(a) memory in MB of 2^20 bytes", columns);
    for one in outcomes {
        let copies = copies(one.task.model.processor);
        let direct = one.size * copies as f64;
        let mut cells = row![one.task.model.name];
        let number = |value| Cell::Number(value, 1);
        cells.push(number(one.size));
        cells.extend(row![one.task.budget]);
        cells.push(number(direct));
        cells.extend(row![one.task.compressed.map(|size| size * copies)]);
        cells.extend(
            [
                one.peak(),
                reduction(one.peak(), direct),
                reduction(one.peak(), one.size),
                one.reserve,
            ]
            .map(number),
        );
        table.rows.push(cells);
    }
    table
}

fn latency(outcomes: &[Outcome]) -> Table {
    let columns = "model | direct | blocks | longer ms | longer % | number of blocks | fewest blocks | longer ms";
    let mut table = Table::new("(b) latency in ms", columns);
    for one in outcomes {
        let mut cells = row![one.task.model.name];
        let percent = 100.0 * one.longer_ms() / one.direct_ms;
        cells.extend(
            [one.direct_ms, one.blocks_ms(), one.longer_ms(), percent]
                .map(|value| Cell::Number(value, 1)),
        );
        cells.extend(row![one.partition.count(), one.fewest.count()]);
        let fewest_ms = one.fewest.latency_ns as f64 / 1e6;
        cells.push(Cell::Number(fewest_ms - one.direct_ms, 1));
        table.rows.push(cells);
    }
    table
}
