//! Command lines that are read by their programs and go no further.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The programs that `cargo xtask` hands its options to.
const HANDED: [(&str, &str); 8] = [
    ("attack", "rtswap-attack"),
    ("bench", "rtswap-bench"),
    ("demo", "rtswap-demo"),
    ("doors", "doors"),
    ("driver", "driver"),
    ("eval", "eval"),
    ("milp", "rtswap-milp"),
    ("soundness", "soundness"),
];

/// An error if the program would not take the line. What it lacks may be missing.
pub(crate) fn read(line: &str) -> Result<()> {
    let words = words(line)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = words[0].rsplit('/').next().unwrap_or_default();
    match (program, &words[1..]) {
        ("rtswapctl", _) => known(rtswapctl::cli::Cli::try_parse_from(&words).err()),
        ("rtswapd", _) => known(rtswapd::cli::Arguments::try_parse_from(&words).err()),
        ("cargo", ["xtask", command, options @ ..]) => xtask(command, options),
        ("rtswap-dnn", options) => helped("dnn", options),
        // It takes any program.
        ("rtswap-simgpu", [_, ..]) | ("busctl", _) => Ok(()),
        _ => bail!("there is nothing that reads it"),
    }
}

/// The words of a line, by the shell, without what follows a # and the & at its end.
pub(crate) fn words(line: &str) -> Result<Vec<String>> {
    let line = line.trim_end().trim_end_matches('&');
    let script = format!("printf '%s\\0' {line}");
    // A line may redirect what it prints: not into the sources.
    let folder = tempfile::tempdir()?;
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", &script]).current_dir(&folder).output()?;
    ensure!(output.status.success(), "the shell does not take it");
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}

fn known(error: Option<clap::Error>) -> Result<()> {
    match error {
        None => Ok(()),
        Some(error) if error.kind() == ErrorKind::MissingRequiredArgument => Ok(()),
        // An option that is spoken of without its value.
        Some(error)
            if error.get(ContextKind::InvalidValue)
                == Some(&ContextValue::String(String::new())) =>
        {
            Ok(())
        }
        Some(error) => bail!("{error}"),
    }
}

/// A program asked for help after its options reads these first.
fn helped(program: &str, options: &[&str]) -> Result<()> {
    let program = built(program)?;
    let output = Command::new(&program).args(options).arg("--help").output();
    let output = output.with_context(|| format!("{} is not built", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

fn xtask(command: &str, options: &[&str]) -> Result<()> {
    helped("xtask", &[command])?;
    match HANDED.iter().find(|(name, _)| *name == command) {
        Some((_, program)) => helped(program, options),
        None => helped("xtask", &[&[command], options].concat()),
    }
}

/// A program of this build.
fn built(name: &str) -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("the test has a folder")?;
    Ok(folder.join(name))
}

#[test]
fn what_no_program_takes_is_found() {
    for line in [
        "rtswapctl run --perod 3ms ./detector",
        "rtswapctl frobnicate",
        "target/release/rtswapd --confg f.toml &",
        "rtswap-dnn --memry 8MiB",
        "cargo xtask frobnicate",
        "cargo xtask english --lists",
        "cargo xtask bench --onyl grant   # one part",
        "rtswap-simgpu",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
    for line in [
        "rtswapctl run",
        "rtswapctl run --weight",
        "cargo xtask bench --only grant   # one part",
    ] {
        read(line).unwrap();
    }
}
