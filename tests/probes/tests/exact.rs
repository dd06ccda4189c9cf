//! Bytes in the probes' counters equal the driver's own, to the byte.

mod common;

use std::sync::atomic::Ordering::Relaxed;

use common::{BOUND, machine, possible};
use rtswap_e2e::{Machine, Program, wait_until};
use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Allocation, End, Lost};
use rtswap_probes_test::prologues::PROLOGUES;
use rtswap_probes_test::{Options, Probes};
use simgpu_core::Observer;

fn allocator(machine: &Machine, threads: u32, calls: u32, seed: u32) -> Program {
    let mut command = machine.command(env!("CARGO_BIN_EXE_allocator"));
    command.args([threads, calls, seed].map(|number| number.to_string()));
    Program::start(command).unwrap()
}

/// The numbers of the line that begins so.
fn numbers(program: &Program, word: &str) -> Vec<i64> {
    let text = program.stdout();
    let line = text.lines().find(|line| line.starts_with(word)).unwrap();
    line.split(' ')
        .skip(1)
        .map(|number| number.parse().unwrap())
        .collect()
}

/// What the simulated driver itself counts of a process.
fn counted(machine: &Machine, id: u32) -> i64 {
    let observer = Observer::open(&machine.simgpu_dir()).unwrap();
    let processes = observer.processes();
    let process = processes.iter().find(|process| process.pid == id).unwrap();
    process.gpus[0].memory_bytes.load(Relaxed).cast_signed()
}

fn check(machine: &Machine, probes: &mut Probes, programs: Vec<Program>) {
    let mut ids = Vec::new();
    for mut program in programs {
        program.wait_for_line("held", BOUND).unwrap();
        let id = program.pid();
        ids.push(id);
        let [asked, granules] = numbers(&program, "held")[..] else {
            panic!("{}", program.stdout());
        };
        let bytes = probes.bytes_of(id).unwrap();
        assert_eq!(
            bytes.live,
            [asked, 0, 0, 0, 0, 0, 0, 0],
            "process {id}, working"
        );
        assert_eq!(counted(machine, id), granules, "process {id}, its driver");
        let process = probes.processes().unwrap()[&id];
        assert_eq!(process.device, 0);
        assert_eq!(
            (
                process.unseen_calls,
                process.unfreed_objects,
                process.unknown_frees
            ),
            (0, 0, 0)
        );
        program.say("free\n").unwrap();
        program.wait_for_line("rest", BOUND).unwrap();
        let rest = numbers(&program, "rest")[0];
        assert_eq!(
            probes.bytes_of(id).unwrap().total(),
            rest,
            "process {id}, half freed"
        );
        program.say("end\n").unwrap();
        program.finish(BOUND).unwrap();
        assert_eq!(
            probes.bytes_of(id).unwrap().total(),
            rest,
            "process {id}, ended"
        );
        assert!(!probes.processes().unwrap().contains_key(&id));
    }
    let mut exits = Vec::new();
    wait_until("the exits", BOUND, || {
        exits.extend(probes.exits().unwrap());
        ids.iter()
            .all(|id| exits.iter().any(|exit| exit.process == *id))
    })
    .unwrap();
    exits.retain(|exit| ids.contains(&exit.process));
    assert!(exits.iter().all(|exit| exit.end == End::Exited as u32));
}

#[test]
fn four_processes_of_sixteen_threads() {
    if !possible() {
        return;
    }
    let machine = machine();
    let start = std::time::Instant::now();
    let mut probes = Probes::load(Options::default()).unwrap();
    println!("loaded after {:?}", start.elapsed());
    let attached = probes
        .attach(&machine.driver_dir().join("libcuda.so.1"))
        .unwrap();
    println!(
        "attached to {attached} functions after {:?}",
        start.elapsed()
    );
    assert!(attached > 30, "{attached} functions");
    let start = std::time::Instant::now();
    let programs = (0..4)
        .map(|number| allocator(&machine, 16, 10_000, 100 * number))
        .collect();
    check(&machine, &mut probes, programs);
    println!("{:?}, lost {:?}", start.elapsed(), probes.lost().unwrap());
    let left = probes.entries::<Allocation>(maps::ALLOCATIONS).unwrap();
    assert!(left > 0);
    let start = std::time::Instant::now();
    drop(probes);
    println!("detached after {:?}", start.elapsed());
}

#[test]
fn however_functions_begin_the_bytes_are_the_drivers() {
    if !possible() {
        return;
    }
    for &prologue in PROLOGUES {
        println!("{}", prologue.name);
        let machine = common::beginning(prologue);
        let mut probes = Probes::load(Options::default()).unwrap();
        probes
            .attach(&machine.driver_dir().join("libcuda.so.1"))
            .unwrap();
        let programs = vec![allocator(&machine, 4, 500, 7)];
        check(&machine, &mut probes, programs);
        assert_eq!(probes.lost().unwrap()[Lost::Unpaired as usize], 0);
    }
}

#[test]
fn probes_beside_others_at_the_functions_starts_count_the_same() {
    if !possible() {
        return;
    }
    let nvidias = PROLOGUES.iter().find(|prologue| prologue.offset == 10);
    let machine = common::beginning(*nvidias.unwrap());
    let library = machine.driver_dir().join("libcuda.so.1");
    let [mut probes, mut others] = [(); 2].map(|()| Probes::load(Options::default()).unwrap());
    others
        .attach_to(&library, FUNCTIONS, |place| place.start)
        .unwrap();
    probes.attach(&library).unwrap();
    let program = allocator(&machine, 4, 500, 7);
    let id = program.pid();
    check(&machine, &mut probes, vec![program]);
    let counted = probes.bytes_of(id).unwrap();
    assert!(counted.total() > 0);
    assert_eq!(others.bytes_of(id).unwrap(), counted);
    for probes in [probes, others] {
        assert_eq!(probes.lost().unwrap()[Lost::Unpaired as usize], 0);
    }
}

#[test]
fn calls_that_cannot_be_followed_are_within_the_bounds() {
    if !possible() {
        return;
    }
    let machine = machine();
    let mut probes = Probes::load(Options {
        // Room for fewer calls than are in flight.
        sizes: &[(maps::IN_FLIGHT, 1)],
        ..Options::default()
    })
    .unwrap();
    probes
        .attach(&machine.driver_dir().join("libcuda.so.1"))
        .unwrap();
    let mut program = allocator(&machine, 16, 500, 7);
    program.wait_for_line("held", BOUND).unwrap();
    let asked = numbers(&program, "held")[0];
    let sure = probes.bytes_of(program.pid()).unwrap().total();
    let process = probes.processes().unwrap()[&program.pid()];
    println!("held {asked}, counted {sure}, {process:?}");
    assert!(process.unseen_calls > 0 && process.unfreed_objects > 0);
    assert!(sure - process.unfreed_bytes.cast_signed() <= asked);
    assert!(asked <= sure + process.unseen_bytes.cast_signed());
}

#[test]
fn no_program_is_near_the_verifiers_limit() {
    if !possible() {
        return;
    }
    let mut probes = Probes::load(Options::default()).unwrap();
    let verified = probes.verified().unwrap();
    println!("{verified:?}");
    // Older kernels follow more paths than newer ones.
    assert!(
        verified.values().all(|&count| count < 100_000),
        "{verified:?}"
    );
}
