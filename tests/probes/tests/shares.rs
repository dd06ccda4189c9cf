//! One owner's processes fill its own share of the maps: what others hold stays exact.

#[expect(dead_code, reason = "other tests use the rest")]
mod common;

use common::{BOUND, machine, possible};
use rtswap_e2e::{Machine, Program, wait_until};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Lost, SHARES, Share};
use rtswap_probes_test::{Options, Probes};

/// Users of nobody.
const FLOODER: u32 = 4711;
const OTHER: u32 = 4712;

/// Entries that there are to share.
const ALLOCATIONS: u32 = 256;
const PROCESSES: u32 = 8;

const CALLS: u32 = 8;

const CAPACITIES: [u32; SHARES] = {
    let mut all = maps::CAPACITIES;
    all[Share::Allocations as usize] = ALLOCATIONS;
    all[Share::Processes as usize] = PROCESSES;
    all[Share::Calls as usize] = CALLS;
    all
};

/// Small maps, and the probes on the machine's driver.
fn probes(machine: &Machine) -> Probes {
    let mut probes = Probes::load(Options {
        sizes: &[
            (maps::ALLOCATIONS, ALLOCATIONS),
            (maps::PROCESSES, PROCESSES),
            (maps::IN_FLIGHT, CALLS),
        ],
        capacities: CAPACITIES,
        ..Options::default()
    })
    .unwrap();
    let driver = machine.driver_dir().join("libcuda.so.1");
    probes.attach(&driver).unwrap();
    probes
}

fn holder(machine: &Machine, objects: u32, user: u32) -> Program {
    let mut command = machine.command(env!("CARGO_BIN_EXE_allocator"));
    command.args(["flood", &objects.to_string(), &user.to_string()]);
    let mut program = Program::start(command).unwrap();
    program.wait_for_line("held", BOUND).unwrap();
    program
}

#[test]
fn a_flood_of_allocations_makes_only_its_own_owner_inexact() {
    if !possible() {
        return;
    }
    let machine = machine();
    let probes = probes(&machine);
    let flooder = holder(&machine, 10_000, FLOODER);
    let other = holder(&machine, 60, OTHER);
    let processes = probes.processes().unwrap();
    let flooder = processes[&flooder.pid()];
    assert_eq!(flooder.owner, FLOODER);
    assert_eq!(flooder.used[Share::Allocations as usize], ALLOCATIONS / 2);
    let beyond = u64::from(10_000 - ALLOCATIONS / 2);
    assert_eq!(flooder.unfreed_objects, beyond, "{flooder:?}");
    let exact = processes[&other.pid()];
    assert_eq!((exact.unfreed_objects, exact.unseen_calls), (0, 0));
    assert_eq!(exact.used[Share::Allocations as usize], 60);
    assert_eq!(probes.bytes_of(other.pid()).unwrap().total(), 60 * 512);
}

#[test]
fn a_flood_of_processes_leaves_room_for_others() {
    if !possible() {
        return;
    }
    let machine = machine();
    let probes = probes(&machine);
    let flood: Vec<_> = (0..PROCESSES)
        .map(|_| holder(&machine, 1, FLOODER))
        .collect();
    let other = holder(&machine, 1, OTHER);
    let processes = probes.processes().unwrap();
    let counted = flood.iter().filter(|it| processes.contains_key(&it.pid()));
    assert_eq!(counted.count(), PROCESSES as usize / 2);
    assert_eq!(processes[&other.pid()].owner, OTHER);
    assert_eq!(probes.bytes_of(other.pid()).unwrap().total(), 512);
    assert!(probes.lost().unwrap()[Lost::Calls as usize] > 0);
}

#[test]
fn a_flood_of_calls_in_flight_leaves_room_for_others() {
    if !possible() {
        return;
    }
    let machine = machine();
    let probes = probes(&machine);
    let start = |threads: u32, calls: u32, user: u32| {
        let mut command = machine.command(env!("CARGO_BIN_EXE_allocator"));
        command.args([threads, calls, 7, user].map(|number| number.to_string()));
        Program::start(command).unwrap()
    };
    let mut flooder = start(32, 2000, FLOODER);
    let mut other = start(1, 3000, OTHER);
    other.wait_for_line("held", BOUND).unwrap();
    flooder.wait_for_line("held", BOUND).unwrap();
    let processes = probes.processes().unwrap();
    let (flooder, other) = (processes[&flooder.pid()], processes[&other.pid()]);
    assert!(flooder.unseen_calls > 0, "{flooder:?}");
    assert_eq!(
        (other.unseen_calls, other.unfreed_objects),
        (0, 0),
        "{other:?}"
    );
    assert_eq!(other.used[Share::Calls as usize], 0, "{other:?}");
}

#[test]
fn what_ended_processes_had_is_their_owners_again() {
    if !possible() {
        return;
    }
    let machine = machine();
    let mut probes = probes(&machine);
    let mut shares = probes.shares().unwrap();
    for round in 0..3 {
        let flood: Vec<_> = (0..PROCESSES / 2)
            .map(|_| holder(&machine, 1, FLOODER))
            .collect();
        let processes = probes.processes().unwrap();
        let is_counted = |it: &Program| processes.contains_key(&it.pid());
        assert!(flood.iter().all(is_counted), "round {round}");
        let late = holder(&machine, 1, FLOODER);
        assert!(!probes.processes().unwrap().contains_key(&late.pid()));
        drop((flood, late));
        wait_until("they have ended", BOUND, || {
            probes.processes().is_ok_and(|living| living.is_empty())
        })
        .unwrap();
        let after = holder(&machine, 1, FLOODER);
        assert!(!probes.processes().unwrap().contains_key(&after.pid()));
        drop(after);
        let living = probes.processes().unwrap();
        shares.settle(living.values()).unwrap();
    }
}
