//! The attacker's side: an unprivileged process with an ordinary user's limits, and the ways in which it reaches the
//! daemon.

pub(crate) mod bus;
pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod page;
pub(crate) mod privileges;
pub(crate) mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::attacks;
use crate::baseline::{BURNER, HOLDER};

/// Different texts that one attacker keeps.
const TEXTS: usize = 200;

/// What an attacker is told on its command line.
pub(crate) struct Order {
    /// The attack.
    pub name: String,
    /// Its number among those of the attack.
    pub number: u32,
    /// Whom it becomes.
    pub user: u32,
    /// How long it goes on.
    pub span: Duration,
    /// The machine's folder.
    pub folder: PathBuf,
    /// A folder of its own.
    pub room: PathBuf,
}

/// One attacking process.
pub(crate) struct Attacker {
    /// What it was told.
    pub order: Order,
    until: Instant,
    words: Words,
    lent: Option<OwnedFd>,
}

/// What it says in the end.
#[derive(Debug, Default, Serialize)]
struct Words {
    counts: BTreeMap<&'static str, u64>,
    texts: BTreeSet<String>,
    end: String,
}

impl Attacker {
    /// Whether its time is not over.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// The daemon's folder.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.order.folder.join("run")
    }

    /// Counts one more of `key`.
    pub(crate) fn count(&mut self, key: &'static str) {
        *self.words.counts.entry(key).or_default() += 1;
    }

    /// Begins to count `key` anew.
    pub(crate) fn forget(&mut self, key: &str) {
        self.words.counts.remove(key);
    }

    /// Keeps a text that it met.
    pub(crate) fn keep(&mut self, text: impl Into<String>) {
        if self.words.texts.len() < TEXTS {
            self.words.texts.insert(text.into());
        }
    }

    /// Counts what became of one try, and keeps the reason of a refusal.
    pub(crate) fn tell<T>(&mut self, tried: &Result<T, impl std::fmt::Display>) {
        self.count("tried");
        match tried {
            Ok(_) => self.count("taken"),
            Err(reason) => {
                self.count("refused");
                self.keep(reason.to_string());
            }
        }
    }

    /// Keeps a descriptor that was opened as root.
    pub(crate) fn lend(&mut self, descriptor: OwnedFd) {
        self.lent = Some(descriptor);
    }

    /// The descriptor that was opened as root.
    pub(crate) fn lent(&mut self) -> Option<OwnedFd> {
        self.lent.take()
    }

    /// Says what it met so far: a process that the daemon kills says nothing more.
    pub(crate) fn say(&self) -> Result<()> {
        println!("{}", serde_json::to_string(&self.words)?);
        Ok(())
    }

    /// Waits until its time is over.
    pub(crate) fn stay(&self) {
        std::thread::sleep(self.until.saturating_duration_since(Instant::now()));
    }
}

/// Becomes an attacker, attacks, and says what it met.
pub(crate) fn be(order: Order) -> Result<()> {
    let all = attacks::all();
    let attack = all
        .iter()
        .chain([&BURNER, &HOLDER])
        .find(|attack| attack.name == order.name);
    let attack = *attack.context("no attack has that name")?;
    let mut attacker = Attacker {
        until: Instant::now() + order.span,
        order,
        words: Words::default(),
        lent: None,
    };
    (attack.prepare)(&mut attacker)?;
    privileges::become_user(attacker.order.user)?;
    if let Err(error) = (attack.act)(&mut attacker) {
        attacker.words.end = format!("{error:#}");
    }
    attacker.say()
}
