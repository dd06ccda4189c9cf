//! Plain text tables: numbers to the right, words to the left, two spaces between.

use rtswap_dbus::text::escape;
use rtswap_policy::units::Nanos;

/// Lays out `rows` under `heads`; columns whose index is in `left` are words.
pub(crate) fn table(heads: &[&str], left: &[usize], rows: &[Vec<String>]) -> String {
    lines(heads, left, rows).concat()
}

/// The lines of [`table`], the heads first, each with its newline.
pub(crate) fn lines(heads: &[&str], left: &[usize], rows: &[Vec<String>]) -> Vec<String> {
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
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
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
    std::iter::once(line(&heads))
        .chain(rows.iter().map(|row| line(row)))
        .collect()
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

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "1".into()],
            vec!["long".into(), "20".into()],
        ];
        assert_eq!(
            table(&["NAME", "JOBS"], &[0], &rows),
            "NAME  JOBS\na        1\nlong    20\n"
        );
    }

    #[test]
    fn a_cell_cannot_move_the_terminal() {
        let rows = [vec!["a\n\u{1b}[2J".into(), "1".into()]];
        assert_eq!(
            table(&["NAME", "JOBS"], &[0], &rows),
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
