//! Graphs and runs for people.

use rtswap_policy::units::Nanos;
use serde::Serialize;

use super::MACHINE;
use super::figures::Figures;
use super::info::Answer;
use crate::output;
use crate::table::{bytes, millis, table, wrapped};

/// A run and what it comes to.
#[derive(Debug, Serialize)]
pub(super) struct Row<'a> {
    /// What it is called.
    pub(super) run: &'a str,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

impl Row<'_> {
    fn cells(&self) -> Vec<String> {
        let figures = &self.figures;
        vec![
            self.run.to_owned(),
            millis(Nanos(figures.time_ns)),
            format!("{:.3}", figures.share),
            millis(Nanos(figures.stalled_ns)),
            bytes(figures.swap_in_bytes),
            bytes(figures.swap_out_bytes),
            bytes(figures.peak_bytes),
        ]
    }
}

/// The runs of a graph in a budget, made as `how` says.
pub(super) fn runs(name: &str, budget: u64, how: &str, rows: &[Row<'_>]) -> String {
    let head = format!("{name} in {}: {how}.\n", bytes(budget));
    let heads = [
        "RUN",
        "TIME",
        "SHARE",
        "STALLED",
        "COPIED IN",
        "COPIED OUT",
        "PEAK",
    ];
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    let foot =
        format!("One iteration, {MACHINE}; SHARE is of the ideal, which has infinite memory.\n");
    let width = output::width();
    [
        wrapped(&head, 0, width),
        "\n".to_owned(),
        table(&heads, &[0], &cells),
        "\n".to_owned(),
        wrapped(&foot, 0, width),
    ]
    .concat()
}

/// So many of what is called so.
pub(super) fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {one}s"),
    }
}

/// What stands above the picture of a run.
pub(super) fn title(name: &str, budget: u64, row: &Row<'_>) -> String {
    let figures = &row.figures;
    format!(
        "{name} in {}, {}: {}, {:.3} of the ideal, stalled {}",
        bytes(budget),
        row.run,
        millis(Nanos(figures.time_ns)),
        figures.share,
        millis(Nanos(figures.stalled_ns)),
    )
}

impl Answer<'_> {
    pub(super) fn text(&self) -> String {
        let mut rows: Vec<_> = self
            .kinds
            .iter()
            .map(|of| {
                vec![
                    of.kind.to_owned(),
                    of.tensors.to_string(),
                    bytes(of.total_bytes),
                ]
            })
            .collect();
        rows.push(vec![
            "total".into(),
            self.tensors.to_string(),
            bytes(self.total_bytes),
        ]);
        let head = format!(
            "{}: {}, {} of {}.\n",
            self.name,
            counted(self.operators as u64, "operator"),
            counted(self.tensors as u64, "tensor"),
            counted(self.sizes as u64, "size"),
        );
        let largest = &self.largest_operator;
        let foot = format!(
            "Least budget: {} ({} bytes), for operator {} ({}).\n\
             Most in use at once where nothing is swapped: {}.\n\
             An iteration with infinite memory: {}, {MACHINE}.\n\
             Memory is counted in whole chunks of {}.\n",
            bytes(largest.least_budget_bytes),
            largest.least_budget_bytes,
            largest.operator,
            largest.name,
            bytes(self.peak_bytes),
            millis(Nanos(self.ideal_ns)),
            bytes(self.chunk_bytes),
        );
        let width = output::width();
        [
            wrapped(&head, 0, width),
            "\n".to_owned(),
            table(&["KIND", "TENSORS", "MEMORY"], &[0], &rows),
            "\n".to_owned(),
            wrapped(&foot, 0, width),
        ]
        .concat()
    }
}
