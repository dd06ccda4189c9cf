//! Fig. 15.

use anyhow::Result;
use rtswap_eval::swapnet::ablation::{
    COPY_WITHOUT_SKELETON_NS, equal_blocks, fewest, without_skeleton_ns,
};
use rtswap_eval::swapnet::applications::{SELF_DRIVING, of, prepare, run};
use rtswap_eval::swapnet::memory::copies;
use rtswap_eval::swapnet::models::Device;
use rtswap_eval::swapnet::published::{
    Span, WITHOUT_SCHEDULING, WITHOUT_SKELETON, WITHOUT_UNIFIED,
};
use rtswap_eval::swapnet::{MIB, mib};

use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

pub(crate) fn figure_15() -> Result<Report> {
    let title = "without one of its parts (self-driving)";
    let mut report = Report::new("swapnet-fig15", title);
    let prepared = prepare(&Device::NX)?;
    let mut memory = Table::new(
        "(a) MB of 2^20 bytes more than SwapNet",
        "model | SwapNet | no unified addressing | equal blocks",
    );
    let mut latency = Table::new(
        "(b) % longer than SwapNet",
        "model | SwapNet ms | no skeleton | equal blocks",
    );
    let (mut skeleton, mut scheduling, mut groups) = (Vec::new(), Vec::new(), Vec::new());
    for task in SELF_DRIVING.tasks {
        let outcome = run(&prepared, task)?;
        let model = of(&prepared, &task.model)?;
        let naive_ns = without_skeleton_ns(model, &outcome.partition);
        let equal = equal_blocks(model, fewest(model, task.budget * MIB));
        let peak = outcome.peak();
        let number = |value| Cell::Number(value, 1);
        let mut cells = row![task.model.name];
        cells.push(number(peak));
        // Each block has as many copies as direct inference has of the model.
        cells.push(number(peak * (copies(task.model.processor) - 1) as f64));
        cells.push(number(mib(equal.peak_bytes) - peak));
        memory.rows.push(cells);
        let longer = |ns: u64| 100.0 * (ns as f64 / outcome.partition.latency_ns as f64 - 1.0);
        let [without, equal] = [naive_ns, equal.latency_ns].map(longer);
        let mut cells = row![task.model.name];
        cells.extend([outcome.blocks_ms(), without, equal].map(number));
        latency.rows.push(cells);
        skeleton.push(without);
        scheduling.push(equal);
        groups.push(task.model.name.to_owned());
    }
    let none = [];
    compare(&mut report, "no unified addressing", WITHOUT_UNIFIED, &none);
    compare(&mut report, "no skeleton", WITHOUT_SKELETON, &skeleton);
    compare(
        &mut report,
        "no scheduling",
        WITHOUT_SCHEDULING,
        &scheduling,
    );
    report.tables.extend([memory, latency]);
    report.note(format!(
        "without a skeleton each byte of a block takes {COPY_WITHOUT_SKELETON_NS} ns of the thread that runs it: fitted to the \
         middle of the paper's range over the four models, with the same blocks; memory is the same, as the paper's is in \
         its inference mode"
    ));
    report.note(
        "equal blocks: as many as the paper's fewest, each cut nearest to an equal share of the bytes, whether they fit the \
         budget or not; an equal budget for each model (211 MB) is less than the largest layer of VGG-19",
    );
    report.note(
        "without unified addressing the copies of a block are counted as those of a model are; how long they take needs the \
         hardware",
    );
    report.svg = Bars {
        title: "Without one of SwapNet's parts (modelled)",
        y: "% longer",
        groups,
        series: vec![
            ("no skeleton".to_owned(), skeleton),
            ("equal blocks".to_owned(), scheduling),
        ],
    }
    .svg()?;
    Ok(report)
}

fn compare(report: &mut Report, what: &str, [least, greatest]: Span, ours: &[f64]) {
    let smallest = ours.iter().copied().min_by(f64::total_cmp);
    report.compare(format!("{what}: least longer"), "%", least, smallest);
    let largest = ours.iter().copied().max_by(f64::total_cmp);
    report.compare(format!("{what}: most longer"), "%", greatest, largest);
}
