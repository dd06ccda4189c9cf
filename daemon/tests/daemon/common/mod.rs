//! A real daemon in a folder of its own, and agents that are real but for the GPU.

pub(crate) mod agent;
pub(crate) mod user;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rtswap_dbus::{Options, Size};
use tempfile::TempDir;

/// Longer than anything here takes, shorter than a hang.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// The GPU of [`ONE_GPU`].
pub(crate) const UUID: &str = "GPU-01234567-89ab-cdef-0123-456789abcdef";
pub(crate) const UUID_BYTES: [u8; 16] = [
    0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
];
pub(crate) const MIB: u64 = 1 << 20;

/// 16 MiB in chunks of 2 MiB, where swapping costs next to nothing.
pub(crate) const ONE_GPU: &str = r#"
version = 1
[daemon]
probes = false
claim_timeout_s = 600
release_grace_ms = 50
[[gpu]]
uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
memory = "16MiB"
reserve = 0
best_effort_reserve = 0
chunk = "2MiB"
[gpu.swap_cost.out]
base_us = 100
per_chunk_us = 100
gib_per_s = 10
[gpu.swap_cost.in]
base_us = 100
per_chunk_us = 100
gib_per_s = 10
"#;

/// A realtime task that [`ONE_GPU`] has room for.
pub(crate) fn realtime() -> Options {
    Options {
        period: Some(Duration::from_millis(100)),
        wcet: Some(Duration::from_millis(5)),
        footprint: Some(Size::Bytes(8 * MIB)),
        swappable: Some(Size::Bytes(0)),
        ..Options::default()
    }
}

/// Says that a test checks nothing here.
pub(crate) fn skipped(reason: &str) {
    say("SKIPPED", reason);
}

/// Says that a stalled host kept a run of a test from being judged.
pub(crate) fn unjudged(reason: &str) {
    say("UNJUDGED", reason);
}

/// Past the harness, which hides the output of tests that pass.
fn say(what: &str, reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "{what}: {test}: {reason}");
}

/// Waits until `ready` gives something.
pub(crate) fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < BOUND, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The folder that outlives a daemon, and one with an NVML that cannot be loaded: the GPUs here are
/// made up, and the machine's own are none of them.
pub(crate) struct Home(TempDir, TempDir);

impl Home {
    pub(crate) fn new(config: &str) -> Self {
        let home = Self(TempDir::new().unwrap(), TempDir::new().unwrap());
        fs::write(home.config(), config).unwrap();
        fs::write(home.1.path().join("libnvidia-ml.so.1"), "").unwrap();
        home
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.0.path().join("rtswapd.toml")
    }

    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.0.path().join("run")
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rtswapd"));
        command.env_remove("RTSWAP_CONFIG").env_remove("RTSWAP_LOG");
        command.env("LD_LIBRARY_PATH", self.1.path());
        command.arg("--config").arg(self.config());
        command.arg("--runtime-dir").arg(self.runtime_dir());
        command.args(["--log", "rtswapd=debug"]);
        command
    }

    /// Starts a daemon and waits until it serves.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_with(|_| {})
    }

    /// As [`Self::daemon`], its command changed by `change`.
    pub(crate) fn daemon_with(&self, change: impl FnOnce(&mut Command)) -> Daemon {
        let log = fs::File::create(self.path().join("log")).unwrap();
        let mut command = self.command();
        change(&mut command);
        let child = command.stderr(log).spawn().unwrap();
        let mut daemon = Daemon(child);
        let control = self.runtime_dir().join("control.sock");
        wait_for("the daemon", || {
            assert!(daemon.0.try_wait().unwrap().is_none(), "{}", self.log());
            std::os::unix::net::UnixStream::connect(&control).ok()
        });
        daemon
    }

    /// Runs a daemon that is expected to end by itself: its exit code and last words.
    pub(crate) fn refused(&self) -> (i32, String) {
        let mut child = self.command().stderr(Stdio::piped()).spawn().unwrap();
        let status = wait_for("the daemon's end", || child.try_wait().unwrap());
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
        let last = text.lines().last().unwrap_or_default().to_owned();
        (status.code().unwrap(), last)
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path().join("log")).unwrap_or_default()
    }

    /// A connection to the control socket.
    pub(crate) async fn bus(&self) -> zbus::Connection {
        rtswap_dbus::connect(&self.runtime_dir()).await.unwrap()
    }
}

/// A daemon, killed when dropped.
pub(crate) struct Daemon(Child);

impl Daemon {
    /// SIGKILL: nothing is tidied up.
    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// What it holds, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().split_whitespace().next().unwrap();
        number.parse::<u64>().unwrap() << 10
    }

    /// SIGTERM, and its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        wait_for("the daemon's end", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
