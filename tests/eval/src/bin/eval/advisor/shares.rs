//! Fig. 6 and Fig. 7.

use anyhow::Result;
use rtswap_eval::advisor::models::{Model, NARROWER, TRAINED};
use rtswap_eval::advisor::published::{ON_DEMAND_SHARES, SHARES};
use rtswap_eval::advisor::shares::{Shares, shares};
use rtswap_planner::machine::{Roofline, Run};

use super::{Searches, seconds};
use crate::chart::Bars;
use crate::report::{Cell, Report, Table, row};

const COLUMNS: &str = "model | batch | ideal s | ODSwap % | ODSwap, random order % | SwapAdvisor's, random % \
                       | ours, random % | ours, trace % | samples/s | copied in s | stalled s";

/// What is beside the shares of [`COLUMNS`].
const COLUMNS_NOTE: &str =
    "percent of the ideal throughput; samples/s, copied in and stalled are those of ours, trace";

/// A row of [`COLUMNS`].
fn cells(model: &Model, batch: u32, shares: &Shares) -> Vec<Cell> {
    let percent = |run: Option<Run>| run.map(|run| 100.0 * shares.of(run));
    let stalled = |run: Run| seconds(run.stalled_ns());
    let mut cells = row![model.name, batch];
    cells.push(Cell::Number(seconds(shares.ideal_ns), 3));
    cells.extend(row![
        percent(Some(shares.on_demand)),
        percent(Some(shares.on_demand_random)),
        percent(shares.pools),
        percent(shares.random),
        percent(shares.trace),
        shares
            .trace
            .map(|run| f64::from(batch) / seconds(run.total_ns)),
        shares.trace.map(|run| seconds(run.swap_in_ns)),
        shares.trace.map(stalled),
    ]);
    cells
}

pub(crate) fn figure_6(searches: Searches) -> Result<Report> {
    let title = "training throughput of large models in 16 GB, as a share of infinite memory";
    let mut report = Report::new("advisor-fig6", title);
    let mut table = Table::new(COLUMNS_NOTE, COLUMNS);
    let mut groups = Vec::new();
    let names = [
        "ODSwap",
        "SwapAdvisor's search",
        "ours, random",
        "ours, PyTorch's order",
    ];
    let mut series = names.map(|name| (name.to_owned(), Vec::new()));
    for (at, model) in TRAINED.iter().enumerate() {
        for batch in model.batches {
            let found = shares(
                model,
                batch,
                &Roofline::V100,
                searches.paper(),
                searches.ours(),
            )?;
            table.rows.push(cells(model, batch, &found));
            let percent = |run: Option<Run>| run.map_or(0.0, |run| 100.0 * found.of(run));
            let runs = [
                Some(found.on_demand),
                found.pools,
                found.random,
                found.trace,
            ];
            for (series, run) in series.iter_mut().zip(runs) {
                series.1.push(percent(run));
            }
            groups.push(format!("{} {batch}", model.name));
            if Some(&batch) == model.batches.last() {
                let random = found.random.map(|run| 100.0 * found.of(run));
                let what = format!("{}, batch {batch}, ours from random orders", model.name);
                report.compare(what, "%", SHARES[at], random);
                if let Some(published) = ON_DEMAND_SHARES[at] {
                    let what = format!("{}, batch {batch}, ODSwap in random order", model.name);
                    report.compare(
                        what,
                        "%",
                        published,
                        100.0 * found.of(found.on_demand_random),
                    );
                }
            }
        }
    }
    report.tables.push(table);
    report.note(format!(
        "{} generations of our search, {} of SwapAdvisor's, whose own ran for half an hour on 72 cores",
        searches.ours, searches.paper
    ));
    report.svg = Bars {
        title: "Share of the ideal training throughput (modelled)",
        y: "%",
        groups,
        series: series.to_vec(),
    }
    .svg()?;
    Ok(report)
}

/// The largest batches with a GPU that computes slower and faster than the roofline says.
pub(crate) fn figure_6_sensitivity(searches: Searches) -> Result<Report> {
    let mut report = Report::new(
        "advisor-roofline",
        "Fig. 6 with a roofline 30 % lower and higher",
    );
    let mut groups = Vec::new();
    let factors = [0.7, 1.0, 1.3];
    let mut series = factors.map(|factor| (format!("× {factor}"), Vec::new()));
    for (at, factor) in factors.into_iter().enumerate() {
        let mut table = Table::new(format!("GPU × {factor}; {COLUMNS_NOTE}"), COLUMNS);
        let roofline = Roofline::V100.scaled(factor);
        for model in TRAINED {
            let [.., batch] = model.batches;
            let found = shares(&model, batch, &roofline, searches.paper(), searches.ours())?;
            table.rows.push(cells(&model, batch, &found));
            series[at]
                .1
                .push(found.random.map_or(0.0, |run| 100.0 * found.of(run)));
            if at == 0 {
                groups.push(model.name.to_owned());
            }
        }
        report.tables.push(table);
    }
    report.svg = Bars {
        title: "Share of ideal from random schedules, by the speed of the GPU (modelled)",
        y: "%",
        groups,
        series: series.to_vec(),
    }
    .svg()?;
    Ok(report)
}

pub(crate) fn figure_7(searches: Searches) -> Result<Report> {
    let mut report = Report::new(
        "advisor-fig7",
        "training WResNet-152-4 in 16 GB, without TFLMS",
    );
    let mut table = Table::new(COLUMNS_NOTE, COLUMNS);
    let mut series = ["ODSwap", "ours, random"].map(|name| (name.to_owned(), Vec::new()));
    for batch in NARROWER.batches {
        let found = shares(
            &NARROWER,
            batch,
            &Roofline::V100,
            searches.paper(),
            searches.ours(),
        )?;
        table.rows.push(cells(&NARROWER, batch, &found));
        for (series, run) in series.iter_mut().zip([Some(found.on_demand), found.random]) {
            series
                .1
                .push(run.map_or(0.0, |run| f64::from(batch) / seconds(run.total_ns)));
        }
    }
    report.tables.push(table);
    report.note("the text states only that SwapAdvisor is at least 3 times as fast as TFLMS, ODSwap at least twice");
    report.svg = Bars {
        title: "Training WResNet-152-4 (modelled)",
        y: "samples/s",
        groups: NARROWER
            .batches
            .map(|batch| format!("batch {batch}"))
            .to_vec(),
        series: series.to_vec(),
    }
    .svg()?;
    Ok(report)
}
