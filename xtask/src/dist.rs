//! Programs as they are shipped: optimised, and against an old glibc.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::process::Run;
use crate::tools::{self, Subcommand};
use crate::workspace::{Workspace, stack_and};

/// What they are built by.
const CARGO_ZIGBUILD: Subcommand = Subcommand {
    name: "cargo-zigbuild",
    version: "0.24.0",
    wheel: Some("cargo-zigbuild"),
};
const ZIG: (&str, &str) = ("ziglang", "0.15.2");

pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The oldest glibc that the programs run on: the agent lives in the processes of containers too.
const GLIBC: (u32, u32) = (2, 28);
pub(crate) const PROFILE: &str = "dist";

/// What tries on any machine what is shipped.
const OTHERS: [&str; 6] = [
    "rtswap-bench",
    "rtswap-conformance",
    "rtswap-demo",
    "rtswap-doors",
    "rtswap-movement",
    "rtswap-attack",
];

/// Builds rtswap, the simulated GPU and the others at once: cargo builds a dependency anew for
/// other packages that want other features of it. The folder of what was built.
pub(crate) fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let (zigbuild, zig) = tools(workspace)?;
    let target = format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1);
    Run::new(zigbuild, workspace.root())
        .args(&[
            "zigbuild",
            "--locked",
            "--profile",
            PROFILE,
            "--target",
            &target,
        ])
        .args(&stack_and(&OTHERS))
        .env("CARGO_ZIGBUILD_ZIG_PATH", zig)
        .succeed()?;
    Ok(workspace.target().join(TARGET).join(PROFILE))
}

/// cargo-zigbuild and zig, installed if they are not yet.
pub(crate) fn tools(workspace: &Workspace) -> Result<(PathBuf, PathBuf)> {
    Ok((CARGO_ZIGBUILD.install(workspace)?, zig(workspace)?))
}

/// A C compiler for the same glibc, without its arguments.
pub(crate) fn c_compiler(workspace: &Workspace) -> Result<Run> {
    let target = format!("x86_64-linux-gnu.{}.{}", GLIBC.0, GLIBC.1);
    let run = Run::new(zig(workspace)?, workspace.root());
    Ok(run.args(&["cc", "-target", &target]))
}

fn zig(workspace: &Workspace) -> Result<PathBuf> {
    Ok(tools::python(workspace, ZIG.0, ZIG.1)?.join("ziglang/zig"))
}

/// No symbol of a newer glibc is needed, and a library offers nothing by which a program's own unwinding would be replaced.
pub(crate) fn check_symbols(root: &Path, file: &Path) -> Result<()> {
    let symbols = Run::new("objdump", root)
        .args(&["--dynamic-syms"])
        .args(&[file])
        .output()?;
    let newer = newer_than(&symbols, GLIBC);
    ensure!(
        newer.is_empty(),
        "{} needs a newer glibc than {}.{}: {}",
        file.display(),
        GLIBC.0,
        GLIBC.1,
        newer.join(", ")
    );
    let hijacked: Vec<&str> = symbols
        .lines()
        .filter(|line| !line.contains("*UND*"))
        .filter_map(|line| line.split_whitespace().last())
        .filter(|name| name.starts_with("_Unwind_") || name.starts_with("__gxx_"))
        .collect();
    ensure!(
        hijacked.is_empty(),
        "{} exports {}",
        file.display(),
        hijacked.join(", ")
    );
    Ok(())
}

/// The lines of objdump's table that name a version of glibc after `oldest`.
fn newer_than(symbols: &str, oldest: (u32, u32)) -> Vec<&str> {
    let version = |line: &str| {
        let (_, rest) = line.split_once("GLIBC_")?;
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    let newer = |line: &&str| version(line).is_some_and(|version| version > oldest);
    symbols.lines().filter(newer).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) free
0000000000000000  w   DF *UND*  0000000000000000 (GLIBC_2.28)  fcntl64
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34)  dlsym
00000000000bd6f0 g    DF .text  0000000000000012  Base         cuInit
";

    #[test]
    fn a_symbol_of_a_newer_glibc_is_found() {
        let found = newer_than(TABLE, (2, 28));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("dlsym"), "{found:?}");
        assert_eq!(newer_than(TABLE, (2, 34)), [""; 0]);
        assert_eq!(newer_than(TABLE, (2, 2)).len(), 2, "2.28 is newer than 2.2");
    }
}
