//! Command lines that are typed at a machine with a daemon, a bus and a simulated GPU.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rtswap_e2e::{Daemon, Machine, MachineOptions, Program, wait_until};
use rtswapctl::cli::{Cli, Command};

use crate::Done;
use crate::lines::Line;
use crate::read::{read, words};

const BOUND: Duration = Duration::from_mins(1);

/// The programs of the reader, each a workload of ours that does not end.
const READERS: [&str; 4] = ["detector", "planner", "bin/python", "bin/python3"];
const WORKLOAD: &str = "#!/bin/sh\nexec rtswap-dnn --memory 8MiB --period 33ms\n";

/// Types a document's lines one after the other, at a machine that is there from the first one on.
pub(crate) struct Typist {
    /// Whether the document's sizes are those of a real GPU, and not of the packaged simulated one.
    is_real: bool,
    desk: Option<Desk>,
}

struct Desk {
    /// What was started and goes on, as the reader's programs would; it ends first.
    going_on: Vec<(Option<String>, Program)>,
    _daemon: Daemon,
    bus: Option<Program>,
    machine: Machine,
}

impl Typist {
    pub(crate) fn new(lines: &[Line]) -> Self {
        Self {
            is_real: lines.iter().any(|line| line.text.contains("GiB")),
            desk: None,
        }
    }

    /// Types it. It must end well, or go on and do what it is for; where the document shows an error, it must say one.
    pub(crate) fn type_line(&mut self, line: &Line) -> Result<Done> {
        let desk = match &mut self.desk {
            Some(desk) => desk,
            empty => empty.insert(Desk::new(self.is_real)?),
        };
        if line.program() == "busctl" && desk.bus.is_none() {
            read(&line.text)?;
            return Ok(Done::Read);
        }
        let text = line.text.trim_end().trim_end_matches('&');
        let words = words(text)?;
        // A file that the document has shown and the reader has written.
        for name in words.iter().map(Path::new) {
            let is_toml = name.extension().is_some_and(|ending| ending == "toml");
            let path = desk.machine.path("").join(name);
            if is_toml && name.is_relative() && !path.exists() {
                fs::write(path, &line.file)?;
            }
        }
        let task = task(&words);
        if let Some(task) = &task {
            desk.end(task)?;
        }
        let installed = to_scale(&text.replace("/usr/share/doc/rtswap/", ""));
        let (_, arguments) = installed.split_once(' ').unwrap_or((&installed, ""));
        let script = format!("exec {} {arguments}", line.program());
        let mut program = Program::start(desk.machine.shell(&script)?)?;
        wait_until("it ends or does its work", BOUND, || {
            let works = match &task {
                Some(task) => desk.has_computed(task),
                None => does_go_on(&program, &words),
            };
            works || !program.is_running()
        })
        .with_context(|| format!("{}{:#?}", program.stderr(), desk.machine.status()))?;
        if program.is_running() {
            desk.going_on.push((task.clone(), program));
            // The document goes on as for a user without this task.
            if let Some(task) = task.filter(|_| line.is_forbidden) {
                desk.end(&task)?;
            }
            return Ok(Done::Typed);
        }
        let end = program.finish(BOUND)?;
        let said = end.stdout + &end.stderr;
        let code = end.status.code().context("a signal ended it")?;
        // The doctor finds what is wrong with this host, if anything.
        let has_findings = installed.contains("rtswapctl doctor") && [1, 6].contains(&code);
        let is_allowed = line.is_forbidden && code == 1;
        let is_as_shown = code == i32::from(line.is_refused) || has_findings || is_allowed;
        ensure!(is_as_shown, "ended with {code}: {said}");
        Ok(Done::Typed)
    }
}

/// Whether it does what goes on until it is interrupted.
fn does_go_on(program: &Program, words: &[String]) -> bool {
    let is_watch = words.iter().any(|word| word == "--watch");
    let said = program.stdout() + &program.stderr();
    said.contains("Monitoring bus message stream") || is_watch && !said.is_empty()
}

/// The line with the sizes of a real GPU divided by 32, as those of the packaged simulated GPU are.
fn to_scale(line: &str) -> String {
    let scaled = |word: &str| {
        let gib: f64 = word.strip_suffix("GiB")?.parse().ok()?;
        Some(format!("{}MiB", gib * 32.0))
    };
    let words = line
        .split(' ')
        .map(|word| scaled(word).unwrap_or_else(|| word.to_owned()));
    words.collect::<Vec<_>>().join(" ")
}

/// The name of the task that the line starts.
fn task(words: &[String]) -> Option<String> {
    let start = words.iter().position(|word| word.ends_with("rtswapctl"))?;
    match Cli::try_parse_from(&words[start..]).ok()?.command {
        Command::Run(options) => options.name.or_else(|| {
            let program = options.program.first()?.to_str()?;
            Some(program.rsplit('/').next()?.to_owned())
        }),
        _ => None,
    }
}

impl Desk {
    fn new(is_real: bool) -> Result<Self> {
        let machine = Machine::new(MachineOptions {
            memory_mib: 768,
            // The packaged simulated GPU; a real one, to scale, swaps in no time.
            link_gib_per_s: if is_real { 10.0 } else { 0.35 },
            chunk_mib: if is_real { 2 } else { 16 },
            ..MachineOptions::default()
        })?;
        // The first look at a shell makes the folder of programs.
        drop(machine.shell("")?);
        for name in READERS {
            let path = machine.path(name);
            fs::write(&path, WORKLOAD)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let bus = machine.bus()?;
        let daemon = machine.daemon()?;
        Ok(Self {
            going_on: Vec::new(),
            _daemon: daemon,
            bus,
            machine,
        })
    }

    /// Ends the program of the task that has this name, where there is one, as a reader waits for that.
    fn end(&mut self, task: &str) -> Result<()> {
        let is_other = |name: &Option<String>| name.as_deref() != Some(task);
        self.going_on.retain(|(name, _)| is_other(name));
        wait_until("the task has ended", BOUND, || {
            matches!(self.machine.task(task), Ok(None))
        })
    }

    fn has_computed(&self, task: &str) -> bool {
        let task = self.machine.task(task).ok().flatten().unwrap_or_default();
        task["jobs"].as_u64() >= Some(1)
    }
}
