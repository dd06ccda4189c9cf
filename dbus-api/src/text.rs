//! Text that may hold others' bytes (names of processes, of files), made fit for a terminal and a log: no
//! control character, and none that turns the direction of writing, reaches either.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` on one line: such characters are written as Rust writes them, as in `\n` and `\u{1b}`.
pub fn escape(text: &str) -> Cow<'_, str> {
    replace(text, is_unfit, |out, letter| {
        write!(out, "{}", letter.escape_default())
    })
}

/// The same, but lines stay lines.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    let unfit = |letter| letter != '\n' && is_unfit(letter);
    replace(text, unfit, |out, letter| {
        write!(out, "{}", letter.escape_default())
    })
}

/// A text in JSON, where such characters are in strings alone: they become `\u001b`.
pub fn escape_json(text: &str) -> Cow<'_, str> {
    // All of them are in the first plane of Unicode.
    replace(text, is_unfit, |out, letter| {
        write!(out, "\\u{:04x}", u32::from(letter))
    })
}

fn is_unfit(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let breaks = matches!(letter, '\u{2028}' | '\u{2029}');
    letter.is_control() || turns || breaks
}

fn replace(
    text: &str,
    unfit: impl Fn(char) -> bool,
    put: impl Fn(&mut String, char) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.contains(&unfit) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if unfit(letter) {
            // Writing to a String cannot fail.
            let _ = put(&mut out, letter);
        } else {
            out.push(letter);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_a_terminal_is_written_out() {
        assert_eq!(escape("µ ≥ 3"), "µ ≥ 3");
        assert_eq!(
            escape("a\n\t\u{1b}[2J\u{7f}\u{9b}b\u{202e}c\u{2028}"),
            "a\\n\\t\\u{1b}[2J\\u{7f}\\u{9b}b\\u{202e}c\\u{2028}"
        );
        assert_eq!(escape_lines("a\nb\r\n"), "a\nb\\r\n");
        assert_eq!(
            escape_json("{\"a\":\"\u{9b}\u{202e}\"}"),
            "{\"a\":\"\\u009b\\u202e\"}"
        );
    }
}
