//! Reports for a terminal.

use std::fmt::Write;

use crate::report::{Cell, Report, Table, row};

/// The report in words and tables.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!("{}: {}\n", report.figure, report.title);
    if let Some(test) = report.test {
        let _ = writeln!(text, "admission test: {test}");
    }
    text.push_str("our numbers are modelled, not measured\n");
    if !report.comparisons.is_empty() {
        let columns = "published beside ours | unit | paper | ours | ratio | source";
        let mut table = Table::new("", columns);
        for one in &report.comparisons {
            let mut cells = row![one.what.as_str(), one.unit];
            // Thousandths of a GB are worth showing.
            let tiny = |value: f64| value > 0.0 && value < 0.1;
            let decimals = if one.ours.is_some_and(tiny) { 3 } else { 2 };
            cells.push(Cell::Number(one.published, decimals));
            let ours = one.ours.map(|ours| Cell::Number(ours, decimals));
            cells.push(ours.unwrap_or(Cell::Nothing));
            cells.extend(row![one.ratio, one.source]);
            table.rows.push(cells);
        }
        grid(&mut text, &table);
    }
    for table in &report.tables {
        grid(&mut text, table);
    }
    for note in &report.notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

fn grid(text: &mut String, table: &Table) {
    text.push('\n');
    if !table.title.is_empty() {
        let _ = writeln!(text, "{}", table.title);
    }
    let cells: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| row.iter().map(shown).collect())
        .collect();
    let mut widths: Vec<usize> = table.columns.iter().map(|c| c.chars().count()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    // Numbers stand to the right, and their heads above them.
    let right = |column: usize| {
        let words = |row: &Vec<Cell>| matches!(row.get(column), Some(Cell::Text(_)));
        !table.rows.iter().any(words)
    };
    let mut line = |cells: &[String]| {
        let mut line = String::from(" ");
        for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
            let _ = if right(column) {
                write!(line, " {cell:>width$} ")
            } else {
                write!(line, " {cell:<width$} ")
            };
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(&table.columns);
    for row in &cells {
        line(row);
    }
    text.push('\n');
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(value, decimals) => format!("{value:.decimals$}"),
        Cell::Nothing => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        let mut table = Table::new("t", "name | n");
        table.rows.push(row!["a", 7_u32]);
        table.rows.push(row!["longer", 1_234_u32]);
        let mut text = String::new();
        grid(&mut text, &table);
        let lines: Vec<_> = text.lines().skip(1).collect();
        assert_eq!(lines[0], "t");
        assert_eq!(lines[1], "  name       n");
        assert_eq!(lines[2], "  a          7");
        assert_eq!(lines[3], "  longer  1234");
    }

    #[test]
    fn what_is_missing_is_a_dash() {
        assert_eq!(shown(&Cell::from(None::<f64>)), "-");
        assert_eq!(shown(&Cell::from(1.005_f64)), "1.00");
        assert_eq!(shown(&Cell::Number(0.0005, 4)), "0.0005");
    }
}
