//! Fig. 9.

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::advisor::models::{Model, TRAINED};
use rtswap_eval::advisor::progress::{Generation, Kind, progress};

use super::{SEED, Searches, seconds};
use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

const INCEPTION: Model = TRAINED[1];
const RNN: Model = TRAINED[3];

pub(crate) fn figure_9(searches: Searches) -> Result<Report> {
    let searched = [
        ("RNN-8-8K, SwapAdvisor's", RNN, Kind::Paper),
        ("RNN-8-8K, ours from PyTorch's order", RNN, Kind::Ours),
        ("Inception-4, SwapAdvisor's", INCEPTION, Kind::Paper),
        (
            "Inception-4, ours from PyTorch's order",
            INCEPTION,
            Kind::Ours,
        ),
    ];
    report(
        "advisor-fig9",
        "searches, by generation",
        &searched,
        searches,
    )
}

pub(crate) fn figure_9c(searches: Searches) -> Result<Report> {
    let searched = [
        ("restricted", INCEPTION, Kind::Paper),
        ("unrestricted", INCEPTION, Kind::Unrestricted),
    ];
    let title = "Inception-4 with any mapping of sizes to classes, by generation";
    report("advisor-fig9c", title, &searched, searches)
}

fn report(
    figure: &'static str,
    title: &'static str,
    searched: &[(&'static str, Model, Kind)],
    searches: Searches,
) -> Result<Report> {
    let mut report = Report::new(figure, title);
    report.seeds = vec![SEED];
    let mut series = Vec::new();
    for (name, model, kind) in searched {
        let effort = if *kind == Kind::Ours {
            searches.ours()
        } else {
            searches.paper()
        };
        let generations = progress(model, *kind, effort)?;
        let mut table = Table::new(
            format!("{name}: seconds of an iteration"),
            "generation | best | mean | worst",
        );
        let shown = |at: usize| at.is_power_of_two() || at == 0 || at + 1 == generations.len();
        for (at, found) in generations.iter().enumerate().filter(|(at, _)| shown(*at)) {
            let of =
                |pick: fn(&Generation) -> u64| found.as_ref().map(|found| seconds(pick(found)));
            let cells = [
                of(|found| found.best),
                of(|found| found.mean),
                of(|found| found.worst),
            ];
            let mut row = row![at];
            row.extend(cells.map(|time| time.map_or(Cell::Nothing, |time| Cell::Number(time, 3))));
            table.rows.push(row);
        }
        report.tables.push(table);
        let points = generations.iter().enumerate();
        let points =
            points.filter_map(|(at, found)| Some((at as f64, seconds(found.as_ref()?.best))));
        series.push(Series {
            name: (*name).to_owned(),
            values: points.collect(),
        });
    }
    report.svg = Lines {
        title: "The best plan (modelled)",
        x: "generation",
        y: "s",
        series,
        published: Vec::new(),
        label: |at| format!("{at:.0}"),
        legend: SeriesLabelPosition::UpperRight,
    }
    .svg()?;
    Ok(report)
}
