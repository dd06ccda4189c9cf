//! Standard output. Unlike `println!`, a reader that has gone is no panic, and no failure: it has
//! what it wanted.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rtswap_dbus::text::{escape, escape_json, escape_lines};
use serde::Serialize;

use crate::color;
use crate::failure::Failure;
use crate::table::wrapped;

/// Tells `text` on standard error, broken to the width of its terminal. Unread, it is no reason to stop.
pub(crate) fn note(text: &str) {
    let line = format!("rtswapctl: {}", escape(text));
    let width = size(io::stderr()).map(|(width, _)| width);
    let _ = io::stderr().write_all(wrapped(&line, 4, width).as_bytes());
}

/// Prints `text`, without what would move a terminal.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    read(text).map(drop)
}

/// The same, and tells whether there still is a reader.
pub(crate) fn read(text: &str) -> Result<bool, Failure> {
    put(color::render(&escape_lines(text), color::is_on()).as_bytes())
}

/// Prints what of `text` the terminal has room for after clearing it, as watch(1) does; and tells whether there still
/// is a reader.
pub(crate) fn read_cleared(text: &str) -> Result<bool, Failure> {
    let text = escape_lines(text);
    let text = match size(io::stdout()) {
        Some((_, height)) => upper(&text, height),
        None => text.into_owned(),
    };
    let text = color::render(&text, color::is_on());
    put(format!("\x1b[H\x1b[2J{text}").as_bytes())
}

/// The first lines of `text`, so many that the cursor after them does not make the terminal scroll.
fn upper(text: &str, height: usize) -> String {
    let lines = text.lines().count();
    if lines < height {
        return text.to_owned();
    }
    let kept = height.saturating_sub(2);
    let upper: String = text.split_inclusive('\n').take(kept).collect();
    format!("{upper}… {} more lines\n", lines - kept)
}

/// The columns of the terminal; none if standard output is none.
pub(crate) fn width() -> Option<usize> {
    size(io::stdout()).map(|(width, _)| width)
}

/// The columns and rows of a terminal; none if `output` is none.
fn size(output: impl AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(output).ok()?;
    // Some terminals do not know theirs.
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// Prints `bytes` of our own as they are.
pub(crate) fn script(bytes: &[u8]) -> Result<(), Failure> {
    put(bytes).map(drop)
}

fn put(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes);
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Output(error)),
    }
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    json_read(value).map(drop)
}

/// The same, and tells whether there still is a reader.
pub(crate) fn json_read(value: &impl Serialize) -> Result<bool, Failure> {
    put(line(value).as_bytes())
}

/// One line of JSON.
fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain data");
    escape_json(&text).into_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_the_terminal_is_counted() {
        let text = "1\n2\n3\n4\n5\n";
        assert_eq!(upper(text, 6), text);
        assert_eq!(upper(text, 5), "1\n2\n3\n… 2 more lines\n");
        assert_eq!(upper(text, 1), "… 5 more lines\n");
    }
}
