//! Wrong inputs and their answers, recorded in tests/e2e/wrong: a file there is typed line by line at a machine of its
//! own. `RECORD=1 cargo test -p rtswap-e2e --test wrong_inputs` writes the answers anew.
#![allow(missing_docs)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program};

const BOUND: Duration = Duration::from_secs(30);
/// A wrong input ends with one of these; what prepares one ends with 0.
const REFUSALS: [i32; 6] = [1, 2, 3, 4, 126, 127];
const MOST_LINES: usize = 3;
const LEAST_INPUTS: usize = 100;

/// A command line, and what came of it.
#[derive(Debug, PartialEq, Eq)]
struct Recorded {
    /// Lines that begin with #, for the reader.
    comment: String,
    command: String,
    code: i32,
    answer: String,
}

impl Recorded {
    /// Reads an entry: `# comment` where there is one, `$ command`, `? exit code`, and the answer.
    fn parse(entry: &str) -> Result<Self> {
        let lines = entry.lines();
        let (comments, rest): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with('#'));
        let mut rest = rest.into_iter();
        let mut marked = |mark| rest.next().and_then(|line: &str| line.strip_prefix(mark));
        let command = marked("$ ").with_context(|| format!("no command in {entry:?}"))?;
        let code = marked("? ").unwrap_or("0").parse()?;
        let answer: Vec<_> = rest.collect();
        Ok(Self {
            comment: comments.join("\n"),
            command: command.to_owned(),
            code,
            answer: answer.join("\n"),
        })
    }

    fn is_refused(&self) -> bool {
        self.code != 0
    }

    /// What must hold of every answer.
    fn complaint(&self) -> Option<&'static str> {
        let answer = &self.answer;
        if !self.is_refused() {
            return None;
        } else if !REFUSALS.contains(&self.code) {
            return Some("its exit code is none of a wrong input");
        } else if answer.is_empty() {
            return Some("it says nothing");
        } else if answer.lines().count() > MOST_LINES {
            return Some("it is longer than three lines");
        } else if answer.contains("panicked") || answer.contains("RUST_BACKTRACE") {
            return Some("it is a panic");
        }
        None
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in self
            .comment
            .lines()
            .chain([&*format!("$ {}", self.command)])
        {
            text.push_str(line);
            text.push('\n');
        }
        if self.is_refused() {
            let _ = writeln!(text, "? {}", self.code);
        }
        if !self.answer.is_empty() {
            text.push_str(&self.answer);
            text.push('\n');
        }
        text
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("wrong")
}

/// Types what `recorded` has at a new machine. `None` where the machine cannot have what `name` needs.
fn typed(name: &str, recorded: &[Recorded]) -> Result<Option<Vec<Recorded>>> {
    let machine = Machine::new(MachineOptions::default())?;
    let _bus = match name {
        "dbus" => match machine.bus()? {
            None => return Ok(None),
            bus => bus,
        },
        _ => None,
    };
    let _daemon = machine.daemon()?;
    let here = machine.path("").display().to_string();
    let mut typed = Vec::new();
    for before in recorded {
        let command = machine.shell(&before.command)?;
        let end = Program::start(command)?.finish(BOUND);
        let end = end.with_context(|| before.command.clone())?;
        let said = end.stdout + &end.stderr;
        typed.push(Recorded {
            comment: before.comment.clone(),
            command: before.command.clone(),
            code: end.status.code().context("ended by a signal")?,
            // The machine's folder has another name each time.
            answer: said.replace(&here, "").trim_end().to_owned(),
        });
    }
    Ok(Some(typed))
}

#[test]
fn every_wrong_input_has_its_short_answer() -> Result<()> {
    let mut files: Vec<_> = fs::read_dir(folder())?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut differences = String::new();
    let records = std::env::var_os("RECORD").is_some();
    let mut inputs = 0;
    for file in files {
        let name = file.file_stem().and_then(|name| name.to_str());
        let name = name.context("a file has a name")?;
        let text = fs::read_to_string(&file)?;
        let entries = text.split("\n\n").filter(|entry| !entry.trim().is_empty());
        let recorded: Vec<_> = entries.map(Recorded::parse).collect::<Result<_>>()?;
        let Some(now) = typed(name, &recorded)? else {
            inputs += recorded.iter().filter(|entry| entry.is_refused()).count();
            continue;
        };
        inputs += now.iter().filter(|entry| entry.is_refused()).count();
        let mut texts = Vec::new();
        for (before, now) in recorded.iter().zip(&now) {
            let mut kept = now;
            if let Some(complaint) = now.complaint() {
                writeln!(differences, "{name}: {complaint}:\n{}", now.text())?;
                kept = before;
            } else if now != before && !records {
                let (before, now) = (before.text(), now.text());
                writeln!(differences, "{name}: recorded:\n{before}now:\n{now}")?;
            }
            texts.push(kept.text());
        }
        if records {
            fs::write(&file, texts.join("\n"))?;
        }
    }
    ensure!(differences.is_empty(), "{differences}");
    ensure!(inputs >= LEAST_INPUTS, "only {inputs} wrong inputs");
    eprintln!("{inputs} wrong inputs");
    Ok(())
}
