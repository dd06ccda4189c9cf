//! What was measured: figures with their bounds, tables, as text and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

/// Which side of a figure its bound is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    /// It may be as large as the limit.
    AtMost,
    /// It must be as large as the limit.
    AtLeast,
}

/// What a figure must keep.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Bound {
    /// Which side.
    pub side: Side,
    /// In the figure's unit.
    pub limit: f64,
    /// The part of the limit by which a run may miss it before the run fails: what another program
    /// on the machine does to a measurement.
    pub tolerance: f64,
    /// Whether it also holds on a loaded machine, and so is checked by `--robust`.
    pub robust: bool,
}

impl Bound {
    /// At most `limit`.
    pub(crate) fn most(limit: f64, tolerance: f64) -> Self {
        Self {
            side: Side::AtMost,
            limit,
            tolerance,
            robust: false,
        }
    }

    /// At least `limit`.
    pub(crate) fn least(limit: f64, tolerance: f64) -> Self {
        Self {
            side: Side::AtLeast,
            ..Self::most(limit, tolerance)
        }
    }

    /// One that counts bytes or calls, or has much room: it holds whatever else the machine does.
    pub(crate) fn robust(self) -> Self {
        Self {
            robust: true,
            ..self
        }
    }

    /// Whether `value` keeps it, and if not, whether at least with the tolerance.
    fn verdict(&self, value: f64) -> Verdict {
        let within = |limit: f64| match self.side {
            Side::AtMost => value <= limit,
            Side::AtLeast => value >= limit,
        };
        let slack = match self.side {
            Side::AtMost => 1.0 + self.tolerance,
            Side::AtLeast => 1.0 - self.tolerance,
        };
        if within(self.limit) {
            Verdict::Kept
        } else if within(self.limit * slack) {
            Verdict::Tolerated
        } else {
            Verdict::Missed
        }
    }
}

/// How a figure stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Within.
    Kept,
    /// Beyond, within the tolerance.
    Tolerated,
    /// Beyond both.
    Missed,
}

/// One number.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    /// What it is.
    pub name: String,
    /// The number.
    pub value: f64,
    /// Of the number.
    pub unit: &'static str,
    /// Whether the simulated GPU's model is in it.
    pub modelled: bool,
    /// What it must keep.
    pub bound: Option<Bound>,
    /// How it stands.
    pub verdict: Option<Verdict>,
}

/// Rows under heads.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Table {
    /// What it shows.
    pub title: String,
    /// Of its columns.
    pub heads: Vec<String>,
    /// Its cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        Self {
            title: title.into(),
            heads: heads.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let all = || std::iter::once(&self.heads).chain(&self.rows);
        let width = |column: usize| {
            let cells = all().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.heads.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for row in all() {
            for (column, cell) in row.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                // Names to the left, numbers to the right.
                let _ = if column == 0 {
                    write!(text, "  {cell:<width$}")
                } else {
                    write!(text, "  {cell:>width$}")
                };
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    /// What it ran on.
    machine: String,
    /// Whether only the bounds that hold on a loaded machine count.
    robust: bool,
    /// All numbers.
    pub figures: Vec<Figure>,
    /// All tables.
    pub tables: Vec<Table>,
}

impl Report {
    /// An empty one of this machine.
    pub(crate) fn new(machine: String, robust: bool) -> Self {
        Self {
            version: 1,
            machine,
            robust,
            figures: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Adds a number that the host itself took.
    pub(crate) fn measured(&mut self, name: &str, value: f64, unit: &'static str) -> &mut Figure {
        self.figures.push(Figure {
            name: name.into(),
            value,
            unit,
            modelled: false,
            bound: None,
            verdict: None,
        });
        self.figures.last_mut().expect("pushed just now")
    }

    /// Adds a number in which the simulated GPU's model is.
    pub(crate) fn modelled(&mut self, name: &str, value: f64, unit: &'static str) -> &mut Figure {
        let figure = self.measured(name, value, unit);
        figure.modelled = true;
        figure
    }

    /// The figures that miss a bound that counts in this run.
    pub(crate) fn missed(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| {
            figure.verdict == Some(Verdict::Missed)
                && (!self.robust || figure.bound.is_some_and(|bound| bound.robust))
        })
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new(
            self.machine.clone(),
            &["figure", "value", "unit", "bound", ""],
        );
        for figure in &self.figures {
            let bound = figure.bound.map_or(String::new(), |bound| {
                let sign = match bound.side {
                    Side::AtMost => "≤",
                    Side::AtLeast => "≥",
                };
                format!("{sign} {}", number(bound.limit))
            });
            let verdict = match figure.verdict {
                Some(Verdict::Missed) => "missed",
                Some(Verdict::Tolerated) => "missed within tolerance",
                Some(Verdict::Kept) | None => "",
            };
            let modelled = if figure.modelled { " (modelled)" } else { "" };
            table.rows.push(vec![
                format!("{}{modelled}", figure.name),
                number(figure.value),
                figure.unit.into(),
                bound,
                verdict.into(),
            ]);
        }
        let tables = std::iter::once(&table).chain(&self.tables);
        tables.map(Table::text).collect::<Vec<_>>().join("\n")
    }
}

impl Figure {
    /// Says what the number must keep.
    pub(crate) fn bound(&mut self, bound: Bound) {
        self.verdict = Some(bound.verdict(self.value));
        self.bound = Some(bound);
    }
}

/// With as many digits as it has sense for.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_has_two_sides_and_a_tolerance() {
        let most = Bound::most(10.0, 0.1);
        assert_eq!(most.verdict(10.0), Verdict::Kept);
        assert_eq!(most.verdict(10.9), Verdict::Tolerated);
        assert_eq!(most.verdict(11.1), Verdict::Missed);
        let least = Bound::least(10.0, 0.1);
        assert_eq!(least.verdict(9.1), Verdict::Tolerated);
        assert_eq!(least.verdict(8.9), Verdict::Missed);
    }

    #[test]
    fn a_robust_run_fails_by_robust_bounds_only() {
        for (robust, missed) in [(false, 2), (true, 1)] {
            let mut report = Report::new("here".into(), robust);
            report.measured("a", 3.0, "ns").bound(Bound::most(1.0, 0.0));
            let bound = Bound::most(1.0, 0.0).robust();
            report.modelled("b", 3.0, "calls").bound(bound);
            report.measured("c", 3.0, "ns");
            assert_eq!(report.missed().count(), missed);
            assert!(report.text().contains("b (modelled)"));
        }
    }
}
