//! Fig. 8.

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::advisor::BUDGET;
use rtswap_eval::advisor::inference::time;
use rtswap_eval::advisor::models::inference;
use rtswap_eval::advisor::serving::{Served, Sharing, latency_p99, parameters};
use rtswap_planner::machine::Roofline;

use super::{SEED, Searches};
use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

/// Images of one request.
const BATCH: u32 = 16;
const REQUESTS: usize = 200_000;
/// Images per second.
const RATES: [u32; 7] = [50, 100, 150, 200, 250, 300, 350];

pub(crate) fn figure_8(searches: Searches) -> Result<Report> {
    let title = "several ResNet-152 that serve on one GPU: the 99th percentile of latency";
    let mut report = Report::new("advisor-fig8", title);
    let graph = inference(BATCH, &Roofline::V100)?;
    let mut lines = Vec::new();
    // The paper's memory, and so little that 16 models do not fit.
    for budget in [BUDGET, 4_000_000_000] {
        let gigabytes = budget / 1_000_000_000;
        let columns = "way | 50 | 100 | 150 | 200 | 250 | 300 | 350";
        let mut table = Table::new(format!("ms, {gigabytes} GB, by images per second"), columns);
        for models in [1, 4, 16] {
            let ways: &[Sharing] = if models == 1 {
                &[Sharing::Alone]
            } else {
                &[Sharing::Time, Sharing::Parts, Sharing::Whole]
            };
            let Some(part) = time(BATCH, budget / models, searches.ours())? else {
                continue;
            };
            let served = Served {
                parameters: parameters(&graph),
                footprint: graph.peak(1),
                whole_ns: graph.compute_ns(),
                part_ns: part.total_ns,
            };
            for way in ways {
                let name = match way {
                    Sharing::Alone => "not shared",
                    Sharing::Time => "time shared",
                    Sharing::Parts => "SwapAdvisor",
                    Sharing::Whole => "rtswap",
                };
                let name = if models == 1 {
                    name.to_owned()
                } else {
                    format!("{name}, {models} models")
                };
                let latency = |rate: u32| {
                    let requests = f64::from(rate) / f64::from(BATCH);
                    let p99 = latency_p99(
                        *way,
                        models as usize,
                        served,
                        budget,
                        requests,
                        REQUESTS,
                        SEED,
                    );
                    p99.map(|ns| ns as f64 / 1e6)
                };
                let latencies = RATES.map(latency);
                let mut cells = row![name.as_str()];
                cells
                    .extend(latencies.map(|ms| ms.map_or(Cell::Nothing, |ms| Cell::Number(ms, 0))));
                table.rows.push(cells);
                if budget == BUDGET {
                    let shown = RATES.into_iter().map(f64::from).zip(latencies);
                    lines.push(Series {
                        name,
                        values: shown.filter_map(|(rate, ms)| Some((rate, ms?))).collect(),
                    });
                }
            }
        }
        report.tables.push(table);
    }
    report.note(format!(
        "requests of {BATCH} images, Poisson, for any of the models with the same chance, served as they come: with equal \
         relative deadlines that is EDF; no figure where they come faster than they are served; the text does not give \
         the paper's batches"
    ));
    report.svg = Lines {
        title: "Latency of ResNet-152 in 16 GB, 99th percentile (modelled)",
        x: "images per second",
        y: "ms",
        series: lines,
        published: Vec::new(),
        label: |at| format!("{at:.0}"),
        legend: SeriesLabelPosition::UpperLeft,
    }
    .svg()?;
    Ok(report)
}
