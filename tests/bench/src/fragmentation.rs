//! Table II: what the chunks of a task hold beside its objects. The lists have the paper's counts
//! and sums; the real agent lays them out, over a driver that does nothing.

use std::fmt::Write as _;
use std::os::fd::OwnedFd;

use anyhow::{Result, ensure};
use rtswap_e2e::{Program, Puppet};
use rtswap_eval::figures::fragmentation::Catalogue;
use rtswap_eval::figures::workload::{Model, Reading, Resolution};
use rtswap_policy::units::Bytes;

use crate::calls::Stub;
use crate::draw::Draw;
use crate::report::{Bound, Report, Table, number};

const SEED: u64 = 1;
/// δ of the table: the paper's best, and the smallest.
const CHUNKS_MIB: [u64; 2] = [2, 64];
/// The memory objects of a model in Table II; the last two columns are published, in GB.
const MODELS: [(Model, &str, f64); 4] = [
    (Model::ResNet, "ResNet", 3.5),
    (Model::DenseNet, "DenseNet", 4.0),
    (Model::ResNext, "ResNext", 4.2),
    (Model::YoloV3, "YOLOv3", 3.5),
];
/// Of every CUDA allocation.
const ALIGNMENT: Bytes = Bytes(512);
/// Frees and allocations of random objects after the list.
const EXCHANGES: usize = 20_000;
/// How often the memory is looked at meanwhile.
const LOOKS: usize = 50;
/// With so many objects alive of the list's, so that there is room to move in.
const ALIVE: f64 = 0.75;

/// A task that allocates by a list.
struct Listed {
    program: Program,
    puppet: Puppet,
    script: String,
    /// Bytes of each allocation, 0 once it was freed.
    sizes: Vec<u64>,
    alive: Vec<usize>,
}

impl Listed {
    fn start(stub: &Stub, listener: &OwnedFd, chunk: u64) -> Result<Self> {
        let (program, puppet) = stub.managed(listener, "list", chunk)?;
        Ok(Self {
            program,
            puppet,
            script: String::new(),
            sizes: Vec::new(),
            alive: Vec::new(),
        })
    }

    fn alloc(&mut self, bytes: u64) {
        self.alive.push(self.sizes.len());
        self.sizes.push(bytes);
        let _ = writeln!(self.script, "a {bytes}");
    }

    /// Frees some object, and returns its size.
    fn free_one(&mut self, rng: &mut Draw) -> u64 {
        let place = rng.below(self.alive.len());
        let index = self.alive.swap_remove(place);
        let _ = writeln!(self.script, "f {index}");
        std::mem::take(&mut self.sizes[index])
    }

    /// Bytes asked for, and bytes of chunks, now.
    fn held(&mut self) -> Result<(u64, u64)> {
        self.script += "?\n";
        let done = format!("done {}\n", self.sizes.len());
        // Before it is asked: it may answer before this thread runs again.
        let seen = self.program.stdout().matches(&done).count();
        self.program.say(&std::mem::take(&mut self.script))?;
        let until = std::time::Instant::now() + crate::stage::BOUND;
        while self.program.stdout().matches(&done).count() == seen {
            ensure!(
                self.program.is_running() && std::time::Instant::now() < until,
                "no answer: {}",
                self.program.stderr()
            );
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let arena = self.puppet.block().agent.usage().arena_bytes;
        Ok((self.sizes.iter().sum(), arena))
    }
}

/// What a list of Table II takes.
pub(crate) struct Taken {
    /// Asked for.
    asked: u64,
    /// The same with each object aligned as any CUDA allocation.
    aligned: u64,
    /// With an allocation per object.
    per_object: u64,
    /// By chunk size.
    chunks: [u64; 2],
    /// The largest share of the chunks that held nothing while objects came and went, by chunk size.
    lost: [f64; 2],
}

/// One model's.
fn take(stub: &Stub, listener: &OwnedFd, model: Model) -> Result<Taken> {
    let catalogue = Catalogue::draw(&Reading::default(), SEED);
    let objects = catalogue.objects(model, Resolution::Middle);
    let mut taken = Taken {
        asked: objects.payload().0,
        aligned: objects.packed(ALIGNMENT).0,
        per_object: objects.per_object().0,
        chunks: [0; 2],
        lost: [0.0; 2],
    };
    for (at, mib) in CHUNKS_MIB.into_iter().enumerate() {
        let mut rng = Draw(SEED);
        let mut task = Listed::start(stub, listener, mib << 20)?;
        for Bytes(size) in shuffled(objects.sizes(), &mut rng) {
            task.alloc(size);
        }
        let (asked, chunks) = task.held()?;
        ensure!(asked == taken.asked, "{asked} bytes asked for");
        taken.chunks[at] = chunks;
        let mut waiting = Vec::new();
        let rest = (task.alive.len() as f64 * (1.0 - ALIVE)) as usize;
        for _ in 0..rest {
            waiting.push(task.free_one(&mut rng));
        }
        for look in 0..EXCHANGES {
            let next = rng.below(waiting.len());
            task.alloc(waiting.swap_remove(next));
            waiting.push(task.free_one(&mut rng));
            if look % (EXCHANGES / LOOKS) == 0 {
                let (asked, chunks) = task.held()?;
                let lost = 1.0 - asked as f64 / chunks as f64;
                taken.lost[at] = taken.lost[at].max(lost);
            }
        }
        drop(task);
    }
    Ok(taken)
}

/// In the order of a program, of which nothing is published.
fn shuffled(sizes: &[Bytes], rng: &mut Draw) -> Vec<Bytes> {
    let mut sizes = sizes.to_vec();
    for last in (1..sizes.len()).rev() {
        sizes.swap(last, rng.below(last + 1));
    }
    sizes
}

/// Table II.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let stub = Stub::new()?;
    let listener = stub.listen()?;
    let gib = |bytes: u64| number(bytes as f64 / f64::from(1 << 30));
    let mib = |bytes: u64| number(bytes as f64 / f64::from(1 << 20));
    let mut table = Table::new(
        "Table II: memory of one model at 416 (lists drawn with its counts and sums)",
        &[
            "model",
            "asked GiB",
            "MO-VMM GiB",
            "published GB",
            "for alignment MiB",
            "beside at 2 MiB, MiB",
            "at 64 MiB",
            "lost with frees at 2 MiB",
            "at 64 MiB",
        ],
    );
    let (mut worst, mut lost) = (0.0_f64, [0.0_f64; 2]);
    for (model, name, published) in MODELS {
        let taken = take(&stub, &listener, model)?;
        let waste = taken.chunks.map(|chunks| chunks - taken.aligned);
        for (waste, chunk) in waste.iter().zip(CHUNKS_MIB) {
            worst = worst.max(*waste as f64 / (chunk << 20) as f64);
        }
        for (lost, now) in lost.iter_mut().zip(taken.lost) {
            *lost = lost.max(now);
        }
        table.rows.push(vec![
            name.into(),
            gib(taken.asked),
            gib(taken.per_object),
            number(published),
            mib(taken.aligned - taken.asked),
            mib(waste[0]),
            mib(waste[1]),
            format!("{:.1} %", taken.lost[0] * 100.0),
            format!("{:.1} %", taken.lost[1] * 100.0),
        ]);
    }
    report
        .measured(
            "Table II, most bytes beside a task's aligned objects",
            worst,
            "chunks",
        )
        .bound(Bound::most(1.0, 0.0).robust());
    for (mib, lost) in CHUNKS_MIB.into_iter().zip(lost) {
        let name = format!("lost with random frees, chunks of {mib} MiB");
        report
            .measured(&name, lost * 100.0, "%")
            .bound(Bound::most(40.0, 0.0).robust());
    }
    report.tables.push(table);
    Ok(())
}
