//! A driver that does nothing but write down how it is called, and a program that calls each hooked name once: what the
//! agent hands on is compared with what the program passed. Both are C source, made from the declarations and never from
//! the agent's tables: a mistake there cannot stand on both sides.
//!
//! - [`driver`]: the `libcuda.so.1`; [`answers`]: the few functions whose results an agent needs;
//! - [`caller`]: the program; [`mod@calls`]: what it printed.

pub mod answers;
pub mod caller;
pub mod calls;
pub mod driver;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Program};
use tempfile::TempDir;

use calls::Made;

use crate::signature::declared::Declarations;
use crate::signature::{Kind, Signature};
use crate::stage::BOUND;

/// The driver and the program, compiled, in a folder that goes with them.
pub struct Stub {
    folder: TempDir,
    /// The functions in the order of their results.
    names: Vec<String>,
}

impl Stub {
    /// Compiles both for the names that are hooked.
    ///
    /// # Errors
    /// A hooked name that nothing declares, or no C compiler.
    pub fn compile(hooked: &BTreeSet<String>) -> Result<Self> {
        let signatures = Declarations::read()?.signatures()?;
        let called = hooked.iter().map(|name| {
            let signature = signatures.get(name);
            let signature = signature.with_context(|| format!("{name} is not declared"))?;
            Ok((name.clone(), signature.clone()))
        });
        let called: BTreeMap<String, Signature> = called.collect::<Result<_>>()?;
        let folder = tempfile::Builder::new().prefix("rtswap-stub-").tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs::write(at("driver.c"), driver::source(&signatures))?;
        fs::write(at("caller.c"), caller::source(&called))?;
        let mut library = compiler(&at("driver.c"), &at(driver::SONAME));
        library.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]);
        finish(library)?;
        let mut program = compiler(&at("caller.c"), &at("caller"));
        program.arg("-L").arg(folder.path()).arg("-l:libcuda.so.1");
        finish(program)?;
        let names = signatures.into_keys().collect();
        Ok(Self { folder, names })
    }

    /// The program on the stub under the agent; its driver answers as `answer` says: `fail` or `succeed`.
    pub fn command(&self, machine: &Machine, answer: &str) -> Command {
        let mut command = machine.preloaded(self.folder.path().join("caller"));
        command.arg(answer);
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }

    /// What a function returns where calls are to fail; no two return the same.
    ///
    /// # Errors
    /// No such function.
    pub fn failure(&self, name: &str) -> Result<u32> {
        let place = self
            .names
            .binary_search_by(|known| known.as_str().cmp(name));
        let place = place
            .ok()
            .with_context(|| format!("the stub has no {name}"))?;
        Ok(driver::FAILURES + u32::try_from(place)?)
    }
}

/// What the program of a command of [`Stub::command`] calls.
///
/// # Errors
/// It does not end well, or complains.
pub fn calls(command: Command) -> Result<Vec<Made>> {
    let finished = Program::start(command)?.finish(BOUND)?;
    ensure!(finished.status.success(), "{finished:?}");
    let lines = finished.stdout.lines();
    lines
        .map(|line| Made::read(line)?.with_context(|| line.to_owned()))
        .collect()
}

fn compiler(source: &Path, output: &Path) -> Command {
    let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    command.args(["-O1", "-g", "-Wall", "-Werror", "-pthread", "-o"]);
    command.arg(output).arg(source);
    command
}

fn finish(mut command: Command) -> Result<()> {
    let Output { status, stderr, .. } = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    Ok(())
}

/// The C type of an argument.
fn c_type(kind: Kind) -> String {
    match kind {
        Kind::Pointer => "void *".into(),
        Kind::Address | Kind::Integer { bytes: 8 } => "unsigned long long".into(),
        Kind::Size => "size_t".into(),
        Kind::Integer { bytes: 1 } => "unsigned char".into(),
        Kind::Integer { bytes: 2 } => "unsigned short".into(),
        Kind::Integer { .. } => "unsigned int".into(),
        Kind::Float => "float".into(),
        Kind::Structure { bytes } => format!("struct bytes_{bytes}"),
    }
}

/// Definitions of the structures that functions take by value.
fn structures<'a>(signatures: impl Iterator<Item = &'a Signature>) -> String {
    let kinds = signatures.flat_map(|signature| &signature.0);
    let sizes = kinds.filter_map(|kind| match kind {
        Kind::Structure { bytes } => Some(bytes),
        _ => None,
    });
    let sizes: BTreeSet<usize> = sizes.copied().collect();
    let one = |bytes| format!("struct bytes_{bytes} {{ unsigned char at[{bytes}]; }};\n");
    sizes.into_iter().map(one).collect()
}

/// `TYPE a0, TYPE a1, …`, as a definition has them.
fn parameters(signature: &Signature) -> String {
    let parameter = |(at, kind): (usize, &Kind)| format!("{} a{at}", c_type(*kind));
    let all: Vec<String> = signature.0.iter().enumerate().map(parameter).collect();
    if all.is_empty() {
        "void".into()
    } else {
        all.join(", ")
    }
}
