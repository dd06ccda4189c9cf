//! Starts `driver-probe`, in which a library is loaded and asked, and takes what it prints.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::Program;

use crate::codes::{Codes, Phase, Words, asked};
use crate::library::Library;
use crate::lookups::Lookups;

/// The longest that a probe may take.
const BOUND: Duration = Duration::from_mins(2);

/// Ends a list of names on a probe's standard input.
pub const END: &str = ".";

/// How a library is asked.
#[derive(Debug, Clone)]
pub struct Probe {
    program: PathBuf,
    environment: Vec<(&'static str, OsString)>,
}

impl Probe {
    /// The program among what was built in `binaries`.
    pub fn new(binaries: &Path) -> Self {
        Self {
            program: binaries.join("driver-probe"),
            environment: Vec::new(),
        }
    }

    /// With a variable in its environment.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Under the agent that was built in `binaries`.
    #[must_use]
    pub fn under_the_agent(self, binaries: &Path) -> Self {
        self.with("LD_PRELOAD", binaries.join("librtswap_cuda.so"))
    }

    /// What each of the functions `names` returns and writes.
    pub fn codes<'a>(
        &self,
        library: &Library,
        phase: Phase,
        words: Words,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Codes> {
        let text = self.ask(&[words.name(), phase.name()], library, asked(names, words))?;
        Codes::parse(&text)
    }

    /// What cuGetProcAddress gives for `names`.
    pub fn lookups<'a>(
        &self,
        library: &Library,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Lookups> {
        Lookups::parse(&self.ask(&["lookups"], library, names)?)
    }

    /// Those of `names` whose functions, as dlsym gives them, another library has.
    pub fn replaced<'a>(
        &self,
        library: &Library,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<String>> {
        let text = self.ask(&["replaced"], library, names)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Those of the tables, by UUID, that cuGetExportTable hands out.
    pub fn tables<'a>(
        &self,
        library: &Library,
        uuids: impl IntoIterator<Item = &'a str>,
    ) -> Result<BTreeSet<String>> {
        let text = self.ask(&["tables"], library, uuids)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// A program that loads the library, prints `ready`, and at each line of its input calls each of `names` once and
    /// prints `called`.
    pub fn caller<'a>(
        &self,
        library: &Library,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Program> {
        self.start(&["calls"], library, names)
    }

    fn ask<'a>(
        &self,
        arguments: &[&str],
        library: &Library,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<String> {
        let what = || {
            format!(
                "driver-probe {} {}",
                arguments.join(" "),
                library.path.display()
            )
        };
        let ended = self.start(arguments, library, names)?.finish(BOUND);
        let ended = ended.with_context(what)?;
        ensure!(
            ended.status.success(),
            "{}: {}: {}",
            what(),
            ended.status,
            ended.stderr
        );
        Ok(ended.stdout)
    }

    fn start<'a>(
        &self,
        arguments: &[&str],
        library: &Library,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Program> {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .arg(&library.path)
            // What else asks for the driver by its name, such as the agent, must meet this one.
            .env("LD_LIBRARY_PATH", library.folder())
            .env_remove("LD_PRELOAD")
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut program = Program::start(command)?;
        let names: Vec<&str> = names.into_iter().chain([END, ""]).collect();
        program.say(&names.join("\n"))?;
        Ok(program)
    }
}
