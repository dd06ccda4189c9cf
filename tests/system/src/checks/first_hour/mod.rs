//! The first hour of a person with rtswap, at a terminal of 80 columns and 24 lines: each command is typed, where a command
//! named the next one that one, and each screen becomes a picture of docs/screens.
//!
//! `script` is what is typed and expected, `terminal` where, `screen` the pictures.

mod screen;
mod script;
mod terminal;

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::unless_stalled;

use super::{USER, status, swapping};
use crate::machine::Machine;
use crate::report::Report;
use script::{DESK, Ends, Heard, STEPS, Step, TASKS};
use terminal::{COLUMNS, Place, Terminal, wait};

/// Jobs of each task before its status is looked at.
const JOBS: u64 = 5;
/// How long the person reads: what a program held is free by then, also to the daemon's next look.
const READING: Duration = Duration::from_millis(1_500);
/// Within which they complete.
const RUNNING: Duration = Duration::from_secs(40);

/// `screens` is where pictures are written, if anywhere. The hour plans with execution times that it measured, so it is
/// repeated if the host stalled.
pub(super) fn check(report: &mut Report<'_>, screens: Option<&Path>) {
    report.check(
        "the first hour goes from each command to the next",
        |machine| {
            unless_stalled("the first hour", || {
                prepare(machine).context("a machine for the first hour")?;
                let result = hour_on(machine, screens);
                let restored = restore(machine).context("the machine is as it was before");
                result.and(restored)
            })
        },
    );
}

/// The hour on a machine that is prepared for it.
fn hour_on(machine: &Machine, screens: Option<&Path>) -> Result<()> {
    let command = |arguments: &[&str]| machine.command_as(USER, arguments);
    let place = Place {
        command: &command,
        folder: machine.shared().join(FOLDER),
        inside: format!("/srv/shared/{FOLDER}"),
    };
    hour(place, screens, || {
        machine.wait("jobs of both", RUNNING, |machine| {
            let status = status(machine)?;
            let jobs = |name: &&str| swapping::task(&status, name)?["jobs"].as_u64();
            Ok(TASKS.iter().all(|name| jobs(name) >= Some(JOBS)))
        })
    })
}

const FOLDER: &str = "first-hour";

/// What the machine of a reader has: the driver where the loader finds it, the configuration of the package, a user who may
/// become root.
fn prepare(machine: &Machine) -> Result<()> {
    let defaults = include_str!("../../../../../packaging/rtswapd.toml");
    std::fs::write(machine.shared().join("rtswapd.toml"), defaults)?;
    let script = format!(
        "install -d -o {USER} /srv/shared/{FOLDER}
        echo /usr/lib/x86_64-linux-gnu/rtswap-simgpu > /etc/ld.so.conf.d/simgpu.conf
        ldconfig
        echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
        usermod --append --groups sudo {USER}
        cp /etc/rtswap/rtswapd.toml /root/
        cp /srv/shared/rtswapd.toml /etc/rtswap/
        systemctl restart rtswapd"
    );
    machine.shell(&script)?.ok()?;
    machine.wait(
        "a GPU with assumed costs",
        Duration::from_secs(30),
        |machine| {
            let status = status(machine)?;
            Ok(status["gpus"][0]["swap_cost_source"] == "assumed")
        },
    )
}

fn restore(machine: &Machine) -> Result<()> {
    let script = format!(
        "rm -f /etc/ld.so.conf.d/simgpu.conf /etc/sudoers.d/{USER} /etc/polkit-1/rules.d/50-rtswap.rules
        rm -rf /home/{USER}/.local/share/rtswap /var/lib/rtswap/calibration /srv/shared/{FOLDER}
        ldconfig
        gpasswd --delete {USER} sudo
        mv /root/rtswapd.toml /etc/rtswap/
        systemctl restart rtswapd"
    );
    machine.shell(&script)?.ok().map(drop)
}

/// Types it all; `running` waits until both programs have completed jobs.
fn hour(place: Place<'_>, screens: Option<&Path>, running: impl Fn() -> Result<()>) -> Result<()> {
    let mut terminal = Terminal::open(place, DESK)?;
    let mut heard = Heard::new();
    for step in &STEPS {
        thread::sleep(READING);
        if step.name == "status" {
            running()?;
        }
        let text = take(&mut terminal, step, &heard).with_context(|| step.name)?;
        let picture = screen::picture(&terminal.styled(step.window)?);
        if let Some(folder) = screens.filter(|_| step.has_picture()) {
            screen::keep(folder, step.name, &picture)?;
        }
        heard.insert(step.name, text);
    }
    TASKS.iter().try_for_each(|task| terminal.interrupt(task))
}

/// Types one command; what it printed.
fn take(terminal: &mut Terminal<'_>, step: &Step, heard: &Heard) -> Result<String> {
    let typed = (step.types)(heard)?;
    let window = step.window;
    terminal.window(window)?;
    terminal.type_lines(window, &typed)?;
    match step.ends {
        Ends::Prompt(codes, bound) => {
            let code = terminal.prompt(window, bound)?;
            let text = || terminal.text(window).unwrap_or_default();
            ensure!(
                codes.contains(&code),
                "{typed:?} ended with {code}: {}",
                text()
            );
        }
        Ends::Interrupted => wait("its words", Duration::from_secs(20), || {
            let text = terminal.text(window)?;
            Ok(step.says.iter().all(|words| text.contains(words)))
        })?,
    }
    let text = terminal.text(window)?;
    let printed = printed(&text, &typed)?;
    for words in step.says {
        // The terminal breaks lines between words.
        let flat = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(flat.contains(words.trim()), "no {words:?}: {printed}");
    }
    if let Some(judge) = step.judge {
        judge(&printed).with_context(|| printed.clone())?;
    }
    Ok(printed)
}

/// What stands below the lines that were typed: none of it wider than the terminal.
fn printed(text: &str, typed: &str) -> Result<String> {
    let mut lines = text.trim_end().lines().map(str::trim_end);
    for (place, typed) in typed.lines().enumerate() {
        let prompt = if place == 0 { "$" } else { ">" };
        let line = lines.next().context("nothing was typed")?;
        ensure!(
            line == format!("{prompt} {}", typed.trim_end()),
            "{line:?} was typed for {typed:?}"
        );
    }
    let printed: Vec<_> = lines.collect();
    let wide = printed.iter().find(|line| line.chars().count() > COLUMNS);
    ensure!(wide.is_none(), "wider than {COLUMNS} columns: {wide:?}");
    Ok(printed.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// `cargo xtask system-test --screens docs/screens` makes them.
    #[test]
    fn the_pictures_in_the_documents_are_those_of_the_script() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let quickstart = fs::read_to_string(docs.join("quickstart.md")).unwrap();
        let files = fs::read_dir(docs.join("screens")).unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let names = STEPS.iter().filter(|step| step.has_picture());
        let names = names.map(|step| format!("{}.svg", step.name));
        let names: BTreeSet<_> = names.collect();
        assert_eq!(names, files.collect());
        for name in names {
            assert!(
                quickstart.contains(&format!("](screens/{name})")),
                "{name} is in no document"
            );
        }
    }

    #[test]
    fn a_line_beyond_the_terminal_is_an_error() {
        let text = |width| format!("$ a \\\n>     b\n{}\n$ \n", "x".repeat(width));
        let typed = "a \\\n    b";
        assert_eq!(printed(&text(80), typed).unwrap().lines().count(), 2);
        assert!(printed(&text(81), typed).is_err());
        assert!(printed(&text(80), "another").is_err());
    }
}
