//! What stands out in a terminal, where `--color` allows it.
//!
//! A text is marked where it is made, by characters that Unicode keeps free of meaning. They pass through what makes
//! others' bytes fit for a terminal, and become its codes last of all, or nothing. A forged mark changes colors up to
//! the end of its line, and nothing else.

use std::io;

use anstream::{AutoStream, ColorChoice};

/// How a line, or its beginning, stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Head,
    Good,
    Warning,
    Bad,
}

impl Style {
    const ALL: [(Self, char, &'static str); 4] = [
        (Self::Head, '\u{fdd0}', "\x1b[1m"),
        (Self::Good, '\u{fdd1}', "\x1b[32m"),
        (Self::Warning, '\u{fdd2}', "\x1b[33m"),
        (Self::Bad, '\u{fdd3}', "\x1b[1;31m"),
    ];

    fn mark(self) -> char {
        let found = Self::ALL.iter().find(|(style, _, _)| *style == self);
        found.expect("each style is there").1
    }
}

const END: char = '\u{fdd4}';
const PLAIN: &str = "\x1b[0m";

/// The first `width` letters of `text`, marked.
pub(crate) fn mark_start(style: Style, text: &str, width: usize) -> String {
    let at = text
        .char_indices()
        .nth(width)
        .map_or(text.len(), |(at, _)| at);
    let (start, rest) = text.split_at(at);
    format!("{}{start}{END}{rest}", style.mark())
}

/// Each line of `text`, marked.
pub(crate) fn mark(style: Style, text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .map(|line| mark_start(style, line, line.trim_end_matches('\n').chars().count()))
        .collect()
}

/// Whether standard output gets colors.
pub(crate) fn is_on() -> bool {
    AutoStream::choice(&io::stdout()) != ColorChoice::Never
}

/// The text with a terminal's codes in the place of marks, or without marks.
pub(crate) fn render(text: &str, is_on: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_marked = false;
    for letter in text.chars() {
        let style = Style::ALL.iter().find(|(_, mark, _)| *mark == letter);
        match style {
            Some((_, _, code)) if is_on => {
                is_marked = true;
                out.push_str(code);
            }
            None if letter != END => {
                if letter == '\n' && is_marked {
                    is_marked = false;
                    out.push_str(PLAIN);
                }
                out.push(letter);
            }
            _ if is_on && is_marked => {
                is_marked = false;
                out.push_str(PLAIN);
            }
            _ => {}
        }
    }
    if is_marked {
        out.push_str(PLAIN);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_codes_or_nothing() {
        let text = mark(Style::Head, "A B\n") + &mark_start(Style::Bad, "late: é x\n", 4);
        assert_eq!(render(&text, false), "A B\nlate: é x\n");
        assert_eq!(
            render(&text, true),
            "\x1b[1mA B\x1b[0m\n\x1b[1;31mlate\x1b[0m: é x\n"
        );
        assert_eq!(mark(Style::Good, "x"), mark_start(Style::Good, "x", 9));
    }

    #[test]
    fn a_forged_mark_ends_with_its_line() {
        assert_eq!(
            render("a\u{fdd3}b\nc\u{fdd4}", true),
            "a\x1b[1;31mb\x1b[0m\nc"
        );
        assert_eq!(render("a\u{fdd3}b\u{fdd4}", false), "ab");
    }
}
