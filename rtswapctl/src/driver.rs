//! What the GPU driver says of itself. A child asks it: it may hang or crash.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rtswap_dbus::driver::{ARGUMENT, Description};

const DAEMON: &str = "rtswapd";
const SYSTEM_FOLDER: &str = "/usr/sbin";

/// How long the driver may take: the first program after a boot waits for it the longest.
const BOUND: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

/// How an older daemon ends.
const UNKNOWN_ARGUMENT: i32 = 2;

/// More bytes than a description has.
const LONGEST: u64 = 1 << 20;

/// Asks the driver; why that cannot be done, in words.
pub(crate) fn describe() -> Result<Description, String> {
    let daemon = daemon();
    let start = Command::new(&daemon)
        .arg(ARGUMENT)
        .env_remove("LD_PRELOAD")
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = start.map_err(|error| format!("{}: {error}", daemon.display()))?;
    let until = Instant::now() + BOUND;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(POLL),
            Ok(None) => {
                // One that the kernel holds cannot be killed, and is left behind.
                let _ = child.kill();
                let seconds = BOUND.as_secs();
                return Err(format!("the driver does not answer within {seconds} s"));
            }
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.code() == Some(UNKNOWN_ARGUMENT) {
        return Err(format!("{} is of another version", daemon.display()));
    }
    if !status.success() {
        return Err(format!(
            "the driver ends the program that asks it: {status}"
        ));
    }
    let mut text = String::new();
    let stdout = child.stdout.take().ok_or("no output")?;
    let read = stdout.take(LONGEST).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{} is of another version: {error}", daemon.display()))
}

/// The daemon's executable beside this one, else the system's.
pub(crate) fn daemon() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(DAEMON));
    let beside = beside.ok().filter(|path| path.exists());
    beside.unwrap_or_else(|| Path::new(SYSTEM_FOLDER).join(DAEMON))
}
