//! Several real processes on one machine: capacity, engines, death.
//!
//! A child is this test binary again, told by the environment what to play.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{Access, CopySide, Driver};
use simgpu_core::{Error, Observer};

const ROLE: &str = "SIMGPU_TEST_ROLE";
const DIR: &str = "SIMGPU_TEST_DIR";
/// A file beside the machine's own.
const GO: &str = "go";
const MIB: u64 = 1 << 20;
/// No step of these tests takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A child process that ends with its owner.
struct Player {
    process: Child,
    lines: mpsc::Receiver<String>,
}

impl Player {
    fn start(role: &str, dir: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let out = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || forward(out, &sender));
        Self { process, lines }
    }

    /// The next thing that the child says.
    fn says(&self) -> String {
        self.lines
            .recv_timeout(PATIENCE)
            .expect("the child says nothing")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn forward(out: BufReader<ChildStdout>, to: &mpsc::Sender<String>) {
    for line in out.lines().map_while(Result::ok) {
        if let Some((_, said)) = line.split_once("child: ") {
            let _ = to.send(said.to_owned());
        }
    }
}

/// Lets the children that wait for it begin.
fn start_all(dir: &Path) {
    std::fs::write(dir.join(GO), []).unwrap();
}

fn await_start(dir: &Path) {
    let start = Instant::now();
    while !dir.join(GO).exists() {
        assert!(start.elapsed() < PATIENCE, "nobody starts it");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a child does; nothing in the parent.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let dir = std::env::var_os(DIR).unwrap();
    let driver = Driver::attach(Path::new(&dir), None).unwrap();
    let context = driver.retain_primary(0).unwrap();
    match role.as_str() {
        "hold" => {
            context.alloc(20 * MIB).unwrap();
            println!("child: holds");
            std::thread::sleep(PATIENCE);
        }
        "churn" => {
            println!("child: churns");
            let start = Instant::now();
            while start.elapsed() < PATIENCE {
                let handle = driver.create_physical(0, 16 * MIB).unwrap();
                driver.release_physical(handle).unwrap();
            }
        }
        "copy" | "copy together" => {
            let device = context.alloc(8 * MIB).unwrap();
            let host = vec![1_u8; 8 << 20];
            let stream = context.legacy_stream();
            if role == "copy together" {
                println!("child: ready");
                await_start(Path::new(&dir));
            }
            let start = Instant::now();
            let src = CopySide::Host(host.as_ptr().expose_provenance());
            context
                .copy(stream, CopySide::Device(device), src, host.len(), true)
                .unwrap();
            println!("child: {}", start.elapsed().as_micros());
        }
        other => panic!("no role {other}"),
    }
}

fn machine(change: impl FnOnce(&mut Config)) -> (tempfile::TempDir, Driver) {
    let gpu = GpuConfig {
        memory: Size(32 * MIB),
        context_bytes: Size(2 * MIB),
        h2d_gib_per_s: 0.1,
        ..GpuConfig::default()
    };
    let mut config = Config {
        gpus: vec![gpu],
        ..Config::default()
    };
    change(&mut config);
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let driver = Driver::attach(dir.path(), Some(&config)).unwrap();
    (dir, driver)
}

fn free(driver: &Driver) -> u64 {
    driver.memory_info(0).0
}

#[test]
fn capacity_binds_all_and_a_kill_gives_memory_back() {
    let (dir, driver) = machine(|_| ());
    let mut holder = Player::start("hold", dir.path());
    assert_eq!(holder.says(), "holds");
    assert_eq!(free(&driver), 10 * MIB);
    let context = driver.retain_primary(0).unwrap();
    assert_eq!(context.alloc(10 * MIB), Err(Error::OutOfMemory));
    context.alloc(8 * MIB).unwrap();
    holder.kill();
    assert_eq!(free(&driver), 22 * MIB);
    context.alloc(20 * MIB).unwrap();
}

#[test]
fn an_allocation_reaps_the_dead_by_itself() {
    let (dir, driver) = machine(|_| ());
    let mut holder = Player::start("hold", dir.path());
    assert_eq!(holder.says(), "holds");
    holder.kill();
    driver.retain_primary(0).unwrap().alloc(30 * MIB).unwrap();
}

#[test]
fn a_kill_at_any_instant_leaks_nothing() {
    let (dir, driver) = machine(|_| ());
    for round in 0..12 {
        let mut churner = Player::start("churn", dir.path());
        assert_eq!(churner.says(), "churns");
        std::thread::sleep(Duration::from_micros(300 * round));
        churner.kill();
        assert_eq!(free(&driver), 32 * MIB);
    }
}

#[test]
fn memory_of_the_dead_comes_back_after_the_lag() {
    let (dir, driver) = machine(|config| config.release_lag_ms = 2000.0);
    let mut holder = Player::start("hold", dir.path());
    assert_eq!(holder.says(), "holds");
    let observer = Observer::open(dir.path()).unwrap();
    let seen = observer.holders(0);
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(
        (seen[0].pid, seen[0].bytes),
        (holder.process.id(), 22 * MIB)
    );
    holder.kill();
    let death = Instant::now();
    assert_eq!(free(&driver), 10 * MIB);
    assert_eq!(observer.holders(0), []);
    assert_eq!(observer.gpus()[0].used_bytes, 22 * MIB);
    while free(&driver) != 32 * MIB {
        assert!(death.elapsed() < PATIENCE, "the memory never comes back");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(death.elapsed() >= Duration::from_secs(2));
}

/// Runs in a row that a stalled host may keep from being judged, the last of which is a failure.
const RUNS: u32 = 3;

#[test]
fn processes_share_an_engine_in_turn() {
    for run in 1..=RUNS {
        let took = share_an_engine();
        if took < Duration::from_secs(1) {
            return;
        }
        // Past the harness, which hides the output of tests that pass.
        let _ = writeln!(
            std::io::stderr(),
            "UNJUDGED: processes_share_an_engine_in_turn: run {run} of {RUNS}: {took:?}"
        );
    }
    panic!("{RUNS} runs in a row took longer than the second that the engines' recent use covers");
}

/// How long it took: the engines' recent use is that of the last second.
fn share_an_engine() -> Duration {
    let (dir, _driver) = machine(|config| config.gpus[0].memory = Size(64 * MIB));
    let players: Vec<_> = (0..3)
        .map(|_| Player::start("copy together", dir.path()))
        .collect();
    for player in &players {
        assert_eq!(player.says(), "ready");
    }
    let start = Instant::now();
    start_all(dir.path());
    let times: Vec<f64> = players
        .iter()
        .map(|p| p.says().parse::<f64>().unwrap() / 1e6)
        .collect();
    let alone = 8.0 / 1024.0 / 0.1;
    let all = start.elapsed().as_secs_f64();
    assert!(
        times.iter().all(|time| *time >= alone),
        "{times:?} against {alone} alone"
    );
    assert!(all >= 3.0 * alone, "{all} against {alone} for each");
    let observer = Observer::open(dir.path()).unwrap();
    let busy = observer.gpus()[0].busy_ns[0] as f64 / 1e9;
    assert!((busy - 3.0 * alone).abs() < 1e-3, "{busy}");
    let [lately, ..] = observer.engines_lately(0);
    let took = start.elapsed();
    if took < Duration::from_secs(1) {
        assert_eq!(lately.busy_ns, observer.gpus()[0].busy_ns[0]);
        assert!(lately.percent() >= 20, "{lately:?}");
    }
    took
}

#[test]
fn counters_outlive_their_process() {
    let (dir, driver) = machine(|config| config.gpus[0].h2d_gib_per_s = 1.0);
    let mut copier = Player::start("copy", dir.path());
    let pid = copier.process.id();
    copier.says();
    copier.process.wait().unwrap();
    let observer = Observer::open(dir.path()).unwrap();
    let processes = observer.processes();
    let dead = processes.iter().find(|process| process.pid == pid).unwrap();
    assert!(!dead.is_live);
    assert_eq!(dead.gpus[0].h2d_bytes.load(Relaxed), 8 * MIB);
    assert_eq!(dead.gpus[0].allocs.load(Relaxed), 1);
    assert_eq!(dead.gpus[0].memory_bytes.load(Relaxed), 0);
    assert_eq!(observer.process_bytes(pid, 0), 0);
    let own = processes
        .iter()
        .find(|process| process.pid == std::process::id())
        .unwrap();
    assert!(own.is_live);
    assert_eq!(free(&driver), 32 * MIB);
}

#[test]
fn memory_is_handed_on_uncleared_unless_scrubbed() {
    for (scrub, same) in [(false, false), (false, true), (true, false), (true, true)] {
        let (dir, driver) = machine(|config| config.scrub = scrub);
        let other = Driver::attach(dir.path(), None).unwrap();
        let context = driver.retain_primary(0).unwrap();
        let stream = context.legacy_stream();
        let mut seen = [0_u8; 64];
        let seen_at = CopySide::Host(seen.as_mut_ptr().expose_provenance());
        let first = driver.create_physical(0, 28 * MIB).unwrap();
        let address = driver.reserve_address(28 * MIB, 0, 0).unwrap();
        driver.map(address, 28 * MIB, first).unwrap();
        driver
            .set_access(address, 28 * MIB, 0, Access::ReadWrite)
            .unwrap();
        context.set(stream, address, 0x5a, 1, 28 << 20).unwrap();
        context.synchronize().unwrap();
        driver.unmap(address, 28 * MIB).unwrap();
        driver.release_physical(first).unwrap();
        let driver = if same { driver } else { other };
        let context = driver.retain_primary(0).unwrap();
        let stream = context.legacy_stream();
        let second = driver.create_physical(0, 26 * MIB).unwrap();
        let address = driver.reserve_address(26 * MIB, 0, 0).unwrap();
        driver.map(address, 26 * MIB, second).unwrap();
        driver
            .set_access(address, 26 * MIB, 0, Access::ReadWrite)
            .unwrap();
        // Of 16 granules 14 were written, so of any three one was.
        let probe = |at| {
            context
                .copy(stream, seen_at, CopySide::Device(address + at), 64, true)
                .unwrap();
            // SAFETY: the copy above has ended, and the array is still there.
            unsafe { std::ptr::read_volatile(&raw const seen) }
        };
        let leaked = [0, 2 * MIB, 4 * MIB]
            .into_iter()
            .any(|at| probe(at) == [0x5a; 64]);
        assert_eq!(leaked, !scrub || same, "{scrub} {same}");
    }
}
