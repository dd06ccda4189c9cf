//! Standard output. Unlike `println!`, a reader that has gone is no panic, and no failure: it has
//! what it wanted.

use std::io::{self, Write};

use rtswap_dbus::text::{escape_json, escape_lines};
use serde::Serialize;

use crate::failure::Failure;

/// Prints `text`, without what would move a terminal.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    read(text).map(drop)
}

/// The same, and tells whether there still is a reader.
pub(crate) fn read(text: &str) -> Result<bool, Failure> {
    put(&escape_lines(text))
}

/// Prints `text` on a cleared terminal, as watch(1) does; and tells whether there still is a reader.
pub(crate) fn read_cleared(text: &str) -> Result<bool, Failure> {
    put(&format!("\x1b[H\x1b[2J{}", escape_lines(text)))
}

fn put(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Output(error)),
    }
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    text(&line(value))
}

/// One line of JSON.
pub(crate) fn line(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("plain data");
    escape_json(&text).into_owned() + "\n"
}
