//! Text that may hold others' bytes (names of processes, of files), made fit for a terminal and a log: no
//! control character, and none that turns the direction of writing, reaches either. And what a program says of a wrong
//! command line.

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

/// What clap renders of a command line that is wrong, in one line after `program`, as each other error of that program:
/// what is wrong, what was perhaps meant, and which command says more. None for the help and the version, which are no
/// errors.
pub fn usage_error(program: &str, rendered: &str) -> Option<String> {
    let mut clauses = vec![String::new()];
    for line in rendered.strip_prefix("error: ")?.lines().map(str::trim) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            // `rtswapctl run [OPTIONS] <CMD>...`: the command ends where its options begin.
            let is_command = |word: &&str| word.starts_with(char::is_alphanumeric);
            let command: Vec<_> = usage.split(' ').take_while(is_command).collect();
            clauses.push(format!("{} --help says more", command.join(" ")));
            break;
        } else if line.starts_with("For more information, try ") {
            break;
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            clauses.push(tip.to_owned());
        } else if !line.is_empty() {
            let what = &mut clauses[0];
            what.push_str(if what.is_empty() { "" } else { " " });
            what.push_str(line);
        }
    }
    let text = format!("{program}: {}", clauses.join("; "));
    // The standard library's words.
    let text = text.replace("invalid digit found in string", "write it in digits alone");
    Some(escape(&text).into_owned())
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

    #[test]
    fn a_wrong_command_line_is_told_in_one_line() {
        let rendered = "error: unexpected argument '--perod' found\n\n  tip: a similar argument exists: '--period'\n\n\
            Usage: rtswapctl run [OPTIONS] <CMD>...\n\nFor more information, try '--help'.\n";
        assert_eq!(
            usage_error("rtswapctl", rendered).unwrap(),
            "rtswapctl: unexpected argument '--perod' found; a similar argument exists: '--period'; \
             rtswapctl run --help says more"
        );
        let rendered = "error: invalid value 'x\n\ny' for '--class <CLASS>'\n  [possible values: realtime, best-effort]\n\n\
            For more information, try '--help'.\n";
        assert_eq!(
            usage_error("rtswapctl", rendered).unwrap(),
            "rtswapctl: invalid value 'x y' for '--class <CLASS>' [possible values: realtime, best-effort]"
        );
        assert_eq!(usage_error("rtswapctl", "rtswapctl 0.1.0\n"), None);
    }
}
