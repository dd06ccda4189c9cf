//! Memory pools: stream order, attributes, and giving memory back.

mod hold;

use std::sync::Arc;

use simgpu_core::config::{Config, GRANULE, GpuConfig, Size};
use simgpu_core::driver::{Access, Context, Driver, Place, PoolAttribute};
use simgpu_core::{Error, Observer};

use hold::hold;

const MIB: u64 = 1 << 20;
const NON_BLOCKING: u32 = 1;

fn machine(gpus: usize) -> (tempfile::TempDir, Driver, Arc<Context>) {
    let gpu = GpuConfig {
        memory: Size(32 * MIB),
        context_bytes: Size(2 * MIB),
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

fn attribute(driver: &Driver, pool: usize, attribute: PoolAttribute) -> u64 {
    driver.pool_attribute(pool, attribute).unwrap()
}

#[test]
fn the_same_stream_reuses_at_once_and_another_only_afterwards() {
    let (_dir, driver, context) = machine(1);
    let [one, two] = [0, 1].map(|_| context.create_stream(NON_BLOCKING, 0).unwrap());
    let first = driver.alloc_async(&one, None, 3 * MIB).unwrap();
    let held = hold(&context, &one);
    driver.free_async(&one, first).unwrap();
    // Not freed yet for this stream, so it gets other memory.
    let other = driver.alloc_async(&two, None, 3 * MIB).unwrap();
    assert_ne!(other, first);
    assert!(context.is_idle(&two).unwrap(), "it waits for nothing");
    // In the order of its own stream it is free.
    assert_eq!(driver.alloc_async(&one, None, 3 * MIB).unwrap(), first);
    assert!(!context.is_idle(&one).unwrap());
    drop(held);
    driver.free_async(&one, first).unwrap();
    driver.free_async(&two, other).unwrap();
    assert_eq!(driver.free_async(&two, other), Err(Error::InvalidValue));
}

#[test]
fn full_memory_is_reused_by_waiting_unless_that_is_switched_off() {
    let (_dir, driver, context) = machine(1);
    let pool = driver.default_pool(Place::Gpu(0)).unwrap();
    let [one, two] = [0, 1].map(|_| context.create_stream(NON_BLOCKING, 0).unwrap());
    let most = driver.alloc_async(&one, None, 28 * MIB).unwrap();
    let held = hold(&context, &one);
    driver.free_async(&one, most).unwrap();
    let switch = PoolAttribute::AllowInternalDependencies;
    driver.set_pool_attribute(pool, switch, 0).unwrap();
    let full = Err(Error::OutOfMemory);
    assert_eq!(driver.alloc_async(&two, None, 20 * MIB), full);
    driver.set_pool_attribute(pool, switch, 1).unwrap();
    assert_eq!(driver.alloc_async(&two, None, 20 * MIB).unwrap(), most);
    assert!(!context.is_idle(&two).unwrap(), "it waits for the free");
    drop(held);
    context.synchronize_stream(&two).unwrap();
    assert!(context.is_idle(&one).unwrap());
}

#[test]
fn synchronising_gives_back_what_the_threshold_does_not_keep() {
    let (dir, driver, context) = machine(1);
    let observer = Observer::open(dir.path()).unwrap();
    let mine = || observer.process_bytes(std::process::id(), 0);
    let pool = driver.default_pool(Place::Gpu(0)).unwrap();
    let stream = context.legacy_stream();
    let before = mine();
    let small = driver.alloc_async(stream, None, 100).unwrap();
    let large = driver.alloc_async(stream, None, 5 * MIB).unwrap();
    assert_eq!(mine() - before, 8 * MIB);
    assert_eq!(attribute(&driver, pool, PoolAttribute::Used), 5 * MIB + 512);
    driver.free_async(stream, large).unwrap();
    assert_eq!(mine() - before, 8 * MIB, "kept until something waits");
    context.synchronize().unwrap();
    assert_eq!(mine() - before, 2 * MIB);
    driver
        .set_pool_attribute(pool, PoolAttribute::ReleaseThreshold, u64::MAX)
        .unwrap();
    driver.free_async(stream, small).unwrap();
    context.synchronize_stream(stream).unwrap();
    assert_eq!(attribute(&driver, pool, PoolAttribute::Used), 0);
    assert_eq!(attribute(&driver, pool, PoolAttribute::Reserved), GRANULE);
    assert_eq!(
        attribute(&driver, pool, PoolAttribute::ReservedHigh),
        8 * MIB
    );
    driver.trim_pool(pool, 0).unwrap();
    assert_eq!(mine(), before);
    driver
        .set_pool_attribute(pool, PoolAttribute::ReservedHigh, 0)
        .unwrap();
    assert_eq!(attribute(&driver, pool, PoolAttribute::ReservedHigh), 0);
    let current = driver.set_pool_attribute(pool, PoolAttribute::Used, 0);
    assert_eq!(current, Err(Error::InvalidValue));
}

#[test]
fn memory_that_pools_keep_is_there_for_plain_allocations() {
    let (_dir, driver, context) = machine(1);
    let pool = driver.default_pool(Place::Gpu(0)).unwrap();
    driver
        .set_pool_attribute(pool, PoolAttribute::ReleaseThreshold, u64::MAX)
        .unwrap();
    let stream = context.legacy_stream();
    let kept = driver.alloc_async(stream, None, 20 * MIB).unwrap();
    assert_eq!(context.alloc(20 * MIB), Err(Error::OutOfMemory));
    driver.free_async(stream, kept).unwrap();
    context.synchronize().unwrap();
    let plain = context.alloc(20 * MIB).unwrap();
    // The other way round: a stream may free what cuMemAlloc gave.
    driver.free_async(stream, plain).unwrap();
    context.synchronize().unwrap();
    assert_eq!(driver.memory_info(0).0, 30 * MIB);
}

#[test]
fn pools_are_made_bounded_chosen_and_destroyed() {
    let (_dir, driver, context) = machine(1);
    let stream = context.legacy_stream();
    let default = driver.default_pool(Place::Gpu(0)).unwrap();
    assert_eq!(driver.destroy_pool(default), Err(Error::InvalidValue));
    let pool = driver.create_pool(0, 4 * MIB).unwrap();
    let full = Err(Error::OutOfMemory);
    assert_eq!(driver.alloc_async(stream, Some(pool), 5 * MIB), full);
    driver.set_current_pool(Place::Gpu(0), pool).unwrap();
    let object = driver.alloc_async(stream, None, 4 * MIB).unwrap();
    let info = driver.pointer(object + 5).unwrap();
    assert_eq!(
        (info.start, info.size, info.pool, info.context),
        (object, 4 * MIB, pool, 0)
    );
    driver.destroy_pool(pool).unwrap();
    assert_eq!(driver.current_pool(Place::Gpu(0)).unwrap(), default);
    assert_eq!(
        driver.pool_attribute(pool, PoolAttribute::Used),
        Err(Error::InvalidValue)
    );
    // What it gave is good until freed, then its memory goes back.
    context.set(stream, object, 7, 1, 4 << 20).unwrap();
    context.synchronize().unwrap();
    assert_eq!(driver.memory_info(0).0, 26 * MIB);
    driver.free_async(stream, object).unwrap();
    context.synchronize().unwrap();
    assert_eq!(driver.memory_info(0).0, 30 * MIB);
    for size in [0, u64::MAX] {
        assert!(driver.alloc_async(stream, None, size).is_err());
    }
}

#[test]
fn peers_reach_a_pool_that_lets_them() {
    let (_dir, driver, context) = machine(2);
    let peer = driver.retain_primary(1).unwrap();
    let pool = driver.default_pool(Place::Gpu(0)).unwrap();
    let object = driver
        .alloc_async(context.legacy_stream(), None, MIB)
        .unwrap();
    assert_eq!(driver.pool_access(pool, 1), Ok(Access::None));
    let out_of_reach = peer.set(peer.legacy_stream(), object, 1, 1, 100);
    assert_eq!(out_of_reach, Err(Error::InvalidValue));
    driver.set_pool_access(pool, 1, Access::ReadWrite).unwrap();
    peer.set(peer.legacy_stream(), object, 1, 1, 100).unwrap();
    // New memory of the pool too.
    let more = driver
        .alloc_async(context.legacy_stream(), None, 3 * MIB)
        .unwrap();
    peer.set(peer.legacy_stream(), more, 1, 1, 100).unwrap();
    peer.synchronize().unwrap();
    let own = driver.set_pool_access(pool, 0, Access::None);
    assert_eq!(own, Err(Error::InvalidValue));
}

#[test]
fn memory_of_the_host_is_none_of_a_gpus() {
    let (dir, driver, context) = machine(1);
    let stream = context.legacy_stream();
    let observer = Observer::open(dir.path()).unwrap();
    let seen = || observer.process_bytes(std::process::id(), 0);
    let before = (driver.memory_info(0), seen());
    let handle = driver.create_on_host(Place::Host(2, 0), 2 * MIB).unwrap();
    let pool = driver.create_pool_in(Place::Host(3, 0), 0).unwrap();
    assert_eq!(driver.pool_access(pool, 0), Ok(Access::None));
    driver.set_pool_access(pool, 0, Access::ReadWrite).unwrap();
    let object = driver.alloc_async(stream, Some(pool), 3 * MIB).unwrap();
    assert_eq!((driver.memory_info(0), seen()), before);
    context.set(stream, object, 7, 1, 3 << 20).unwrap();
    context.synchronize().unwrap();
    let last = std::ptr::with_exposed_provenance::<u8>(object as usize + (3 << 20) - 1);
    // SAFETY: the object's last byte, which nothing writes any more.
    assert_eq!(unsafe { last.read() }, 7);
    driver.free_async(stream, object).unwrap();
    driver.destroy_pool(pool).unwrap();
    driver.release_physical(handle).unwrap();
    assert_eq!((driver.memory_info(0), seen()), before);
}
