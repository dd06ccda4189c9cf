//! The cases, a room for each subject: what is said `before` cuInit, physical memory (`create`), addresses (`reserve`),
//! `map`, `access`, what keeps memory (`keep`), `pointer`s, `bad` input, `order`, `pool`s, `capture`, errors that stick
//! (`sticky`), other processes (`share`, `death`), the `width` of results, and the `lookup` of functions.

mod access;
mod bad;
mod before;
mod capture;
mod create;
mod death;
mod keep;
mod lookup;
mod map;
mod order;
mod pointer;
mod pool;
mod reserve;
mod share;
mod sticky;
pub mod width;

use std::process::Command;

use anyhow::{Result, bail};

use crate::case::Case;

/// All of them.
pub fn all() -> impl Iterator<Item = Case> {
    let rooms: [&[Case]; 16] = [
        before::CASES,
        create::CASES,
        reserve::CASES,
        map::CASES,
        access::CASES,
        keep::CASES,
        pointer::CASES,
        bad::CASES,
        order::CASES,
        pool::CASES,
        capture::CASES,
        width::CASES,
        lookup::CASES,
        share::CASES,
        sticky::CASES,
        death::CASES,
    ];
    rooms.into_iter().flatten().copied()
}

/// The case of that name.
pub fn by_name(name: &str) -> Option<Case> {
    all().find(|case| case.name == name)
}

/// This program as the other process of a case.
fn other(role: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--role").arg(role).args(arguments);
    Ok(command)
}

/// The other process's part.
pub fn play(role: &str, arguments: &[String]) -> Result<()> {
    match role {
        "import" => share::import(arguments),
        "open" => share::open(arguments),
        "break" => sticky::break_context(),
        "hold" => death::hold(arguments),
        "refuse" => width::refuse(),
        _ => bail!("there is no role {role}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_say_their_room() {
        let names: BTreeSet<&str> = all().map(|case| case.name).collect();
        assert_eq!(names.len(), all().count());
        for name in names {
            assert_eq!(name.split('/').count(), 2, "{name}");
            assert!(by_name(name).is_some());
        }
    }
}
