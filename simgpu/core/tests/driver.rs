//! One process's view: streams, events, faults, virtual memory.

mod hold;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use simgpu_core::Error;
use simgpu_core::config::{Config, GRANULE, GpuConfig, Size};
use simgpu_core::driver::{Access, Context, CopySide, Driver, Event, HostCall, Kernel, Stream};

use hold::hold;

const MIB: u64 = 1 << 20;
const SPIN_NS: u64 = 30_000_000;
const NON_BLOCKING: u32 = 1;

fn machine(quick: bool) -> (tempfile::TempDir, Driver) {
    let base = GpuConfig {
        memory: Size(32 * MIB),
        context_bytes: Size(2 * MIB),
        h2d_gib_per_s: 2.0,
        d2h_gib_per_s: 2.0,
        ..GpuConfig::default()
    };
    let gpu = if quick {
        let free = GpuConfig {
            create_us: 0.0,
            map_us: 0.0,
            access_us: 0.0,
            ..base
        };
        GpuConfig {
            unmap_us: 0.0,
            release_us: 0.0,
            copy_us: 0.0,
            ..free
        }
    } else {
        base
    };
    let config = Config {
        gpus: vec![gpu],
        ..Config::default()
    };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let driver = Driver::attach(dir.path(), Some(&config)).unwrap();
    (dir, driver)
}

fn spin(context: &Context, stream: &Stream) {
    context.launch(stream, Kernel::Spin, vec![SPIN_NS]).unwrap();
}

fn read(context: &Context, address: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let to = CopySide::Host(bytes.as_mut_ptr().expose_provenance());
    context
        .copy(
            context.legacy_stream(),
            to,
            CopySide::Device(address),
            len,
            true,
        )
        .unwrap();
    bytes
}

fn write(context: &Context, address: u64, bytes: &[u8]) {
    let from = CopySide::Host(bytes.as_ptr().expose_provenance());
    let to = CopySide::Device(address);
    context
        .copy(context.legacy_stream(), to, from, bytes.len(), true)
        .unwrap();
}

#[test]
fn legacy_stream_waits_for_blocking_streams_only() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let blocking = context.create_stream(0, 0).unwrap();
    let free = context.create_stream(NON_BLOCKING, 0).unwrap();
    let start = Instant::now();
    spin(&context, &blocking);
    // A marker needs no engine, so only the order can make it wait.
    context.synchronize_stream(context.legacy_stream()).unwrap();
    assert!(start.elapsed() >= Duration::from_nanos(SPIN_NS));
    let held = hold(&context, &free);
    context.synchronize_stream(context.legacy_stream()).unwrap();
    assert!(!context.is_idle(&free).unwrap(), "it waited");
    drop(held);
    context.synchronize().unwrap();
    assert!(context.is_idle(&free).unwrap());
    let held = hold(&context, context.legacy_stream());
    spin(&context, context.legacy_stream());
    assert!(!context.is_idle(context.legacy_stream()).unwrap());
    assert!(context.is_idle(&blocking).unwrap());
    let start = Instant::now();
    drop(held);
    context.synchronize_stream(&blocking).unwrap();
    assert!(start.elapsed() >= Duration::from_nanos(SPIN_NS));
}

#[test]
fn events_carry_order_and_time_from_stream_to_stream() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let [one, two] = [0, 1].map(|_| context.create_stream(NON_BLOCKING, 0).unwrap());
    let [before, after] = [0, 1].map(|_| Event::new(0).unwrap());
    assert_eq!(after.query(), Ok(()));
    assert_eq!(after.elapsed_ms(&before), Err(Error::InvalidHandle));
    // On a stream that is idle the first one would be marked by the host's clock.
    let held = hold(&context, &one);
    before.record(&one).unwrap();
    spin(&context, &one);
    after.record(&one).unwrap();
    after.hold_back(&two).unwrap();
    assert_eq!(after.query(), Err(Error::NotReady));
    assert_eq!(after.elapsed_ms(&before), Err(Error::NotReady));
    drop(held);
    context.synchronize_stream(&two).unwrap();
    assert_eq!(after.query(), Ok(()));
    let ms = after.elapsed_ms(&before).unwrap();
    assert!((30.0..30.5).contains(&ms), "{ms} ms");
    let untimed = Event::new(2).unwrap();
    untimed.record(&one).unwrap();
    untimed.wait().unwrap();
    assert_eq!(untimed.elapsed_ms(&before), Err(Error::InvalidHandle));
}

#[test]
fn host_functions_run_in_their_place() {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn note(_: *mut std::ffi::c_void) {
        SEEN.fetch_add(1, SeqCst);
    }
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let stream = context.create_stream(0, 0).unwrap();
    let held = hold(&context, &stream);
    context
        .call_host(&stream, HostCall::Function(note, 0))
        .unwrap();
    assert_eq!(SEEN.load(SeqCst), 0);
    drop(held);
    context.synchronize().unwrap();
    assert_eq!(SEEN.load(SeqCst), 1);
}

#[test]
fn a_destroyed_stream_still_does_its_work() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let address = context.alloc(MIB).unwrap();
    write(&context, address, &[1; 64]);
    let stream = context.create_stream(0, 0).unwrap();
    let handle = driver.streams.insert(&stream);
    spin(&context, &stream);
    context.set(&stream, address, 7, 1, 64).unwrap();
    drop(stream);
    driver.destroy_stream(handle).unwrap();
    assert_eq!(driver.destroy_stream(handle), Err(Error::InvalidHandle));
    assert_eq!(read(&context, address, 64), [7; 64]);
}

#[test]
fn a_free_waits_for_the_work_of_a_destroyed_stream() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    for flags in [0, NON_BLOCKING] {
        let stream = context.create_stream(flags, 0).unwrap();
        let start = Instant::now();
        spin(&context, &stream);
        context.destroy_stream(&stream);
        drop(stream);
        let address = context.alloc(2 * MIB).unwrap();
        driver.free(address).unwrap();
        assert!(start.elapsed() >= Duration::from_nanos(SPIN_NS));
    }
}

#[test]
fn a_fault_breaks_its_context_until_it_is_reset() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let other = driver.create_context(0, 0).unwrap();
    let stream = context.legacy_stream().clone();
    let reserved = driver.reserve_address(GRANULE, 0, 0).unwrap();
    context
        .launch(&stream, Kernel::Fill, vec![reserved, 4, 1])
        .unwrap();
    assert_eq!(context.synchronize(), Err(Error::IllegalAddress));
    assert_eq!(context.alloc(100), Err(Error::IllegalAddress));
    other.alloc(100).unwrap();
    driver.reset_primary(0).unwrap();
    // The same context for who retains it, and as good as new.
    assert_eq!(context.check(), Ok(()));
    let address = context.alloc(100).unwrap();
    context
        .launch(
            context.legacy_stream(),
            Kernel::Fill,
            vec![address + 1, 4, 1],
        )
        .unwrap();
    assert_eq!(context.synchronize(), Err(Error::MisalignedAddress));
}

#[test]
fn a_read_only_mapping_cannot_be_written() {
    let (_dir, driver) = machine(false);
    let context = driver.retain_primary(0).unwrap();
    let address = driver.reserve_address(GRANULE, 0, 0).unwrap();
    let handle = driver.create_physical(0, GRANULE).unwrap();
    driver.map(address, GRANULE, handle).unwrap();
    assert_eq!(driver.access(address, 0), Ok(Access::None));
    driver
        .set_access(address, GRANULE, 0, Access::Read)
        .unwrap();
    read(&context, address, 16);
    let written = context.set(context.legacy_stream(), address, 0, 1, 16);
    assert_eq!(written, Err(Error::InvalidValue));
}

#[test]
fn kernels_cross_granules_that_are_scattered() {
    let (_dir, driver) = machine(true);
    let context = driver.retain_primary(0).unwrap();
    let address = driver.reserve_address(4 * GRANULE, 0, 0).unwrap();
    let handles: Vec<_> = (0..4)
        .map(|_| driver.create_physical(0, GRANULE).unwrap())
        .collect();
    for (page, handle) in [2, 0, 3, 1].into_iter().zip(&handles) {
        driver
            .map(address + page * GRANULE, GRANULE, *handle)
            .unwrap();
    }
    driver
        .set_access(address, 4 * GRANULE, 0, Access::ReadWrite)
        .unwrap();
    let words = (4 * GRANULE / 4) - 2;
    let stream = context.legacy_stream();
    context
        .launch(stream, Kernel::Fill, vec![address + 4, words, 9])
        .unwrap();
    let bytes = read(&context, address, 4 * GRANULE as usize);
    for (i, word) in bytes[4..].chunks_exact(4).take(words as usize).enumerate() {
        let mut x = (i as u32).wrapping_add(9_u32.wrapping_mul(0x9e37_79b9));
        x = (x ^ x >> 16).wrapping_mul(0x7feb_352d);
        x = (x ^ x >> 15).wrapping_mul(0x846c_a68b);
        assert_eq!(
            u32::from_le_bytes(word.try_into().unwrap()),
            x ^ x >> 16,
            "word {i}"
        );
    }
}

/// The pages of a small reservation, and some handles.
const PAGES: u64 = 6;
const HANDLES: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Create { handle: usize, pages: u64 },
    Release { handle: usize },
    Map { page: u64, handle: usize },
    Unmap { page: u64, pages: u64 },
    Allow { page: u64, pages: u64 },
    Write { page: u64, value: u8 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let handle = 0..HANDLES;
    let page = 0..PAGES;
    let one = prop_oneof![
        (handle.clone(), 1..3_u64).prop_map(|(handle, pages)| Step::Create { handle, pages }),
        handle.clone().prop_map(|handle| Step::Release { handle }),
        (page.clone(), handle).prop_map(|(page, handle)| Step::Map { page, handle }),
        (page.clone(), 1..4_u64).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        (page.clone(), 1..4_u64).prop_map(|(page, pages)| Step::Allow { page, pages }),
        (page, any::<u8>()).prop_map(|(page, value)| Step::Write { page, value }),
    ];
    prop::collection::vec(one, 1..60)
}

/// A physical allocation as the model sees it: a value for each granule, none
/// while it was never written.
type Memory = Arc<std::sync::Mutex<Vec<Option<u8>>>>;

#[derive(Default)]
struct Model {
    handles: BTreeMap<usize, (u64, Memory)>,
    /// First page to what is mapped there.
    mapped: BTreeMap<u64, Memory>,
    allowed: [bool; PAGES as usize],
}

impl Model {
    fn at(&self, page: u64) -> Option<(&Memory, usize)> {
        let (first, memory) = self.mapped.range(..=page).next_back()?;
        let index = (page - first) as usize;
        (index < memory.lock().unwrap().len()).then_some((memory, index))
    }

    /// The first pages of the mappings that lie one after another from `page` on, and the first page behind them; the last
    /// may reach over the `pages` asked about.
    fn whole(&self, page: u64, pages: u64) -> (Vec<u64>, u64) {
        let (mut starts, mut next) = (Vec::new(), page);
        while let Some(memory) = self.mapped.get(&next).filter(|_| next < page + pages) {
            starts.push(next);
            next += memory.lock().unwrap().len() as u64;
        }
        (starts, next)
    }

    fn live_granules(&self) -> u64 {
        let held = self.handles.values().map(|(_, memory)| memory);
        let mut all: Vec<_> = held.chain(self.mapped.values()).collect();
        all.sort_by_key(|memory| Arc::as_ptr(memory));
        all.dedup_by_key(|memory| Arc::as_ptr(memory));
        all.iter()
            .map(|memory| memory.lock().unwrap().len() as u64)
            .sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Any sequence of virtual memory calls gives what a plain model gives:
    /// results, contents, and the memory that is left.
    #[test]
    fn virtual_memory_equals_its_model(steps in steps()) {
        let (_dir, driver) = machine(true);
        let context = driver.retain_primary(0).unwrap();
        let base = driver.reserve_address(PAGES * GRANULE, 0, 0).unwrap();
        let start = driver.memory_info(0).0;
        let mut model = Model::default();
        for step in steps {
            apply(&driver, &context, base, &mut model, &step)?;
            prop_assert_eq!(start - driver.memory_info(0).0, model.live_granules() * GRANULE);
            for page in 0..PAGES {
                let Some((memory, index)) = model.at(page) else { continue };
                if let (true, Some(value)) = (model.allowed[page as usize], memory.lock().unwrap()[index]) {
                    prop_assert_eq!(read(&context, base + page * GRANULE, 8), vec![value; 8]);
                }
            }
        }
    }
}

fn apply(
    driver: &Driver,
    context: &Context,
    base: u64,
    model: &mut Model,
    step: &Step,
) -> Result<(), TestCaseError> {
    let at = |page: u64| base + page * GRANULE;
    match *step {
        Step::Create { handle, pages } => {
            model.handles.entry(handle).or_insert_with(|| {
                let known = driver.create_physical(0, pages * GRANULE).unwrap();
                (known, Memory::new(vec![None; pages as usize].into()))
            });
        }
        Step::Release { handle } => {
            if let Some((known, _)) = model.handles.remove(&handle) {
                driver.release_physical(known).unwrap();
                prop_assert_eq!(driver.release_physical(known), Err(Error::InvalidValue));
            }
        }
        Step::Map { page, handle } => {
            let Some((known, memory)) = model.handles.get(&handle).cloned() else {
                return Ok(());
            };
            let pages = memory.lock().unwrap().len() as u64;
            let fits = page + pages <= PAGES && (page..page + pages).all(|p| model.at(p).is_none());
            prop_assert_eq!(driver.map(at(page), pages * GRANULE, known).is_ok(), fits);
            if fits {
                model.mapped.insert(page, memory);
            }
        }
        Step::Unmap { page, pages } => {
            let (whole, next) = model.whole(page, pages);
            let is_bare =
                page + pages <= PAGES && (page..page + pages).all(|p| model.at(p).is_none());
            let fits = is_bare || next == page + pages;
            prop_assert_eq!(driver.unmap(at(page), pages * GRANULE).is_ok(), fits);
            if fits {
                model.mapped.retain(|first, _| !whole.contains(first));
                (page..next).for_each(|p| model.allowed[p as usize] = false);
            }
        }
        Step::Allow { page, pages } => {
            let mapped = model.whole(page, pages).1 == page + pages;
            let allowed = driver.set_access(at(page), pages * GRANULE, 0, Access::ReadWrite);
            prop_assert_eq!(allowed.is_ok(), mapped);
            if mapped {
                (page..page + pages).for_each(|p| model.allowed[p as usize] = true);
            }
        }
        Step::Write { page, value } => {
            let may = model.allowed[page as usize];
            let set = context.set(context.legacy_stream(), at(page), value.into(), 1, 8);
            prop_assert_eq!(set.is_ok(), may);
            if let Some((memory, index)) = model.at(page).filter(|_| may) {
                memory.lock().unwrap()[index] = Some(value);
            }
        }
    }
    Ok(())
}
