//! Which chunks need not be copied out, because their slots hold their bytes already: known by what
//! the program says that its kernels do not write (see `hints`), or, with `RTSWAP_CLEAN=fingerprint`,
//! by a fingerprint of each, computed on the GPU when a job's work is done. What is not known is dirty.
//!
//! A fingerprint has two sums of 64 bits over the words of a chunk, each word mixed with its place
//! and a key of this process: two different contents agree in it with a chance of 2⁻¹²⁸.

use std::ffi::CStr;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::chunk::{ChunkId, Piece, Place};
use super::{AllocError, Memory};
use crate::cuda::{Access, Context, Function, Status};
use crate::log::{debug, say};
use crate::work::in_context;

/// The kernel, for every GPU that the driver knows.
const IMAGE: &CStr =
    match CStr::from_bytes_with_nul(concat!(include_str!("fingerprint.ptx"), "\0").as_bytes()) {
        Ok(image) => image,
        Err(_) => panic!("one zero, at the end"),
    };
const NAME: &CStr = c"fingerprint";
/// Threads of a block, and blocks: the result does not depend on either.
const SHAPE: (u32, u32) = (256, 256);
/// Fingerprints computed at once.
const BATCH: usize = 2048;
/// Bytes of one.
const PRINT: u64 = 16;

/// How chunks that did not change are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Not at all.
    Off,
    /// By what the program says that its kernels do not write.
    #[default]
    Hint,
    /// By what is computed from their bytes at the end of each job.
    Fingerprint,
}

impl Policy {
    /// From RTSWAP_CLEAN. A value that is not known is said, and counts for nothing.
    pub fn from_env() -> Self {
        let value = std::env::var_os("RTSWAP_CLEAN").unwrap_or_default();
        match value.to_str() {
            Some("off") => Self::Off,
            Some("" | "hint") => Self::Hint,
            Some("fingerprint") => Self::Fingerprint,
            _ => {
                let value = value.display();
                say(format_args!(
                    "RTSWAP_CLEAN={value} means nothing: off, hint or fingerprint does"
                ));
                Self::default()
            }
        }
    }
}

/// A fingerprint.
type Print = [u64; 2];

/// What is known of a chunk's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// Those on the GPU, and the work since which they cannot have changed.
    here: Option<(u64, Print)>,
    /// Those in its slot.
    slot: Option<Print>,
}

/// What a task knows of its chunks on one GPU.
#[derive(Debug)]
pub(super) struct Clean {
    policy: Policy,
    keys: [u64; 2],
    /// Changes whenever work may begin.
    work: u64,
    /// Where the GPU puts fingerprints.
    out: Option<u64>,
    printer: Option<Printer>,
}

/// What lives in one of the program's contexts.
#[derive(Clone, Copy, Debug)]
struct Printer {
    context: Context,
    function: Function,
    /// Pinned: [`BATCH`] zeros, and as much for results.
    host: usize,
}

impl Clean {
    pub(super) fn new() -> Self {
        let random = || RandomState::new().build_hasher().finish();
        Self {
            policy: Policy::Off,
            keys: [random(), random()],
            work: 0,
            out: None,
            printer: None,
        }
    }

    /// A context ends, and what of ours lives in it.
    pub(super) fn end_context(&mut self, context: Context) {
        self.printer = self.printer.filter(|printer| printer.context != context);
    }
}

impl Memory {
    /// How chunks that did not change are to be known from now on.
    pub fn set_clean(&mut self, policy: Policy) {
        self.clean.policy = policy;
    }

    /// The program's kernels do not write `bytes` from `at` on until they are freed.
    pub fn hint_read_only(&mut self, at: u64, bytes: u64) {
        if self.clean.policy == Policy::Hint {
            self.hints.add(at, bytes);
        }
    }

    /// Work may begin: nothing is known of the bytes on the GPU any more.
    pub fn begin_work(&mut self) {
        self.clean.work += 1;
    }

    /// Whether [`Self::fingerprint`] is of use.
    pub fn fingerprints(&self) -> bool {
        self.clean.policy == Policy::Fingerprint
            && self.clean.out.is_some()
            && self.set.taken().next().is_some()
    }

    /// Computes the fingerprints of the resident chunks of the swap set in `context`. All work is
    /// done, and none begins. What fails leaves chunks of which nothing is known.
    pub fn fingerprint(&mut self, context: Context) {
        let driver = self.driver;
        let printed = in_context(driver, context, || {
            self.prepare_engine(context)?;
            let printer = self.prepare_printer(context)?;
            let resident = |id: &ChunkId| self.chunks[*id].place == Place::Resident;
            let ids: Vec<_> = self
                .set
                .taken()
                .map(|(_, id)| id)
                .filter(resident)
                .collect();
            ids.chunks(BATCH)
                .try_for_each(|ids| self.print(printer, ids))
        });
        if let Err(status) = printed {
            debug(format_args!("no fingerprints: {status:?}"));
        }
    }

    fn print(&mut self, printer: Printer, ids: &[ChunkId]) -> Result<(), Status> {
        let (driver, engine) = (self.driver, self.engine.ok_or(Status::UNKNOWN)?);
        let out = self.clean.out.ok_or(Status::OUT_OF_MEMORY)?;
        let bytes = ids.len() as u64 * PRINT;
        let results = printer.host + BATCH * PRINT as usize;
        // SAFETY: the zeros of the pinned buffer, which stay what they are.
        unsafe { driver.copy_in(out, printer.host, bytes, engine.stream) }?;
        let mut whole = Vec::with_capacity(ids.len());
        for (index, &id) in ids.iter().enumerate() {
            let chunk = &self.chunks[id];
            let reachable = |piece: &Piece| piece.reachable(self.device, Access::READ);
            let runs = chunk.copied(reachable);
            whole.push(runs.iter().map(|run| run.bytes).sum::<u64>() == chunk.bytes());
            for run in runs {
                let [low, high] = self.clean.keys;
                let to = out + index as u64 * PRINT;
                let arguments = [to, run.at, run.bytes / 8, run.tag / 8, low, high];
                // SAFETY: the kernel's six parameters: it reads the run, which is mapped, and adds
                // to its own sums.
                unsafe { driver.launch(printer.function, SHAPE, &arguments, engine.stream) }?;
            }
        }
        // SAFETY: the other half of the pinned buffer, ours alone.
        unsafe { driver.copy_out(results, out, bytes, engine.stream) }?;
        driver.record(engine.events[engine.turn], engine.stream)?;
        driver.wait_event(engine.events[engine.turn])?;
        // SAFETY: pinned, aligned to more than 16 bytes, filled, and the copy is over.
        let prints = unsafe {
            let at = core::ptr::with_exposed_provenance::<Print>(results);
            core::slice::from_raw_parts(at, ids.len())
        };
        for ((&id, &print), whole) in ids.iter().zip(prints).zip(whole) {
            self.chunks[id].known.here = whole.then_some((self.clean.work, print));
        }
        Ok(())
    }

    fn prepare_printer(&mut self, context: Context) -> Result<Printer, Status> {
        if let Some(printer) = self.clean.printer.filter(|it| it.context == context) {
            return Ok(printer);
        }
        let function = self.driver.load(IMAGE, NAME)?;
        let host = self.driver.pin(2 * BATCH as u64 * PRINT)?;
        // SAFETY: just pinned, as long as that, nobody else's.
        unsafe {
            let at = core::ptr::with_exposed_provenance_mut::<u8>(host);
            at.write_bytes(0, 2 * BATCH * PRINT as usize);
        }
        let printer = Printer {
            context,
            function,
            host,
        };
        self.clean.printer = Some(printer);
        Ok(printer)
    }

    /// Takes the memory for results, which is never given back: counted as what is outside the
    /// arena.
    pub fn prepare_fingerprints(&mut self) -> Result<(), AllocError> {
        if self.clean.policy == Policy::Fingerprint && self.clean.out.is_none() {
            self.clean.out = Some(self.own_memory(BATCH as u64 * PRINT)?);
        }
        Ok(())
    }

    fn own_memory(&mut self, bytes: u64) -> Result<u64, AllocError> {
        let (driver, device) = (self.driver, self.device);
        let bytes = bytes.next_multiple_of(self.granularity);
        self.take(bytes).map_err(AllocError::OverBudget)?;
        let made = driver.create(device, bytes).and_then(|handle| {
            let at = driver.reserve(bytes, self.granularity)?;
            driver.map(at, bytes, handle)?;
            driver.set_access(at, bytes, &[Access::full(device)])?;
            Ok(at)
        });
        if made.is_err() {
            self.give_back(bytes);
        }
        Ok(made?)
    }

    /// Whether a resident chunk's slot holds its bytes.
    pub(super) fn is_clean(&self, id: ChunkId) -> bool {
        let known = self.chunks[id].known;
        let printed = |(work, print)| work == self.clean.work && known.slot == Some(print);
        match self.clean.policy {
            Policy::Off => false,
            Policy::Hint => self
                .arena_address(id)
                .is_some_and(|at| self.hints.equals_slot(at)),
            Policy::Fingerprint => known.here.is_some_and(printed),
        }
    }

    /// A chunk is about to be copied into its slot.
    pub(super) fn overwrite_slot(&mut self, id: ChunkId) {
        self.chunks[id].known.slot = None;
    }

    /// All of a chunk was copied, and no work began since.
    fn hold_to_hints(&self, id: ChunkId) {
        if self.clean.policy == Policy::Hint
            && let Some(at) = self.arena_address(id)
        {
            self.hints.copied(at, self.arena.used_of(at, self.chunk));
        }
    }

    /// Where a chunk is, if the arena's; another one may have several addresses.
    fn arena_address(&self, id: ChunkId) -> Option<u64> {
        let at = self.chunks[id].pieces.first()?.mappings.first()?.at;
        (self.backed.get(&at) == Some(&id)).then_some(at)
    }

    /// A chunk was copied into its slot, all of it.
    pub(super) fn copied_out(&mut self, id: ChunkId) {
        let (known, work) = (&mut self.chunks[id].known, self.clean.work);
        known.slot = known.here.filter(|here| here.0 == work).map(|here| here.1);
        self.hold_to_hints(id);
    }

    /// A chunk was copied out of its slot, all of it.
    pub(super) fn copied_in(&mut self, id: ChunkId) {
        let (known, work) = (&mut self.chunks[id].known, self.clean.work);
        known.here = known.slot.map(|print| (work, print));
        self.hold_to_hints(id);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rtswap_wire::page::{Direction, SwapOutcome};

    use super::*;
    use crate::agent::tests::{Bench, CHUNK, bench};

    const CHUNKS: u64 = 4;
    const BYTES: usize = (CHUNKS * CHUNK) as usize;

    /// No two chunks of it are alike.
    fn bytes() -> Vec<u8> {
        let mixed = |i: u32| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8;
        (0..BYTES as u32).map(mixed).collect()
    }

    /// A task with memory of known bytes, and all of it in the swap set.
    fn task(name: &str) -> (Bench, u64, Vec<u8>) {
        let bench = bench(name, |_| ());
        bench.agent.devices[0]
            .memory()
            .set_clean(Policy::Fingerprint);
        let (at, data) = (bench.alloc(BYTES as u64), bytes());
        bench.daemon.set_volume(CHUNKS * CHUNK);
        // The thread that pins may not have come to it yet.
        bench.agent.devices[0].prepare_fingerprints();
        bench.launch(|| bench.driver.write(at, &data).unwrap());
        bench.idle();
        (bench, at, data)
    }

    fn swap(bench: &mut Bench, direction: Direction, chunks: u64) {
        let outcome = bench.daemon.swap(direction, chunks * CHUNK);
        assert_eq!(outcome, SwapOutcome::Done);
    }

    /// Out and in again; the bytes copied out.
    fn round(bench: &mut Bench) -> u64 {
        let before = bench.driver.copied().0;
        swap(bench, Direction::Out, CHUNKS);
        let out = bench.driver.copied().0 - before;
        swap(bench, Direction::In, 0);
        out
    }

    /// A job that changes something, or nothing.
    fn job(bench: &Bench, work: impl FnOnce() + Send) {
        bench.launch(work);
        bench.idle();
    }

    #[test]
    fn what_did_not_change_is_not_copied_out_again() {
        let (mut bench, at, data) = task("clean");
        assert_eq!(round(&mut bench), CHUNKS * CHUNK, "never copied before");
        job(&bench, || drop(bench.driver.read(at, BYTES).unwrap()));
        assert_eq!(round(&mut bench), 0);
        job(&bench, || ());
        let before = bench.driver.copied().0;
        assert_eq!(round(&mut bench), 0);
        assert_eq!(bench.driver.copied().0, before);
        assert_eq!(bench.driver.read(at, BYTES).unwrap(), data);
    }

    #[test]
    fn without_the_policy_everything_is_copied() {
        let (mut bench, ..) = task("clean-off");
        bench.agent.devices[0].memory().set_clean(Policy::Off);
        for _ in 0..3 {
            job(&bench, || ());
            assert_eq!(round(&mut bench), CHUNKS * CHUNK);
        }
    }

    #[test]
    fn one_byte_makes_one_chunk_dirty() {
        let (mut bench, at, mut data) = task("clean-byte");
        round(&mut bench);
        let last = BYTES - 1;
        let edges = CHUNK as usize - 1..=CHUNK as usize;
        for place in [0, last].into_iter().chain(edges).chain([last / 2, 12_345]) {
            data[place] ^= 1;
            let byte = [data[place]];
            job(&bench, || {
                bench.driver.write(at + place as u64, &byte).unwrap();
            });
            assert_eq!(round(&mut bench), CHUNK, "at {place}");
            assert_eq!(bench.driver.read(at, BYTES).unwrap(), data);
            job(&bench, || ());
            assert_eq!(round(&mut bench), 0, "known again");
        }
    }

    #[test]
    fn contents_that_change_places_are_noticed() {
        let (mut bench, at, data) = task("clean-places");
        round(&mut bench);
        let (one, two) = data.split_at(CHUNK as usize);
        // Chunks with each other's bytes, and two words of one chunk.
        let two = &two[..CHUNK as usize];
        job(&bench, || {
            bench.driver.write(at, &[two, one].concat()).unwrap();
        });
        assert_eq!(round(&mut bench), 2 * CHUNK);
        let words = [&two[8..16], &two[..8]].concat();
        job(&bench, || bench.driver.write(at, &words).unwrap());
        assert_eq!(round(&mut bench), CHUNK);
        let now = bench.driver.read(at, 2 * CHUNK as usize).unwrap();
        assert_eq!(now[..16], words);
        assert_eq!(now[CHUNK as usize..], *one);
    }

    #[test]
    fn nothing_is_known_of_what_was_freed() {
        let (mut bench, at, data) = task("clean-free");
        round(&mut bench);
        bench.agent.free(at).expect("ours").unwrap();
        assert_eq!(bench.alloc(BYTES as u64), at, "the same place");
        job(&bench, || bench.driver.write(at, &data).unwrap());
        // The same bytes, yet other chunks, whose slots hold nobody's.
        assert_eq!(round(&mut bench), CHUNKS * CHUNK);
        assert_eq!(bench.driver.read(at, BYTES).unwrap(), data);
    }

    #[test]
    fn an_interrupted_copy_leaves_a_dirty_slot() {
        let (mut bench, at, mut data) = task("clean-failure");
        round(&mut bench);
        data[5] ^= 1;
        job(&bench, || bench.driver.write(at, &data[..8]).unwrap());
        bench.driver.fail_copies(true);
        let outcome = bench.daemon.swap(Direction::Out, CHUNKS * CHUNK);
        assert_eq!(outcome, SwapOutcome::Failed);
        bench.driver.fail_copies(false);
        // Back to the bytes that the slot once held.
        data[5] ^= 1;
        job(&bench, || bench.driver.write(at, &data[..8]).unwrap());
        assert!(round(&mut bench) >= CHUNK);
        assert_eq!(bench.driver.read(at, BYTES).unwrap(), data);
    }

    #[test]
    fn what_lost_its_slot_with_a_segment_takes_another() {
        let mut bench = bench("clean-cut", |_| ());
        let [first, second] = [0; 2].map(|_: u8| bench.alloc(2 * CHUNK));
        // A segment of two slots for each.
        bench.daemon.set_volume(2 * CHUNK);
        bench.daemon.set_volume(4 * CHUNK);
        let data = &bytes()[..2 * CHUNK as usize];
        bench.launch(|| bench.driver.write(second, data).unwrap());
        bench.idle();
        bench.agent.free(first).expect("ours").unwrap();
        assert_eq!(bench.daemon.set_volume(2 * CHUNK), 2 * CHUNK);
        swap(&mut bench, Direction::Out, 2);
        assert_eq!(bench.agent.devices[0].memory().swapped_bytes(), 2 * CHUNK);
        // It holds something, so it stays.
        assert_eq!(bench.daemon.set_volume(0), 2 * CHUNK);
        swap(&mut bench, Direction::In, 0);
        assert_eq!(bench.driver.read(second, data.len()).unwrap(), data);
        assert_eq!(bench.daemon.set_volume(0), 0);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Change { place: usize, bytes: usize },
        Idle,
        Out(u64),
        In(u64),
        Store(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..BYTES, 1..40usize).prop_map(|(place, bytes)| Step::Change { place, bytes }),
            Just(Step::Idle),
            (1..=CHUNKS).prop_map(Step::Out),
            (0..CHUNKS).prop_map(Step::In),
            (0..=CHUNKS).prop_map(Step::Store),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Against a model that is nothing but the bytes.
        #[test]
        fn no_sequence_loses_a_byte(steps in proptest::collection::vec(step(), 1..24)) {
            let (mut bench, at, mut data) = task("clean-model");
            let mut out = 0;
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Out(chunks) if chunks > out => {
                        swap(&mut bench, Direction::Out, chunks);
                        out = chunks;
                    }
                    Step::In(chunks) if chunks < out => {
                        swap(&mut bench, Direction::In, chunks);
                        out = chunks;
                    }
                    Step::Change { place, bytes } if out == 0 => {
                        let end = (place + bytes).min(BYTES);
                        data[place..end].fill(number as u8);
                        let part = &data[place..end];
                        job(&bench, || bench.driver.write(at + place as u64, part).unwrap());
                    }
                    Step::Idle if out == 0 => job(&bench, || ()),
                    // Whole segments: all of it, or nothing.
                    Step::Store(chunks) if chunks >= out => {
                        let pinned = bench.daemon.set_volume(chunks * CHUNK);
                        prop_assert!(pinned >= chunks * CHUNK);
                        prop_assert!(chunks > 0 || pinned == 0, "{pinned} bytes are left");
                        bench.daemon.set_volume(CHUNKS * CHUNK);
                    }
                    _ => {}
                }
            }
            swap(&mut bench, Direction::In, 0);
            prop_assert_eq!(bench.driver.read(at, BYTES).unwrap(), data);
        }
    }
}
