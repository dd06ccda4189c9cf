//! Copies and sets of rows, arrays, and words that streams wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use simgpu_core::Error;
use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{
    Action, ArrayShape, Context, CopyPlane, CopyShape, CopySide, Driver, Extent, SetShape, Until,
    ValueOp,
};

const MIB: u64 = 1 << 20;

fn machine(gpus: usize) -> (tempfile::TempDir, Driver, Arc<Context>) {
    let gpu = GpuConfig {
        memory: Size(32 * MIB),
        context_bytes: Size(2 * MIB),
        h2d_gib_per_s: 20.0,
        d2h_gib_per_s: 20.0,
        create_us: 0.0,
        copy_us: 0.0,
        ..GpuConfig::default()
    };
    let config = Config {
        gpus: vec![gpu; gpus],
        ..Config::default()
    };
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let driver = Driver::attach(dir.path(), Some(&config)).unwrap();
    let context = driver.retain_primary(0).unwrap();
    (dir, driver, context)
}

fn plane(side: CopySide, pitch: usize, slice: usize) -> CopyPlane {
    CopyPlane { side, pitch, slice }
}

fn host(bytes: &mut [u8]) -> CopySide {
    CopySide::Host(bytes.as_mut_ptr().expose_provenance())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// There and back over memory with any pitch is as a loop over rows has it.
    #[test]
    fn rows_arrive_and_what_is_between_them_stays(
        width in 1..40_usize, height in 1..6_usize, depth in 1..4_usize,
        gap in 0..9_usize, rows_between in 0..3_usize,
    ) {
        let (_dir, driver, context) = machine(1);
        let stream = context.legacy_stream();
        let pitch = width + gap;
        let slice = pitch * (height + rows_between);
        let device = context.alloc((slice * depth) as u64).unwrap();
        context.set(stream, device, 0xee, 1, slice * depth).unwrap();
        let mut bytes: Vec<u8> = (0..width * height * depth).map(|i| i as u8).collect();
        let extent = Extent { width, height, depth };
        let shape = CopyShape {
            dst: plane(CopySide::Device(device), pitch, slice),
            src: plane(host(&mut bytes), width, width * height),
            extent,
        };
        context.copy_rows(stream, shape, true).unwrap();
        let mut all = vec![0; slice * depth];
        let len = all.len();
        context.copy(stream, host(&mut all), CopySide::Device(device), len, true).unwrap();
        let mut expected = vec![0xee; slice * depth];
        for z in 0..depth {
            for y in 0..height {
                let from = (z * height + y) * width;
                let to = z * slice + y * pitch;
                expected[to..to + width].copy_from_slice(&bytes[from..from + width]);
            }
        }
        prop_assert_eq!(all, expected);
        let mut back = vec![0; bytes.len()];
        let shape = CopyShape {
            dst: plane(host(&mut back), width, width * height),
            src: plane(CopySide::Device(device), pitch, slice),
            extent,
        };
        context.copy_rows(stream, shape, true).unwrap();
        prop_assert_eq!(back, bytes);
        drop(driver);
    }
}

#[test]
fn rows_that_overlap_or_leave_their_memory_are_refused() {
    let (_dir, _driver, context) = machine(1);
    let stream = context.legacy_stream();
    let device = context.alloc(2 * MIB).unwrap();
    let mut bytes = vec![0; 1 << 20];
    let from = host(&mut bytes);
    for (pitch, height) in [(9, 2), (1 << 20, 4)] {
        let shape = CopyShape {
            dst: plane(CopySide::Device(device), pitch, 0),
            src: plane(from, 10, 0),
            extent: Extent {
                width: 10,
                height,
                depth: 1,
            },
        };
        let refused = context.copy_rows(stream, shape, true);
        assert_eq!(refused, Err(Error::InvalidValue));
    }
    let set = |pitch, width, dst| SetShape {
        dst,
        pattern: 1,
        width,
        count: 10,
        rows: 3,
        pitch,
    };
    for shape in [
        set(9, 1, device),
        set(20, 2, device + 1),
        set(21, 2, device),
    ] {
        let refused = context.set_rows(stream, shape);
        assert_eq!(refused, Err(Error::InvalidValue));
    }
    context.set_rows(stream, set(20, 2, device)).unwrap();
}

#[test]
fn arrays_keep_rows_and_count_as_memory() {
    let (_dir, driver, context) = machine(1);
    let stream = context.legacy_stream();
    let free = driver.memory_info(0).0;
    let shape = ArrayShape {
        width: 100,
        height: 7,
        depth: 0,
        format: 0x20,
        channels: 2,
        flags: 0,
    };
    let handle = driver.create_array(&context, shape).unwrap();
    assert_eq!(driver.memory_info(0).0, free - 2 * MIB);
    let array = driver.array(handle).unwrap();
    assert_eq!(array.shape, shape);
    // A window of the array, 8 bytes an element.
    let (extent, at) = (
        Extent {
            width: 400,
            height: 5,
            depth: 1,
        },
        [80, 2, 0],
    );
    let mut bytes: Vec<u8> = (0..2000_u32).map(|i| i as u8).collect();
    let mut back = vec![0; 2000];
    let window = array.plane(at, [400, 5, 1]).unwrap();
    let copy = |dst, src| context.copy_rows(stream, CopyShape { dst, src, extent }, true);
    copy(window, plane(host(&mut bytes), 400, 0)).unwrap();
    copy(plane(host(&mut back), 400, 0), window).unwrap();
    assert_eq!(back, bytes);
    for outside in [[401, 0, 0], [0, 3, 0], [0, 0, 1]] {
        assert!(array.plane(outside, [400, 5, 1]).is_err());
    }
    assert!(array.run(0, 10).is_err(), "it is not one-dimensional");
    drop(array);
    driver.destroy_array(&context, handle).unwrap();
    assert!(driver.array(handle).is_err());
    assert_eq!(driver.memory_info(0).0, free);

    let levels = driver.create_mipmapped(&context, shape, 3).unwrap();
    let second = driver.mipmap_level(levels, 1).unwrap();
    let shape = driver.array(second).unwrap().shape;
    assert_eq!((shape.width, shape.height), (50, 3));
    assert_eq!(
        driver.destroy_array(&context, second),
        Err(Error::InvalidHandle)
    );
    assert!(driver.mipmap_level(levels, 3).is_err());
    driver.destroy_mipmapped(&context, levels).unwrap();
    assert_eq!(driver.memory_info(0).0, free);
    let wrong = ArrayShape {
        channels: 3,
        ..shape
    };
    assert!(driver.create_array(&context, wrong).is_err());
}

#[test]
fn copies_go_between_gpus_that_are_no_peers() {
    let (_dir, driver, context) = machine(2);
    let far = driver.retain_primary(1).unwrap();
    let (here, there) = (context.alloc(1000).unwrap(), far.alloc(1000).unwrap());
    far.set(far.legacy_stream(), there, 8, 1, 1000).unwrap();
    far.synchronize().unwrap();
    let stream = context.legacy_stream();
    let (to, from) = (CopySide::Device(here), CopySide::Device(there));
    context.copy(stream, to, from, 1000, false).unwrap();
    let mut back = vec![0; 1000];
    context
        .copy(stream, host(&mut back), CopySide::Device(here), 1000, true)
        .unwrap();
    assert_eq!(back, [8; 1000]);
}

#[test]
fn a_stream_waits_for_a_word_that_the_host_writes() {
    let (_dir, driver, context) = machine(1);
    let stream = context.create_stream(1, 0).unwrap();
    let word = context.alloc_host(4096, 0).unwrap();
    let device = context.alloc(8).unwrap();
    let op = |address, value, action| ValueOp {
        address,
        value,
        is_wide: false,
        action,
    };
    let wait = op(word as u64, 5, Action::Wait(Until::AtLeast));
    context
        .value_ops(&stream, &[wait, op(device, 77, Action::Write)])
        .unwrap();
    thread::sleep(Duration::from_millis(5));
    assert!(!context.is_idle(&stream).unwrap());
    // SAFETY: an aligned word of the pinned memory, accessed atomically by all.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(word)) }.store(6, SeqCst);
    context.synchronize_stream(&stream).unwrap();
    let mut back = [0; 4];
    context
        .copy(&stream, host(&mut back), CopySide::Device(device), 4, true)
        .unwrap();
    assert_eq!(back, 77_u32.to_ne_bytes());
    for address in [0, device + 2, 1 << 40] {
        let refused = context.value_ops(&stream, &[op(address, 1, Action::Write)]);
        assert_eq!(refused, Err(Error::InvalidValue));
    }
    drop(driver);
}
