//! `cargo xtask ebpf`: builds the probe programs, or says whether the object that is checked in is what they build.
//!
//! The object lies in the repository, so that nobody needs a BPF linker to build the daemon. Beside it is a
//! manifest: the hashes of what it was built from, and by which tools. It is the same, byte for byte, wherever
//! it is built with these.

mod manifest;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::Run;
use crate::tools::{self, Subcommand};
use crate::workspace::Workspace;

use manifest::Manifest;

/// The linker that makes one BPF object of LLVM bitcode; its LLVM is the compiler's.
const LINKER: Subcommand = Subcommand {
    name: "bpf-linker",
    version: "0.10.3",
    wheel: None,
};
/// The machine whose registers the programs read.
const MACHINE: &str = "x86_64";
/// Where core's sources can be had without rustup: a Debian package, its version for our compiler, and the archive.
const DEBIAN: (&str, &str, &str) = (
    "rust-src",
    "1.95.0+dfsg1-2~bpo13+1",
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main\n",
);
/// Of the compiler, as that package names its folder.
const COMPILER: &str = "1.95.0";

/// Builds the object and writes it and its manifest, or with `check` compares.
pub(crate) fn make(workspace: &Workspace, check: bool) -> Result<()> {
    if !check {
        let object = build(workspace, &Tools::install(workspace)?)?;
        let prebuilt = Manifest::of(workspace, &object)?;
        std::fs::copy(&object, object_at(workspace))?;
        return prebuilt.write(workspace);
    }
    match Tools::install(workspace) {
        Ok(tools) => compare_bytes(workspace, &tools),
        Err(error) => compare_hashes(workspace, &format!("{error:#}")),
    }
}

/// As `make` with `check`, but installs nothing: CI has no two minutes for it.
pub(crate) fn check_quickly(workspace: &Workspace) -> Result<()> {
    match Tools::find(workspace) {
        Some(tools) => compare_bytes(workspace, &tools),
        None => compare_hashes(
            workspace,
            "bpf-linker or core's sources are not installed yet, which `cargo xtask ebpf --check` does",
        ),
    }
}

/// The object that is checked in.
fn object_at(workspace: &Workspace) -> PathBuf {
    workspace
        .root()
        .join("ebpf/prebuilt")
        .join(format!("rtswap-probes.{MACHINE}.o"))
}

fn compare_bytes(workspace: &Workspace, tools: &Tools) -> Result<()> {
    let sources = [
        "fmt",
        "--manifest-path",
        "ebpf/probes/Cargo.toml",
        "--check",
    ];
    workspace.cargo(&sources).succeed()?;
    let built = std::fs::read(build(workspace, tools)?)?;
    let kept = std::fs::read(object_at(workspace)).context("ebpf/prebuilt")?;
    ensure!(
        built == kept,
        "ebpf/prebuilt is not what ebpf/probes builds ({} and {} bytes): run `cargo xtask ebpf`",
        kept.len(),
        built.len()
    );
    compare_manifest(workspace)?;
    eprintln!("ebpf/prebuilt is what its sources build, byte for byte");
    Ok(())
}

fn compare_hashes(workspace: &Workspace, why: &str) -> Result<()> {
    compare_manifest(workspace)?;
    eprintln!(
        "ebpf/prebuilt: hashes of object, sources, lock and tool versions agree; BYTES NOT COMPARED: {why}"
    );
    Ok(())
}

fn compare_manifest(workspace: &Workspace) -> Result<()> {
    let differences =
        Manifest::of(workspace, &object_at(workspace))?.differences(&Manifest::read(workspace)?);
    ensure!(
        differences.is_empty(),
        "ebpf/prebuilt was built from other sources: run `cargo xtask ebpf`\n{}",
        differences.join("\n")
    );
    Ok(())
}

/// What the build needs beside the compiler.
struct Tools {
    linker: PathBuf,
    /// Core's sources; `None` where the compiler has them beside itself, as by rustup.
    core: Option<PathBuf>,
}

impl Tools {
    /// Those that are there.
    fn find(workspace: &Workspace) -> Option<Self> {
        let linker = LINKER.built(workspace);
        let core = match beside_the_compiler(workspace) {
            Ok(true) => None,
            _ => Some(unpacked(workspace)),
        };
        let there = linker.is_file() && core.as_ref().is_none_or(|core| core.is_dir());
        there.then_some(Self { linker, core })
    }

    /// Installs what is missing, into target/tools.
    fn install(workspace: &Workspace) -> Result<Self> {
        let core = if beside_the_compiler(workspace)? {
            None
        } else {
            let core = unpacked(workspace);
            if !core.is_dir() {
                unpack_debian(workspace).context(
                    "core's sources: `rustup component add rust-src`, or Debian's package rust-src",
                )?;
            }
            Some(core)
        };
        let linker = LINKER.install(workspace)?;
        Ok(Self { linker, core })
    }
}

fn rustc(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let compiler = Run::new("rustc", workspace.root()).args(arguments);
    Ok(compiler.read()?.trim().to_owned())
}

/// Whether rustup's component rust-src is installed.
fn beside_the_compiler(workspace: &Workspace) -> Result<bool> {
    let sysroot = rustc(workspace, &["--print", "sysroot"])?;
    Ok(Path::new(&sysroot)
        .join("lib/rustlib/src/rust/library/core")
        .is_dir())
}

fn unpack_folder(workspace: &Workspace) -> PathBuf {
    tools::folder(workspace).join(format!("rust-src-{COMPILER}"))
}

/// Where Debian's package has the library's sources, unpacked by us.
fn unpacked(workspace: &Workspace) -> PathBuf {
    unpack_folder(workspace).join(format!("usr/src/rustc-{COMPILER}/library"))
}

/// Fetches the package by lists of our own, so that the system's stay as they are, and unpacks it.
fn unpack_debian(workspace: &Workspace) -> Result<()> {
    let (name, version, archive) = DEBIAN;
    ensure!(
        rustc(workspace, &["--version"])?.starts_with(&format!("rustc {COMPILER} ")),
        "Debian's {name} {version} is not this compiler's"
    );
    for program in ["apt-get", "dpkg"] {
        if !tools::exists(program, workspace.root()) {
            bail!("there is no {program}");
        }
    }
    let apt = tools::folder(workspace).join("apt");
    for folder in ["lists/partial", "archives/partial"] {
        std::fs::create_dir_all(apt.join(folder))?;
    }
    std::fs::write(apt.join("sources.list"), archive)?;
    let settings = [
        format!(
            "Dir::Etc::SourceList={}",
            apt.join("sources.list").display()
        ),
        "Dir::Etc::SourceParts=/dev/null".into(),
        format!("Dir::State::Lists={}", apt.join("lists").display()),
        format!("Dir::Cache={}", apt.display()),
        // Otherwise it cannot write where only we may.
        "APT::Sandbox::User=".into(),
        "Acquire::http::Timeout=20".into(),
        "Acquire::Retries=1".into(),
    ];
    let run = |arguments: &[&str]| {
        let options = settings.iter().flat_map(|setting| ["-o", setting]);
        let options: Vec<&str> = options.chain(["-qq"]).collect();
        Run::new("apt-get", &apt)
            .args(&options)
            .args(arguments)
            .succeed()
    };
    run(&["update"])?;
    run(&["download", &format!("{name}={version}")])?;
    let package = std::fs::read_dir(&apt)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .context("apt-get downloaded nothing")?;
    // What is interrupted leaves nothing that looks whole.
    let part = unpack_folder(workspace).with_extension("part");
    if part.exists() {
        std::fs::remove_dir_all(&part)?;
    }
    Run::new("dpkg", &apt)
        .args(&["-x"])
        .args(&[&package, &part])
        .succeed()?;
    std::fs::rename(&part, unpack_folder(workspace))?;
    std::fs::remove_dir_all(&apt)?;
    Ok(())
}

/// Builds the object; where it is.
fn build(workspace: &Workspace, tools: &Tools) -> Result<PathBuf> {
    let target = workspace.target().join("ebpf");
    let flags = [
        format!("--cfg=bpf_target_arch=\"{MACHINE}\""),
        "-Cpanic=abort".into(),
        // Atomic additions that give the old value (Linux 5.12).
        "-Ctarget-cpu=v3".into(),
        "-Cdebuginfo=0".into(),
    ];
    let cargo = [
        "build",
        "--locked",
        "--release",
        "--manifest-path",
        "ebpf/probes/Cargo.toml",
        "-Zbuild-std=core",
        "--target",
        "bpfel-unknown-none",
    ];
    let mut run = workspace
        .cargo(&cargo)
        // For build-std on the stable compiler.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_CFG_BPF_TARGET_ARCH", MACHINE)
        .env("CARGO_TARGET_BPFEL_UNKNOWN_NONE_LINKER", &tools.linker)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    if let Some(core) = &tools.core {
        run = run.env("__CARGO_TESTS_ONLY_SRC_ROOT", core);
    }
    run.succeed()?;
    let object = target.join("bpfel-unknown-none/release/rtswap-probes");
    let bytes = std::fs::read(&object)?;
    let mangled = |start: &[u8]| bytes.windows(start.len()).any(|found| found == start);
    ensure!(
        !mangled(b"_RN") && !mangled(b"_ZN"),
        "{}: a function's name has a hash of this folder in it: inline it or name it by no_mangle",
        object.display()
    );
    Ok(object)
}
