//! A process of its own for each test, because the library is one a process and
//! its machine is named by the environment. Programs on the machine are this
//! test binary again, told by the environment what to play.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nvml_wrapper::Nvml;
use simgpu_core::config::Config;
use simgpu_core::driver::Driver;
use simgpu_core::machine::default_dir;

const INSIDE: &str = "SIMGPU_NVML_TEST";
/// How much memory a program holds, MiB.
pub(crate) const HOLD: &str = "SIMGPU_NVML_TEST_HOLDS_MIB";
/// Set for one that works, too.
pub(crate) const WORK: &str = "SIMGPU_NVML_TEST_WORKS";
pub(crate) const MIB: u64 = 1 << 20;
/// No test takes nearly as long.
const PATIENCE: Duration = Duration::from_mins(1);

/// Two GPUs, the second of them slow enough to be kept busy by little.
const CONFIG: [(&str, &str); 4] = [
    ("SIMGPU_GPUS", "2"),
    ("SIMGPU_MEMORY", "64MiB"),
    ("SIMGPU_CONTEXT_BYTES", "2MiB"),
    ("SIMGPU_COMPUTE_GIB_PER_S", "0.5"),
];

/// Runs a test's body in a process of its own, on a machine of its own.
pub(crate) fn isolated(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        std::thread::spawn(|| {
            std::thread::sleep(PATIENCE);
            eprintln!("still not done after {PATIENCE:?}");
            std::process::exit(1);
        });
        return body();
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let inside = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .env("SIMGPU_DIR", dir.path())
        .envs(CONFIG)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    // A name that is wrong would run nothing, and succeed.
    assert!(
        inside.status.success() && said.contains("1 passed"),
        "{name} failed in its process:\n{said}{}",
        String::from_utf8_lossy(&inside.stderr)
    );
}

pub(crate) fn nvml() -> Nvml {
    let path = library();
    Nvml::builder().lib_path(path.as_os_str()).init().unwrap()
}

/// The library of this build, beside the folder of the test's own binary.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("libsimgpu_nvml.so");
    assert!(
        path.exists(),
        "{} is missing: run `cargo build -p simgpu-nvml` first, or the tests by `cargo xtask test`",
        path.display()
    );
    path
}

/// A program that uses the first GPU that it sees and ends with its owner.
pub(crate) struct Program {
    process: Child,
    out: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stage::program", "--nocapture"])
            .envs(settings.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let mut program = Self { process, out };
        let mut line = String::new();
        while !line.contains("program: ready") {
            line.clear();
            assert!(program.out.read_line(&mut line).unwrap() > 0, "it ended");
        }
        program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a program does; nothing in the tests' own processes.
#[test]
fn program() {
    let Ok(mib) = std::env::var(HOLD) else {
        return;
    };
    let config = Config::from_env().unwrap();
    let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let driver = Driver::attach_seeing(&default_dir(), config.as_ref(), visible.as_deref());
    let driver = driver.unwrap();
    let context = driver.retain_primary(0).unwrap();
    let bytes = mib.parse::<u64>().unwrap() * MIB;
    let address = context.alloc(bytes).unwrap();
    println!("program: ready");
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if std::env::var_os(WORK).is_some() {
            let stream = context.legacy_stream();
            context
                .set(stream, address, 1, 4, bytes as usize / 4)
                .unwrap();
            context.synchronize().unwrap();
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Polls until it is so, with a bound.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
