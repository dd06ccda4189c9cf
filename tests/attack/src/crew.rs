//! The processes of one attack, from their start to the end of all that they started.

use std::fs;
use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rtswap_e2e::{Program, wait_until};
use serde_json::Value;

use crate::attack::Attack;
use crate::stage::Stage;
use crate::victims::{as_user, on_machine};

/// Users of one attack: its own, and those that belong to it in a user namespace.
pub(crate) const USERS: u32 = 8;

/// Time in which an attacker says what it met, after its own is over: it runs only when no other process wants to.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Attackers at work.
pub(crate) struct Crew {
    attackers: Vec<Program>,
    rooms: Vec<PathBuf>,
    users: std::ops::Range<u32>,
}

impl Crew {
    /// Starts all attackers of an attack as `user`.
    pub(crate) fn start(stage: &Stage, attack: &Attack, user: u32) -> Result<Self> {
        let (mut attackers, mut rooms) = (Vec::new(), Vec::new());
        for number in 0..attack.attackers {
            let room = stage.machine.path(&format!("room-{user}-{number}"));
            fs::create_dir_all(&room)?;
            chown(&room, Some(user), Some(user))?;
            let mut command = on_machine(&stage.machine, Command::new(std::env::current_exe()?));
            command.args(["--as-attacker", attack.name]);
            command.args(["--number", &number.to_string(), "--user", &user.to_string()]);
            command.args(["--millis", &attack.span.as_millis().to_string()]);
            command.arg("--folder").arg(stage.machine.path(""));
            command.arg("--room").arg(&room);
            command.current_dir("/");
            rooms.push(room);
            attackers.push(Program::start(command)?);
        }
        Ok(Self {
            attackers,
            rooms,
            users: user..user + attack.users,
        })
    }

    /// Whether one of them still runs.
    pub(crate) fn is_at_work(&mut self) -> bool {
        self.attackers.iter_mut().any(Program::is_running)
    }

    /// Ends them and all that they started; what each said last.
    pub(crate) fn end(mut self) -> Result<Vec<Value>> {
        // Those that are still at work then are killed.
        let _ = wait_until("the attackers' end", LAST_WORDS, || !self.is_at_work());
        for attacker in &mut self.attackers {
            // It may have ended by itself.
            let _ = attacker.kill();
        }
        for user in self.users {
            // All processes of that user are this attack's: no other attack has its number.
            let mut kill = as_user(user, "kill");
            kill.args(["-KILL", "--", "-1"]);
            kill.output().context("kill")?;
        }
        // A process can be seen dead before its last lines are: its output is whole once its streams are closed, and all that
        // could still hold them are killed.
        let are_silent = || self.attackers.iter().all(Program::is_silent);
        wait_until("the attackers' last words", LAST_WORDS, are_silent)?;
        let said = self.attackers.iter().map(last_words).collect();
        for room in &self.rooms {
            // A process that is about to end may still write there: the machine's folder ends with the run.
            let _ = fs::remove_dir_all(room);
        }
        Ok(said)
    }
}

fn last_words(attacker: &Program) -> Value {
    let said = attacker.stdout();
    let line = said.lines().rfind(|line| line.starts_with('{'));
    let complaint = || serde_json::json!({ "silent": attacker.stderr() });
    line.and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_else(complaint)
}
