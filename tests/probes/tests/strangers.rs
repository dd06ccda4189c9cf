//! Files of users that look like a driver hold up neither the probes nor other users.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{BOUND, machine, possible};
use rtswap_e2e::{Machine, MachineOptions, Program, wait_until};
use rtswap_probes_test::Place;
use rtswap_probes_test::elf::{self, FUNCTION};
use rtswapd::source::probes::{functions, spawn};

/// For a file that took minutes; it takes less than a millisecond.
const SOON: Duration = Duration::from_millis(500);

/// Allocations that a process leaves.
const LEFT: u32 = 400_000;

/// A user that nobody is.
const STRANGER: u32 = 4711;

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn timed(bytes: &[u8]) -> (Option<BTreeMap<String, Place>>, Duration) {
    let file = file(bytes);
    let start = Instant::now();
    let found = functions(file, &BTreeSet::from([FUNCTION]));
    (found, start.elapsed())
}

#[test]
fn a_driver_is_found_by_its_name_and_its_functions_by_theirs() {
    let place = Place {
        start: 0x10,
        probe: 0x10,
    };
    let (found, _) = timed(&elf::driver(3, 5, 0));
    assert_eq!(found, Some(BTreeMap::from([(FUNCTION.to_owned(), place)])));
    let (found, _) = timed(&elf::driver(3, 5, 10));
    assert_eq!(found, Some(BTreeMap::new()), "none of the wanted names");
}

#[test]
fn a_file_made_to_take_long_does_not() {
    // Each of 65,536 symbols was looked for in 65,534 headers.
    let (found, took) = timed(&elf::driver(0xfffe, 1 << 16, 0));
    assert!(found.is_none() && took < SOON, "{took:?}");
    let (found, took) = timed(&elf::driver(128, 1 << 16, 0));
    assert!(found.is_some() && took < SOON, "{took:?}");
    // Names that do not end.
    let (found, took) = timed(&elf::driver(128, 1 << 16, 1 << 20));
    assert!(found.is_some() && took < SOON, "{took:?}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends_nothing() {
    let whole = elf::driver(3, 1000, 1 << 16);
    let path = tempfile::NamedTempFile::new().unwrap();
    fs::write(&path, &whole).unwrap();
    let shrinking = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let shrinker = std::thread::spawn(move || {
        use std::os::unix::fs::FileExt as _;
        while is_done.try_recv().is_err() {
            for end in (0..whole.len()).step_by(4096) {
                shrinking.set_len(end as u64).unwrap();
            }
            shrinking.write_all_at(&whole, 0).unwrap();
        }
    });
    let mut broken = 0;
    for _ in 0..2000 {
        let file = File::open(&path).unwrap();
        broken += u32::from(functions(file, &BTreeSet::from([FUNCTION])).is_none());
    }
    done.send(()).unwrap();
    shrinker.join().unwrap();
    assert!(broken > 0, "it was never short");
}

/// A folder with files of a user: four that took minutes each, `many` small ones.
fn hostile(machine: &Machine, many: u32) -> std::path::PathBuf {
    let folder = machine.path("hostile");
    fs::create_dir(&folder).unwrap();
    for number in 0..4 {
        let path = folder.join(format!("libcuda.so.{number}"));
        fs::write(path, elf::driver(0xfffe, 1 << 16, 0)).unwrap();
    }
    for number in 0..many {
        fs::write(folder.join(format!("cuda-{number}")), "no driver").unwrap();
    }
    folder
}

#[test]
fn a_stranger_with_many_files_holds_nobody_up() {
    if !possible() {
        return;
    }
    let machine = Machine::new(MachineOptions {
        probes: true,
        ..MachineOptions::default()
    })
    .unwrap();
    let daemon = machine.daemon().unwrap();
    assert_eq!(machine.probes_state(BOUND).unwrap(), "on");
    let folder = hostile(&machine, 20_000);
    let mut mapper = machine.command(env!("CARGO_BIN_EXE_mapper"));
    mapper.arg(&folder).arg(STRANGER.to_string());
    let mut mapper = Program::start(mapper).unwrap();
    mapper.wait_for_line("mapped 20004", BOUND).unwrap();
    // Time for the first looks, which found all these files.
    std::thread::sleep(Duration::from_secs(1));
    // A copy of the driver, to be found among all mappings.
    let copy = machine.path("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(
        machine.driver_dir().join("libcuda.so.1"),
        copy.join("libcuda.so.1"),
    )
    .unwrap();
    let mut command = machine.command(env!("CARGO_BIN_EXE_allocator"));
    command.env("LD_LIBRARY_PATH", &copy).args(["1", "3", "7"]);
    let start = Instant::now();
    let mut honest = Program::start(command).unwrap();
    honest.wait_for_line("held", BOUND).unwrap();
    let attached = format!("path={}", copy.join("libcuda.so.1").display());
    wait_until("the copy is probed", Duration::from_secs(10), || {
        daemon
            .stderr()
            .lines()
            .any(|line| line.ends_with(&attached))
    })
    .unwrap();
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    mapper.kill().unwrap();
}

/// It took seconds to remove what one process had left in the maps, and nobody was counted meanwhile.
#[test]
fn what_a_stranger_leaves_behind_holds_nobody_up() {
    if !possible() {
        return;
    }
    let machine = machine();
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let samples = Arc::clone(&delivered);
    let _prober = spawn(move |sample| {
        samples.lock().unwrap().push((Instant::now(), sample));
        true
    })
    .unwrap();
    let flood = |objects: u32, user: u32| {
        let mut command = machine.command(env!("CARGO_BIN_EXE_allocator"));
        command.args(["flood", &objects.to_string(), &user.to_string()]);
        let mut program = Program::start(command).unwrap();
        program.wait_for_line("held", BOUND).unwrap();
        program
    };
    // The driver is found in its first process. There is something to tell of as long as one lives that is counted.
    let mut honest = Vec::new();
    let is_counted = |program: &Program| {
        let samples = delivered.lock().unwrap();
        let last = samples.last().map(|(_, sample)| &sample.processes);
        let pids = last.into_iter().flatten().map(|process| process.pid);
        pids.into_iter().any(|pid| pid == program.pid())
    };
    wait_until("an honest program is counted", BOUND, || {
        honest.push(flood(1, STRANGER + 1));
        std::thread::sleep(Duration::from_millis(300));
        honest.iter().any(is_counted)
    })
    .unwrap();
    let stranger = flood(LEFT, STRANGER);
    wait_until("the stranger is counted", BOUND, || is_counted(&stranger)).unwrap();
    let ended = Instant::now();
    drop(stranger);
    std::thread::sleep(Duration::from_secs(4));
    let samples = delivered.lock().unwrap();
    let times = samples.iter().map(|(at, _)| *at);
    let after: Vec<_> = times.filter(|at| *at >= ended).collect();
    let gaps = after.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.max().expect("the probes go on");
    assert!(
        longest < Duration::from_secs(1),
        "for {longest:?} nothing was told of anybody"
    );
}
