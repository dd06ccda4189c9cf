//! `cargo xtask gpu-bundle`: one folder, target/gpu-bundle, that holds all that tests/gpu needs on a machine with a GPU
//! and nothing else of ours.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::dist;
use crate::process::Run;
use crate::tools;
use crate::workspace::{SIMGPU, Workspace};

/// The programs and the agent, which lie in the folder itself.
const PROGRAMS: [&str; 6] = [
    "rtswapd",
    "rtswapctl",
    "librtswap_cuda.so",
    "dnn",
    "conformance",
    "movement",
];

/// What is copied as it is: the kit and the Python package.
const COPIED: [(&str, &str); 5] = [
    ("tests/gpu/run.sh", "run.sh"),
    ("tests/gpu/harness", "harness"),
    ("tests/gpu/parts", "parts"),
    ("tests/gpu/workloads", "workloads"),
    ("python/src/rtswap", "python/rtswap"),
];

/// The probes of tests/doors: where their sources are, and where their programs go.
const PROBES: &str = "tests/doors/probes";
const DOORS: &str = "doors";

/// The parts of the kit.
const PARTS: [&str; 7] = [
    "smoke",
    "movement",
    "frameworks",
    "conformance",
    "case_study",
    "overhead",
    "doors",
];

/// The largest that it may be: it goes over slow lines to borrowed machines.
const MOST_BYTES: u64 = 50 << 20;

/// Makes and checks it; what was made before is replaced.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let folder = make(workspace)?;
    println!("{}", folder.display());
    Ok(())
}

/// Makes it and runs the kit in it on the simulated GPU, as it is run on a real one.
pub(crate) fn check_kit(workspace: &Workspace) -> Result<()> {
    let root = workspace.root();
    if !tools::exists("python3", root) {
        eprintln!("xtask gpu-kit: SKIPPED, nothing was run: there is no python3 in the PATH");
        return Ok(());
    }
    Run::new("python3", &root.join("tests/gpu"))
        .args(&["-B", "-m", "unittest", "-q"])
        .succeed()?;
    let folder = make(workspace)?;
    let out = workspace.target().join("gpu-kit");
    Run::new(folder.join("run.sh"), root)
        .args(&["--simgpu", "--out"])
        .args(&[&out])
        .succeed()?;
    let result = fs::read_to_string(out.join("result.json"))?;
    eprintln!("{}", outcomes(&serde_json::from_str(&result)?)?);
    Ok(())
}

/// How many parts of a run came to what.
fn outcomes(result: &serde_json::Value) -> Result<String> {
    let parts = result["parts"].as_array().context("no parts")?;
    let count = |outcome: &str| {
        let with = parts.iter().filter(|part| part["outcome"] == outcome);
        with.count()
    };
    let (passed, skipped) = (count("passed"), count("skipped"));
    ensure!(passed > 0, "no part passed: {result}");
    Ok(format!("{passed} parts passed, {skipped} skipped"))
}

fn make(workspace: &Workspace) -> Result<PathBuf> {
    let root = workspace.root();
    let needed = [("objdump", "binutils"), ("strip", "binutils")];
    tools::debian(&needed, root)?;
    let built = dist::compile(workspace)?;
    let folder = workspace.target().join("gpu-bundle");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("simgpu"))?;
    for name in PROGRAMS {
        strip(root, &built.join(name), &folder.join(name))?;
    }
    for (library, names) in SIMGPU {
        let [name, short] = names;
        strip(
            root,
            &built.join(library),
            &folder.join("simgpu").join(name),
        )?;
        symlink(name, folder.join("simgpu").join(short))?;
    }
    for (from, to) in COPIED {
        copy(&root.join(from), &folder.join(to))?;
    }
    compile_probes(workspace, &built.join("doors"), &folder)?;
    let commit = Run::new("git", root)
        .args(&["rev-parse", "HEAD"])
        .output()?;
    fs::write(folder.join("COMMIT"), commit)?;
    check(root, &folder)?;
    Ok(folder)
}

/// Copies a program without what only debuggers read.
fn strip(root: &Path, from: &Path, to: &Path) -> Result<()> {
    Run::new("strip", root)
        .args(&["--strip-unneeded", "-o"])
        .args(&[to, from])
        .succeed()
}

/// Copies a file, or a folder with all in it but what Python compiled.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("copying {}", from.display());
    if from.is_file() {
        fs::copy(from, to).with_context(failed)?;
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(failed)? {
        let name = entry?.file_name();
        if name != "__pycache__" {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// The doors' programs, and which of them are tried on a GPU, as `doors --programs` lists them.
fn compile_probes(workspace: &Workspace, doors: &Path, folder: &Path) -> Result<()> {
    let root = workspace.root();
    let list = Run::new(doors, root).args(&["--programs"]).output()?;
    let programs: Vec<serde_json::Value> = serde_json::from_str(&list)?;
    let folder = folder.join(DOORS);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("programs.json"), list)?;
    let include = root.join("cuda-agent/include");
    let library = folder.parent().unwrap_or(root).join("simgpu/libcuda.so.1");
    let compile = |file: &str, output: &Path, how: &[&str]| {
        dist::c_compiler(workspace)?
            .args(&["-O1", "-s", "-pthread", "-I"])
            .args(&[&include])
            .args(&[&root.join(PROBES).join(format!("{file}.c")), &library])
            .args(&["-ldl", "-o"])
            .args(&[output])
            .args(how)
            .succeed()
    };
    let files: BTreeSet<_> = programs
        .iter()
        .map(|probe| probe["file"].as_str())
        .collect();
    for file in files {
        let file = file.context("a probe without a file")?;
        compile(file, &folder.join(file), &[])?;
    }
    // What some of them load.
    for library in ["neighbour", "constructor"] {
        let path = folder.join(format!("lib{library}.so"));
        compile(library, &path, &["-shared", "-fPIC"])?;
    }
    Ok(())
}

/// That all that is needed is there, runs on an old glibc, and is small.
fn check(root: &Path, folder: &Path) -> Result<()> {
    let files = files(folder)?;
    let missing = missing(folder);
    ensure!(
        missing.is_empty(),
        "the bundle lacks {}",
        missing.join(", ")
    );
    let bytes: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    ensure!(
        bytes <= MOST_BYTES,
        "the bundle has {bytes} bytes, at most {MOST_BYTES}"
    );
    let mut programs = 0;
    for (path, _) in &files {
        if fs::read(path)?.starts_with(b"\x7fELF") {
            dist::check_symbols(root, path)?;
            programs += 1;
        }
    }
    eprintln!("the bundle has {programs} programs and libraries, {bytes} bytes in all");
    Ok(())
}

/// What a run cannot do without, by what is not there.
fn missing(folder: &Path) -> Vec<String> {
    let simulated = ["libcuda.so.1", "libnvidia-ml.so.1"].map(|name| format!("simgpu/{name}"));
    let copied = COPIED.map(|(_, to)| to.to_owned());
    let parts = PARTS.map(|name| format!("parts/{name}.py"));
    let others = [
        "COMMIT",
        "doors/libconstructor.so",
        "doors/libneighbour.so",
        "doors/programs.json",
        "harness/kit.py",
    ];
    PROGRAMS
        .map(str::to_owned)
        .into_iter()
        .chain(simulated)
        .chain(copied)
        .chain(parts)
        .chain(others.map(str::to_owned))
        .filter(|name| !folder.join(name).exists())
        .collect()
}

/// All files in a folder and below, links left out, with their sizes.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let about = fs::symlink_metadata(&path)?;
        if about.is_dir() {
            found.extend(files(&path)?);
        } else if about.is_file() {
            found.push((path, about.len()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this test alone, gone with it.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("rtswap-bundle-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            // What cannot be removed is left to the system.
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn all_that_is_needed_is_in_the_sources_or_built() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let to = Scratch::new("sources");
        for (from, name) in COPIED {
            fs::create_dir_all(to.0.join(name).parent().unwrap()).unwrap();
            copy(&root.join(from), &to.0.join(name)).unwrap();
        }
        let lacking = missing(&to.0);
        for name in &lacking {
            let is_built = PROGRAMS.contains(&name.as_str())
                || ["simgpu/", "doors/", "COMMIT"]
                    .iter()
                    .any(|beginning| name.starts_with(beginning));
            assert!(is_built, "{name}");
        }
        assert_eq!(lacking.len(), PROGRAMS.len() + 6);
    }

    #[test]
    fn what_python_compiled_is_left_out() {
        let (from, to) = (Scratch::new("from"), Scratch::new("to"));
        fs::create_dir_all(from.0.join("inner/__pycache__")).unwrap();
        fs::write(from.0.join("inner/__pycache__/a.pyc"), "1").unwrap();
        fs::write(from.0.join("inner/a.py"), "12").unwrap();
        symlink("a.py", from.0.join("inner/b.py")).unwrap();
        copy(&from.0, &to.0).unwrap();
        let found = files(&to.0).unwrap();
        let mut names: Vec<_> = found
            .iter()
            .map(|(path, bytes)| (path.strip_prefix(&to.0).unwrap(), *bytes))
            .collect();
        names.sort();
        let wanted = ["inner/a.py", "inner/b.py"].map(|name| (Path::new(name), 2));
        assert_eq!(names, wanted);
    }
}
