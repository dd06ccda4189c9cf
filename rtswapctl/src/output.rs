//! Standard output. Unlike `println!`, a reader that has gone is no panic.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints `text` as it is.
pub(crate) fn text(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// Prints one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(value).expect("plain data");
    text(&(json + "\n"))
}
