//! One file a figure: what to compute, what to compare, what to show.

pub(crate) mod best_effort;
pub(crate) mod capacity;
pub(crate) mod case_study;
pub(crate) mod fragmentation;
pub(crate) mod resolution;
pub(crate) mod schedules;
pub(crate) mod swap_time;
pub(crate) mod tasks;

use anyhow::Result;
use plotters::chart::SeriesLabelPosition;
use rtswap_eval::figures::approach::Approach;
use rtswap_policy::admission::Test;
use rtswap_policy::units::{Bytes, Nanos};

use crate::chart::{Lines, Series};
use crate::report::{Cell, Report, Table, row};

/// The seeds of everything that is drawn; figures show the first.
const SEEDS: [u64; 3] = [1, 2, 3];
/// Task sets of each kind, as in the paper.
const SETS: u32 = 100;

/// Computes one of the paper's figures and tables, under a test where one matters.
pub(crate) type Compute = fn(Test) -> Result<Report>;

/// Sets admitted by each approach, as a table with a row for each of `places` of the curves.
fn admitted(first: &str, places: impl IntoIterator<Item = usize>, curves: &[&[u32]; 5]) -> Table {
    let title = format!("sets admitted of {SETS}, seed {}", SEEDS[0]);
    let mut table = Table::new(title, &approaches(first));
    for place in places {
        let mut cells = row![place];
        cells.extend(curves.map(|curve| Cell::from(curve[place])));
        table.rows.push(cells);
    }
    table
}

/// A mean of each approach, under what is assumed and drawn in several ways.
fn means(title: &str, runs: impl IntoIterator<Item = (String, [Option<f64>; 5])>) -> Table {
    let mut table = Table::new(title, &(approaches("as") + " | others"));
    for (name, means) in runs {
        let mut cells = row![name];
        cells.extend(means.map(Cell::from));
        cells.extend(row![others(means)]);
        table.rows.push(cells);
    }
    table
}

/// The mean over all but RT-Swap.
fn others([_, others @ ..]: [Option<f64>; 5]) -> Option<f64> {
    let sum = others.iter().copied().sum::<Option<f64>>();
    sum.map(|sum| sum / others.len() as f64)
}

/// A line for each approach: the percentages of sets that it admits, at values of the axis `x`.
fn lines(
    title: &'static str,
    x: &'static str,
    admitted: impl Fn(usize) -> Vec<(f64, u32)>,
) -> Lines {
    let percent = |(at, sets)| (at, 100.0 * f64::from(sets) / f64::from(SETS));
    let series = Approach::ALL
        .iter()
        .enumerate()
        .map(|(place, approach)| Series {
            name: approach.name().into(),
            values: admitted(place).into_iter().map(percent).collect(),
        });
    Lines {
        title,
        x,
        y: "% of sets",
        series: series.collect(),
        published: Vec::new(),
        label: |at| format!("{at:.0}"),
        legend: SeriesLabelPosition::UpperRight,
    }
}

/// The columns of a table with one for each approach after the first.
fn approaches(first: &str) -> String {
    format!(
        "{first} | {}",
        Approach::ALL.map(Approach::name).join(" | ")
    )
}

pub(crate) fn millis(span: Nanos) -> f64 {
    span.0 as f64 / 1e6
}

fn mebibytes(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 20)
}

fn gibibytes(bytes: Bytes) -> f64 {
    bytes.0 as f64 / f64::from(1 << 30)
}
