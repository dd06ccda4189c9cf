//! Every way to memory is counted once, and given back once.

mod common;

use common::{machine, possible};
use rtswap_e2e::{Machine, Program};
use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{
    Allocation, Bytes, End, Handed, Kind, Lost, Mapping, NO_DEVICE, Object, Physical,
};
use rtswap_probes_test::prologues::PROLOGUES;
use rtswap_probes_test::{Options, Probes};

const MIB: i64 = 1 << 20;
const CHUNK: i64 = 2 * MIB;

/// A program that does as it is told, and the probes that watch it.
struct Stage {
    probes: Probes,
    program: Program,
    steps: usize,
    // Last: the program's driver is in it.
    machine: Machine,
}

impl Stage {
    fn new(options: Options) -> Self {
        Self::on(machine(), options)
    }

    fn on(machine: Machine, options: Options) -> Self {
        let mut probes = Probes::load(options).unwrap();
        probes
            .attach(&machine.driver_dir().join("libcuda.so.1"))
            .unwrap();
        let program = start(&machine);
        Self {
            probes,
            program,
            steps: 0,
            machine,
        }
    }

    /// With a context on GPU 0, which is its `%2`.
    fn with_context(options: Options) -> Self {
        let mut stage = Self::new(options);
        stage.make_context();
        stage
    }

    fn make_context(&mut self) {
        self.ok("cuInit 0");
        self.ok("cuCtxCreate_v2 out 0 0");
    }

    /// Does a step; the driver's result.
    fn step(&mut self, call: &str) -> u64 {
        self.steps += 1;
        let answer = format!("step {} ", self.steps);
        self.program.say(&format!("{call}\n")).unwrap();
        self.program.wait_for_line(&answer, common::BOUND).unwrap();
        let text = self.program.stdout();
        let line = text.lines().find(|line| line.starts_with(&answer)).unwrap();
        line.split(' ').nth(2).unwrap().parse().unwrap()
    }

    /// A step that must succeed; its number, to name what it gave.
    fn ok(&mut self, call: &str) -> usize {
        assert_eq!(self.step(call), 0, "{call}");
        self.steps
    }

    /// What a step gave.
    fn given(&self, step: usize) -> u64 {
        let (text, answer) = (self.program.stdout(), format!("step {step} "));
        let line = text.lines().find(|line| line.starts_with(&answer)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    fn bytes(&self) -> Bytes {
        self.probes.bytes_of(self.program.pid()).unwrap()
    }

    /// How many objects of its a map has.
    fn entries<V: aya::Pod>(&self, map: &str) -> usize {
        let all = self.probes.all::<Object, V>(map).unwrap();
        let ours = |object: &&Object| object.process == self.program.pid();
        all.keys().filter(ours).count()
    }

    #[track_caller]
    fn holds(&self, kind: Kind, bytes: i64) {
        let mut live = Bytes::ZERO;
        live.live[kind as usize] = bytes;
        assert_eq!(self.bytes(), live);
    }

    fn ends(mut self) -> Probes {
        let id = self.program.pid();
        let process = self.probes.processes().unwrap()[&id];
        assert_eq!((process.unseen_calls, process.unfreed_objects), (0, 0));
        assert_eq!(self.probes.lost().unwrap()[Lost::Unpaired as usize], 0);
        self.program.kill().unwrap();
        self.probes
    }
}

fn start(machine: &Machine) -> Program {
    let mut program = Program::start(machine.command(env!("CARGO_BIN_EXE_stepper"))).unwrap();
    program.wait_for_line("ready", common::BOUND).unwrap();
    program
}

#[test]
fn each_kind_is_counted_and_given_back() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    each_kind(&mut stage);
    stage.ends();
}

#[test]
fn each_kind_is_counted_however_functions_begin() {
    if !possible() {
        return;
    }
    for &prologue in PROLOGUES {
        println!("{}", prologue.name);
        let machine = common::beginning(prologue);
        let library = machine.driver_dir().join("libcuda.so.1");
        for (on, place) in rtswap_probes_test::places(&library, FUNCTIONS).unwrap() {
            let behind = place.probe - place.start;
            assert_eq!(behind, prologue.offset, "{}: {}", prologue.name, on.symbol);
        }
        let mut stage = Stage::on(machine, Options::default());
        stage.make_context();
        each_kind(&mut stage);
        stage.ends();
    }
}

#[test]
fn each_kind_is_counted_by_perf_events() {
    if !possible() {
        return;
    }
    let nvidias = PROLOGUES.iter().find(|prologue| prologue.offset == 10);
    let machine = common::beginning(*nvidias.unwrap());
    let options = Options {
        events: true,
        ..Options::default()
    };
    let mut stage = Stage::on(machine, options);
    stage.make_context();
    each_kind(&mut stage);
    stage.ends();
}

fn each_kind(stage: &mut Stage) {
    for (alloc, free, kind, bytes) in [
        ("cuMemAlloc_v2 out 1000", "cuMemFree_v2", Kind::Plain, 1000),
        (
            "cuMemAllocManaged out 5000 1",
            "cuMemFree_v2",
            Kind::Managed,
            5000,
        ),
        (
            "cuMemAllocAsync out 7000 0",
            "cuMemFreeAsync",
            Kind::Ordered,
            7000,
        ),
        (
            "cuMemAllocAsync_ptsz out 7001 0",
            "cuMemFreeAsync_ptsz",
            Kind::Ordered,
            7001,
        ),
        (
            "cuMemCreate out 4194304 properties 0",
            "cuMemRelease",
            Kind::Physical,
            2 * CHUNK,
        ),
        // 256 × 256 texels of four floats.
        (
            "cuArray3DCreate_v2 out shape",
            "cuArrayDestroy",
            Kind::Array,
            MIB,
        ),
    ] {
        let made = stage.ok(alloc);
        stage.holds(kind, bytes);
        let made_again = stage.ok(alloc);
        stage.holds(kind, 2 * bytes);
        stage.ok(&format!("{free} %{made} 0"));
        stage.holds(kind, bytes);
        stage.ok(&format!("{free} %{made_again} 0"));
        stage.holds(kind, 0);
    }
    let accounts = stage.probes.bytes().unwrap();
    assert!(
        accounts.keys().all(|account| account.device == 0),
        "{accounts:?}"
    );
    let id = stage.program.pid();
    let mut news = stage.probes.news().unwrap();
    news.retain(|news| news.process == id);
    assert_eq!(news.len(), 24);
    let mut live = 0;
    for news in news {
        live += news.bytes;
        assert_eq!((news.live, news.thread), (live, id), "{news:?}");
    }
}

#[test]
fn the_first_forms_of_functions_are_counted_as_the_later_ones() {
    if !possible() {
        return;
    }
    let mut stage = Stage::new(Options::default());
    let library = stage.machine.driver_dir().join("libcuda.so.1");
    let places = rtswap_probes_test::places(&library, FUNCTIONS).unwrap();
    assert!(places.iter().any(|(on, _)| on.symbol == "cuMemAlloc"));
    stage.ok("cuInit 0");
    stage.ok("cuCtxCreate out 0 0");
    // Addresses and sizes are of 32 bits; what the upper half of a register holds is nobody's.
    let garbage = 7_u64 << 32;
    for (alloc, free, kind, bytes) in [
        (
            format!("cuMemAlloc out {}", garbage + 1000),
            "cuMemFree",
            Kind::Plain,
            1000,
        ),
        // 256 × 256 texels of four floats.
        (
            "cuArrayCreate out first_flat".into(),
            "cuArrayDestroy",
            Kind::Array,
            MIB,
        ),
        (
            "cuArray3DCreate out first_shape".into(),
            "cuArrayDestroy",
            Kind::Array,
            MIB,
        ),
    ] {
        let made = stage.ok(&alloc);
        stage.holds(kind, bytes);
        stage.ok(&format!("{free} %{made}"));
        stage.holds(kind, 0);
    }
    let made = stage.ok("cuMemAllocPitch out out2 1000 64 4");
    let bytes = stage.bytes().live[Kind::Plain as usize];
    assert!(
        (64_000..64 * 4096).contains(&bytes) && bytes % 64 == 0,
        "{bytes}"
    );
    let freed = stage.given(made) + garbage;
    stage.ok(&format!("cuMemFree {freed}"));
    stage.holds(Kind::Plain, 0);
    // Contexts end what is in them.
    stage.ok("cuMemAlloc_v2 out 1000");
    stage.ok("cuCtxDestroy %2");
    stage.holds(Kind::Plain, 0);
    for ending in ["cuDevicePrimaryCtxRelease 0", "cuDevicePrimaryCtxReset 0"] {
        let primary = stage.ok("cuDevicePrimaryCtxRetain out 0");
        stage.ok(&format!("cuCtxPushCurrent %{primary}"));
        stage.ok("cuMemAlloc_v2 out 4000");
        stage.holds(Kind::Plain, 4000);
        stage.ok("cuCtxPopCurrent out");
        stage.ok(ending);
        stage.holds(Kind::Plain, 0);
    }
    stage.ends();
}

#[test]
fn a_pitched_allocation_counts_its_rows_once() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    // The driver rounds rows of 1000 bytes up; the pitch it chose is what counts.
    let made = stage.ok("cuMemAllocPitch_v2 out out2 1000 64 4");
    let bytes = stage.bytes().live[Kind::Plain as usize];
    assert!(
        bytes >= 64 * 1000 && bytes % 64 == 0 && bytes < 64 * 4096,
        "{bytes}"
    );
    stage.ok(&format!("cuMemFree_v2 %{made}"));
    stage.holds(Kind::Plain, 0);
    stage.ends();
}

#[test]
fn refusals_change_nothing() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    let made = stage.ok("cuMemAlloc_v2 out 1000");
    assert_ne!(stage.step("cuMemAlloc_v2 out 99999999999"), 0);
    assert_ne!(stage.step("cuMemCreate out 1 properties 0"), 0);
    // Not the beginning of an object.
    assert_ne!(stage.step("cuMemFree_v2 12345"), 0);
    stage.holds(Kind::Plain, 1000);
    stage.ok(&format!("cuMemFree_v2 %{made}"));
    assert_ne!(stage.step(&format!("cuMemFree_v2 %{made}")), 0);
    stage.ok("cuMemFree_v2 0");
    stage.holds(Kind::Plain, 0);
    let process = stage.probes.processes().unwrap()[&stage.program.pid()];
    assert_eq!((process.failures, process.unknown_frees), (4, 0));
    stage.ends();
}

#[test]
fn physical_memory_lives_while_it_is_held_or_mapped() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    let at = stage.ok("cuMemAddressReserve out 8388608 0 0 0");
    let first = stage.ok("cuMemCreate out 2097152 properties 0");
    let second = stage.ok("cuMemCreate out 2097152 properties 0");
    stage.ok(&format!("cuMemMap %{at} 2097152 0 %{first} 0"));
    stage.ok(&format!("cuMemRelease %{first}"));
    stage.holds(Kind::Physical, 2 * CHUNK);
    // The other one at two addresses.
    let next = stage.given(at).cast_signed() + CHUNK;
    stage.ok(&format!("cuMemMap {next} 2097152 0 %{second} 0"));
    stage.ok(&format!("cuMemMap {} 2097152 0 %{second} 0", next + CHUNK));
    stage.ok(&format!("cuMemRelease %{second}"));
    stage.holds(Kind::Physical, 2 * CHUNK);
    // One call over the first mapping and the second.
    stage.ok(&format!("cuMemUnmap %{at} 4194304"));
    stage.holds(Kind::Physical, CHUNK);
    stage.ok(&format!("cuMemUnmap {} 2097152", next + CHUNK));
    stage.holds(Kind::Physical, 0);
    assert_eq!(stage.entries::<Physical>(maps::PHYSICAL), 0);
    assert_eq!(stage.entries::<Mapping>(maps::MAPPINGS), 0);
    stage.ends();
}

#[test]
fn what_lies_in_the_host_is_none_of_a_gpus() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    let own = stage.ok("cuMemPoolCreate out host_properties");
    let first = stage.ok(&format!("cuMemAllocFromPoolAsync out 3000 %{own} 0"));
    let default = stage.ok("cuMemGetDefaultMemPool out host_location 1");
    let second = stage.ok(&format!("cuMemAllocFromPoolAsync out 5000 %{default} 0"));
    stage.ok("cuMemCreate out 2097152 host_properties 0");
    stage.holds(Kind::Ordered, 0);
    let current = stage.ok("cuMemGetMemPool out location 1");
    let third = stage.ok(&format!("cuMemAllocFromPoolAsync out 7000 %{current} 0"));
    stage.holds(Kind::Ordered, 7000);
    for at in [first, second] {
        stage.ok(&format!("cuMemFreeAsync %{at} 0"));
    }
    stage.holds(Kind::Ordered, 7000);
    stage.ok(&format!("cuMemFreeAsync %{third} 0"));
    stage.holds(Kind::Ordered, 0);
    let process = stage.probes.processes().unwrap()[&stage.program.pid()];
    assert_eq!((process.unknown_frees, process.unseen_bytes), (0, 0));
    stage.ends();
}

#[test]
fn what_is_in_a_context_dies_with_it() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    stage.ok("cuMemAlloc_v2 out 1000");
    stage.ok("cuMemAllocManaged out 1000 1");
    let pooled = stage.ok("cuMemAllocAsync out 3000 0");
    stage.ok("cuMemFreeAsync %5 0");
    assert_eq!(pooled, 5);
    stage.ok("cuDevicePrimaryCtxRetain out 0");
    stage.ok("cuCtxDestroy_v2 %2");
    stage.holds(Kind::Plain, 0);
    // The primary context: retained twice, released twice.
    stage.ok("cuDevicePrimaryCtxRetain out 0");
    stage.ok("cuCtxSetCurrent %9");
    stage.ok("cuMemAlloc_v2 out 4000");
    stage.ok("cuDevicePrimaryCtxRelease_v2 0");
    stage.holds(Kind::Plain, 4000);
    stage.ok("cuDevicePrimaryCtxRelease_v2 0");
    stage.holds(Kind::Plain, 0);
    // And reset, whoever retains it.
    stage.ok("cuDevicePrimaryCtxRetain out 0");
    stage.ok("cuDevicePrimaryCtxRetain out 0");
    stage.ok("cuCtxSetCurrent %14");
    stage.ok("cuMemAlloc_v2 out 5000");
    stage.holds(Kind::Plain, 5000);
    stage.ok("cuDevicePrimaryCtxReset_v2 0");
    stage.holds(Kind::Plain, 0);
    stage.ends();
}

#[test]
fn what_was_there_before_is_not_taken_for_ours() {
    if !possible() {
        return;
    }
    let machine = machine();
    let program = start(&machine);
    let probes = Probes::load(Options::default()).unwrap();
    let mut stage = Stage {
        probes,
        program,
        steps: 0,
        machine,
    };
    stage.ok("cuInit 0");
    stage.ok("cuCtxCreate_v2 out 0 0");
    stage.ok("cuMemAlloc_v2 out 1000");
    let library = stage.machine.driver_dir().join("libcuda.so.1");
    stage.probes.attach(&library).unwrap();
    assert_eq!(stage.bytes(), Bytes::ZERO);
    stage.ok("cuMemAlloc_v2 out 2000");
    stage.ok("cuMemFree_v2 %3");
    stage.holds(Kind::Plain, 2000);
    let process = stage.probes.processes().unwrap()[&stage.program.pid()];
    assert_eq!(
        (process.calls, process.unknown_frees, process.device),
        (1, 1, NO_DEVICE)
    );
    // A context that is seen first when it is made current.
    stage.ok("cuCtxSetCurrent %2");
    stage.ok("cuMemAlloc_v2 out 4000");
    stage.holds(Kind::Plain, 6000);
    stage.ok("cuCtxDestroy_v2 %2");
    stage.holds(Kind::Plain, 2000);
    stage.ends();
}

#[test]
fn full_maps_are_told_in_bounds() {
    if !possible() {
        return;
    }
    let options = Options {
        sizes: &[(maps::ALLOCATIONS, 4)],
        ..Options::default()
    };
    let mut stage = Stage::with_context(options);
    let made: Vec<_> = (0..6).map(|_| stage.ok("cuMemAlloc_v2 out 1000")).collect();
    stage.holds(Kind::Plain, 6000);
    let process = |stage: &Stage| stage.probes.processes().unwrap()[&stage.program.pid()];
    let now = process(&stage);
    assert_eq!(
        (now.unfreed_objects, now.unfreed_bytes, now.unseen_bytes),
        (2, 2000, 0)
    );
    for made in made {
        stage.ok(&format!("cuMemFree_v2 %{made}"));
    }
    // Two frees were not recognised: 0 is what is held, and is between the bounds.
    stage.holds(Kind::Plain, 2000);
    let now = process(&stage);
    assert_eq!((now.unfreed_bytes, now.unknown_frees), (2000, 2));
    assert_eq!(
        stage
            .probes
            .entries::<Allocation>(maps::ALLOCATIONS)
            .unwrap(),
        0
    );

    let options = Options {
        sizes: &[(maps::BYTES, 1)],
        ..Options::default()
    };
    let mut stage = Stage::with_context(options);
    stage.ok("cuMemAlloc_v2 out 1000");
    // Another account: it dies with no context.
    stage.ok("cuMemAllocAsync out 3000 0");
    stage.holds(Kind::Plain, 1000);
    let now = process(&stage);
    assert_eq!((now.unseen_calls, now.unseen_bytes), (1, 3000));
}

#[test]
fn an_exec_and_an_exit_end_what_was_held() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    stage.ok("cuMemAlloc_v2 out 1000");
    let id = stage.program.pid();
    let before = stage.probes.processes().unwrap()[&id].since;
    stage
        .program
        .say(&format!("exec {}\n", env!("CARGO_BIN_EXE_stepper")))
        .unwrap();
    let again = || stage.program.stdout().matches("ready").count() == 2;
    rtswap_e2e::wait_until("the program again", common::BOUND, again).unwrap();
    assert!(!stage.probes.processes().unwrap().contains_key(&id));
    // Other tests' processes end here too.
    let exits = stage.probes.exits().unwrap();
    let exit = exits.iter().find(|exit| exit.process == id).unwrap();
    assert_eq!((exit.since, exit.id_here), (before, id));
    assert_eq!(exit.end, End::Executed as u32);
    // Killed while it holds memory.
    stage.steps = 0;
    let mut stage = Stage {
        program: start(&stage.machine),
        ..stage
    };
    stage.ok("cuInit 0");
    stage.ok("cuCtxCreate_v2 out 0 0");
    stage.ok("cuMemAlloc_v2 out 2000");
    let id = stage.program.pid();
    stage.program.kill().unwrap();
    let exits = stage.probes.exits().unwrap();
    let exit = exits.iter().find(|exit| exit.process == id).unwrap();
    assert_eq!(exit.end, End::Exited as u32);
    assert_eq!(stage.bytes().total(), 2000);
}

#[test]
fn the_first_thread_may_exit_before_the_others() {
    if !possible() {
        return;
    }
    let mut stage = Stage::with_context(Options::default());
    stage.ok("cuMemAlloc_v2 out 1000");
    stage.program.say("thread_exits\n").unwrap();
    let id = stage.program.pid();
    // Another thread goes on, so the process does.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(stage.program.is_running());
    assert!(stage.probes.processes().unwrap().contains_key(&id));
    stage.holds(Kind::Plain, 1000);
    stage.program.kill().unwrap();
    assert!(!stage.probes.processes().unwrap().contains_key(&id));
}

#[test]
fn addresses_that_the_driver_hands_out_are_told() {
    if !possible() {
        return;
    }
    let mut stage = Stage::new(Options::default());
    stage.ok("cuInit 0");
    stage.ok("cuGetProcAddress_v2 'cuMemAlloc out 12080 0 0");
    stage.ok("cuGetProcAddress_v2 'cuLaunchKernel out 12080 0 0");
    let records = stage.probes.ring(maps::NEWS).unwrap();
    let handed: Vec<_> = records
        .iter()
        .filter_map(|bytes| Handed::read(bytes))
        .collect();
    let [handed] = handed[..] else {
        panic!("{handed:?}");
    };
    assert_eq!(
        (handed.process, handed.version),
        (stage.program.pid(), 12080)
    );
    assert!(handed.symbol.starts_with(b"cuMemAlloc\0"));
    assert_eq!(handed.address, stage.given(2));
    stage.ends();
}
