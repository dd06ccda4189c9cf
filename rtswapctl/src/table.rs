//! Plain text tables: numbers to the right, words to the left, two spaces between.

use rtswap_dbus::text::escape;
use rtswap_policy::units::Nanos;

use crate::color::{Style, mark};

/// How wide a table may be, and which of its columns it does without.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths<'a> {
    /// In characters; none for as wide as it is.
    pub(crate) most: Option<usize>,
    /// The indices of columns that are left out, the first one first, until the others fit.
    pub(crate) first_to_go: &'a [usize],
}

/// Lays out `rows` under `heads`; columns whose index is in `left` are words.
pub(crate) fn table(heads: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    let widths = Widths {
        most: None,
        first_to_go: &[],
    };
    lines(heads, left, rows, widths).concat()
}

/// The lines of a table, the heads first and marked, each with its newline.
pub(crate) fn lines(
    heads: &[&str],
    left: &[usize],
    rows: &[Vec<String>],
    widths: Widths<'_>,
) -> Vec<String> {
    let rows: Vec<Vec<_>> = rows
        .iter()
        .map(|row| row.iter().map(|cell| escape(cell).into_owned()).collect())
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([heads[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let all: Vec<usize> = (0..heads.len()).map(width).collect();
    let shown = shown(&all, widths);
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (place, &column) in shown.iter().enumerate() {
            let (cell, width) = (&cells[column], all[column]);
            let gap = if place == 0 { "" } else { "  " };
            let padded = if left.contains(&column) {
                format!("{gap}{cell:<width$}")
            } else {
                format!("{gap}{cell:>width$}")
            };
            text.push_str(&padded);
        }
        text.trim_end().to_owned() + "\n"
    };
    let heads: Vec<String> = heads.iter().map(|&head| head.to_owned()).collect();
    std::iter::once(mark(Style::Head, &line(&heads)))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
}

/// The columns that are shown, of those that are as wide as `all` says.
fn shown(all: &[usize], widths: Widths<'_>) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..all.len()).collect();
    for gone in widths.first_to_go {
        let needs: usize = shown.iter().map(|column| all[*column] + 2).sum();
        if widths.most.is_none_or(|most| needs <= most + 2) {
            break;
        }
        shown.retain(|column| column != gone);
    }
    shown
}

/// Lines of text broken between words to at most `width` characters, what goes on in the next line `indent` from
/// the left. Ends with a newline unless it is empty.
pub(crate) fn wrapped(text: &str, indent: usize, width: Option<usize>) -> String {
    if text.is_empty() {
        return String::new();
    }
    let text = text.strip_suffix('\n').unwrap_or(text);
    let Some(width) = width else {
        return format!("{text}\n");
    };
    let indent = " ".repeat(indent);
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    let lines = text.lines().map(|line| textwrap::fill(line, &options));
    lines.map(|line| line + "\n").collect()
}

/// A share from 0 to 1.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Bytes with the unit that a person would choose.
pub(crate) fn bytes(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let mib = bytes as f64 / MIB;
    match bytes {
        0 => "0".to_owned(),
        1..1_024 => format!("{bytes} B"),
        _ if mib < 1.0 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        _ if mib < 1024.0 => format!("{mib:.0} MiB"),
        _ => format!("{:.1} GiB", mib / 1024.0),
    }
}

/// Microseconds as ms; a dash for none.
pub(crate) fn ms(usec: u64) -> String {
    match usec {
        0 => "-".to_owned(),
        1..10_000 => format!("{:.1} ms", usec as f64 / 1e3),
        _ => format!("{:.0} ms", usec as f64 / 1e3),
    }
}

/// Microseconds as s from one second on, as ms below that; a dash for none.
pub(crate) fn seconds(usec: u64) -> String {
    match usec {
        0..1_000_000 => ms(usec),
        _ => format!("{:.1} s", usec as f64 / 1e6),
    }
}

/// A planned time in ms, to a hundredth, or whole if it is short; a dash for none.
pub(crate) fn millis(span: Nanos) -> String {
    match span {
        Nanos::ZERO => "-".to_owned(),
        Nanos(short @ 1..100_000) => {
            let digits = format!("{short:06}");
            format!("0.{} ms", digits.trim_end_matches('0'))
        }
        Nanos(span) => format!("{:.2} ms", span as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::color::render;

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "1".into()],
            vec!["long".into(), "20".into()],
        ];
        assert_eq!(
            render(&table(&["NAME", "JOBS"], &[0], &rows), false),
            "NAME  JOBS\na        1\nlong    20\n"
        );
    }

    #[test]
    fn a_narrow_terminal_has_the_columns_that_matter() {
        let rows = [vec!["a".into(), "1".into(), "22".into(), "3".into()]];
        let fit = |most| {
            let first_to_go = &[3, 1];
            let widths = Widths { most, first_to_go };
            let lines = lines(&["NAME", "B", "C", "D"], &[0], &rows, widths);
            render(&lines.concat(), false)
        };
        assert_eq!(fit(None), "NAME  B   C  D\na     1  22  3\n");
        assert_eq!(fit(Some(14)), fit(None));
        assert_eq!(fit(Some(13)), "NAME  B   C\na     1  22\n");
        assert_eq!(fit(Some(10)), "NAME   C\na     22\n");
        assert_eq!(fit(Some(1)), fit(Some(10)), "the others stay");
    }

    #[test]
    fn text_is_broken_between_words() {
        let text = "  memory  a few words\n";
        assert_eq!(wrapped(text, 10, None), text);
        assert_eq!(
            wrapped(text, 10, Some(16)),
            "  memory  a few\n          words\n"
        );
        assert_eq!(wrapped("", 4, Some(10)), "");
        assert_eq!(
            wrapped("\nother tasks\n", 4, Some(8)),
            "\nother\n    tasks\n"
        );
    }

    #[test]
    fn a_cell_cannot_move_the_terminal() {
        let rows = [vec!["a\n\u{1b}[2J".into(), "1".into()]];
        assert_eq!(
            render(&table(&["NAME", "JOBS"], &[0], &rows), false),
            "NAME          JOBS\na\\n\\u{1b}[2J     1\n"
        );
    }

    #[test]
    fn units_suit_the_size() {
        assert_eq!(bytes(0), "0");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(512 << 10), "512 KiB");
        assert_eq!(millis(Nanos(1)), "0.000001 ms");
        assert_eq!(millis(Nanos(8_500)), "0.0085 ms");
        assert_eq!(millis(Nanos(100_000)), "0.10 ms");
        assert_eq!(millis(Nanos(0)), "-");
        assert_eq!(bytes(96 << 20), "96 MiB");
        assert_eq!(bytes(6_657_199_308), "6.2 GiB");
        assert_eq!(
            (ms(0), ms(1_500), ms(33_400)),
            ("-".into(), "1.5 ms".into(), "33 ms".into())
        );
        assert_eq!(
            (seconds(0), seconds(33_400), seconds(3_249_000)),
            ("-".into(), "33 ms".into(), "3.2 s".into())
        );
    }
}
