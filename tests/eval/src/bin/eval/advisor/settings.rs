//! Fig. 10.

use anyhow::Result;
use rtswap_eval::advisor::models::TRAINED;
use rtswap_eval::advisor::settings::{Setting, found};
use rtswap_planner::machine::Roofline;

use super::{Searches, seconds};
use crate::chart::Bars;
use crate::report::{Report, Table, row};

pub(crate) fn figure_10(searches: Searches) -> Result<Report> {
    let title = "SwapAdvisor's search without schedules or without allocations";
    let mut report = Report::new("advisor-fig10", title);
    let mut table = Table::new(
        "percent of ideal",
        "model | both | allocations only | schedules only",
    );
    let settings = [Setting::Both, Setting::Allocations, Setting::Schedules];
    let names = ["both", "allocations only", "schedules only"];
    let mut series = names.map(|name| (name.to_owned(), Vec::new()));
    let models = [TRAINED[3], TRAINED[1]];
    for model in models {
        let [.., batch] = model.batches;
        let ideal = seconds(model.graph(batch, &Roofline::V100)?.compute_ns());
        let mut cells = row![model.name];
        for (setting, series) in settings.into_iter().zip(&mut series) {
            let run = found(&model, setting, searches.paper())?;
            let percent = run.map(|run| 100.0 * ideal / seconds(run.total_ns));
            cells.extend(row![percent]);
            series.1.push(percent.unwrap_or_default());
        }
        table.rows.push(cells);
    }
    report.tables.push(table);
    report.note(
        "the text states 7 % of the full search for RNN without schedules, 93 % for Inception-V4",
    );
    report.svg = Bars {
        title: "What SwapAdvisor's search needs (modelled)",
        y: "% of ideal",
        groups: models.map(|model| model.name.into()).to_vec(),
        series: series.to_vec(),
    }
    .svg()?;
    Ok(report)
}
