//! The few words that the agent says on stderr.

use std::io::Write;
use std::sync::OnceLock;

/// Says one line that the user must see.
pub fn say(text: std::fmt::Arguments<'_>) {
    write_line(text);
}

/// Says one line if RTSWAP_LOG=debug.
pub fn debug(text: std::fmt::Arguments<'_>) {
    static WANTED: OnceLock<bool> = OnceLock::new();
    if *WANTED.get_or_init(|| std::env::var_os("RTSWAP_LOG").is_some_and(|value| value == "debug"))
    {
        write_line(text);
    }
}

/// In one write, so that lines of several processes stay whole.
fn write_line(text: std::fmt::Arguments<'_>) {
    let line = format!("rtswap[{}]: {text}\n", std::process::id());
    let _ = std::io::stderr().write_all(line.as_bytes());
}
