//! Memory that several processes or GPUs hold: descriptors, IPC handles, peers.
//!
//! A child is this test binary again; a descriptor is its standard input.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{Access, Context, CopySide, Driver, IPC_HANDLE_BYTES, Wishes};
use simgpu_core::{Error, Observer};

const ROLE: &str = "SIMGPU_TEST_ROLE";
const DIR: &str = "SIMGPU_TEST_DIR";
const WHAT: &str = "SIMGPU_TEST_WHAT";
const MIB: u64 = 1 << 20;
/// No step of these tests takes nearly as long.
const PATIENCE: Duration = Duration::from_secs(20);
const EXPORTABLE: Wishes = Wishes {
    handle_types: 1,
    flags: [1, 2, 0, 0, 0, 0, 0, 0],
};

fn machine(gpus: usize) -> (tempfile::TempDir, Driver) {
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
    (dir, driver)
}

fn map(driver: &Driver, handle: u64, size: u64) -> u64 {
    let address = driver.reserve_address(size, 0, 0).unwrap();
    driver.map(address, size, handle).unwrap();
    driver
        .set_access(address, size, 0, Access::ReadWrite)
        .unwrap();
    address
}

fn fill(context: &Context, address: u64, byte: u8, len: u64) {
    let stream = context.legacy_stream();
    context
        .set(stream, address, byte.into(), 1, len as usize)
        .unwrap();
    context.synchronize().unwrap();
}

fn byte_at(context: &Context, address: u64) -> u8 {
    let mut byte = 0_u8;
    let to = CopySide::Host((&raw mut byte).expose_provenance());
    let from = CopySide::Device(address);
    context
        .copy(context.legacy_stream(), to, from, 1, true)
        .unwrap();
    byte
}

/// A child that ends with its owner.
struct Player(Child);

impl Player {
    fn start(role: &str, dir: &Path, what: &str, stdin: Stdio) -> Self {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(DIR, dir)
            .env(WHAT, what)
            .stdin(stdin)
            .spawn()
            .unwrap();
        Self(child)
    }

    fn succeeds(mut self) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success());
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the child does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a child does; nothing in the parent.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let dir = std::env::var_os(DIR).unwrap();
    let what = std::env::var(WHAT).unwrap();
    let driver = Driver::attach(Path::new(&dir), None).unwrap();
    let context = driver.retain_primary(0).unwrap();
    match role.as_str() {
        // Reads 1 from the descriptor's memory and leaves 2 there.
        "import" | "import and be killed" => {
            let handle = driver.import_physical(std::io::stdin().as_fd()).unwrap();
            let size = driver.physical(handle).unwrap().size();
            let address = map(&driver, handle, size);
            assert_eq!(byte_at(&context, address + size - 1), 1);
            fill(&context, address, 2, size);
            if role != "import" {
                // SAFETY: ends this process, as a crash would.
                unsafe { libc::_exit(0) };
            }
        }
        // The same by an IPC handle, twice opened.
        "open" => {
            let bytes: Vec<u8> = what.split(',').map(|byte| byte.parse().unwrap()).collect();
            let handle: [u8; IPC_HANDLE_BYTES] = bytes.try_into().unwrap();
            let address = driver.open_ipc(&context, &handle).unwrap();
            assert_eq!(driver.open_ipc(&context, &handle).unwrap(), address);
            let info = driver.pointer(address + 7).unwrap();
            assert_eq!((info.start, info.size), (address, 1000));
            assert_eq!(byte_at(&context, address + 999), 1);
            fill(&context, address, 2, 1000);
            driver.close_ipc(address).unwrap();
            assert_eq!(byte_at(&context, address), 2);
            driver.close_ipc(address).unwrap();
            assert_eq!(driver.close_ipc(address), Err(Error::InvalidValue));
            assert_eq!(driver.free(address), Err(Error::InvalidValue));
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn a_descriptor_carries_memory_to_another_process() {
    let (dir, driver) = machine(1);
    let context = driver.retain_primary(0).unwrap();
    let observer = Observer::open(dir.path()).unwrap();
    let handle = driver.create_physical_with(0, 6 * MIB, EXPORTABLE).unwrap();
    let address = map(&driver, handle, 6 * MIB);
    for role in ["import", "import and be killed"] {
        fill(&context, address, 1, 6 * MIB);
        let fd = driver.export_physical(handle, 1).unwrap();
        Player::start(role, dir.path(), "", fd.into()).succeeds();
        assert_eq!(byte_at(&context, address), 2, "{role}");
    }
    // The exporter is charged, and once.
    let holders = observer.holders(0);
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].bytes, 8 * MIB);
    assert_eq!(observer.process_bytes(std::process::id(), 0), 8 * MIB);
    driver.unmap(address, 6 * MIB).unwrap();
    driver.release_physical(handle).unwrap();
    assert_eq!(driver.memory_info(0).0, 30 * MIB);
}

#[test]
fn exported_memory_lives_as_long_as_anybody_holds_it() {
    let (_dir, driver) = machine(1);
    let context = driver.retain_primary(0).unwrap();
    let handle = driver.create_physical_with(0, 4 * MIB, EXPORTABLE).unwrap();
    let fd = driver.export_physical(handle, 1).unwrap();
    let address = map(&driver, handle, 4 * MIB);
    fill(&context, address, 9, 4 * MIB);
    driver.unmap(address, 4 * MIB).unwrap();
    driver.release_physical(handle).unwrap();
    assert_eq!(driver.memory_info(0).0, 26 * MIB, "the descriptor holds it");
    let again = driver.import_physical(fd.as_fd()).unwrap();
    drop(fd);
    assert_eq!(driver.physical(again).unwrap().wishes, EXPORTABLE);
    let address = map(&driver, again, 4 * MIB);
    assert_eq!(byte_at(&context, address), 9);
    driver.release_physical(again).unwrap();
    assert_eq!(driver.memory_info(0).0, 26 * MIB, "the mapping holds it");
    driver.unmap(address, 4 * MIB).unwrap();
    assert_eq!(driver.memory_info(0).0, 30 * MIB);
}

#[test]
fn only_what_was_made_for_it_can_be_exported() {
    let (_dir, driver) = machine(1);
    let plain = driver.create_physical(0, 2 * MIB).unwrap();
    let refused = driver.export_physical(plain, 1).unwrap_err();
    assert_eq!(refused, Error::InvalidValue);
    let null = std::fs::File::open("/dev/null").unwrap();
    let refused = driver.import_physical(null.as_fd()).unwrap_err();
    assert_eq!(refused, Error::InvalidValue);
}

#[test]
fn an_ipc_handle_opens_an_object_elsewhere() {
    let (dir, driver) = machine(1);
    let context = driver.retain_primary(0).unwrap();
    // Not at the start of what is shared.
    context.alloc(5000).unwrap();
    let object = context.alloc(1000).unwrap();
    fill(&context, object, 1, 1000);
    let handle = driver.ipc_handle(object).unwrap();
    let own = driver.open_ipc(&context, &handle);
    assert_eq!(own, Err(Error::InvalidContext));
    let text: Vec<_> = handle.iter().map(u8::to_string).collect();
    Player::start("open", dir.path(), &text.join(","), Stdio::null()).succeeds();
    assert_eq!(byte_at(&context, object), 2);
    // Mapped memory and pools have no such handles.
    let handle = driver.create_physical(0, 2 * MIB).unwrap();
    let mapped = map(&driver, handle, 2 * MIB);
    assert_eq!(driver.ipc_handle(mapped), Err(Error::InvalidValue));
    let pooled = driver
        .alloc_async(context.legacy_stream(), None, 100)
        .unwrap();
    assert_eq!(driver.ipc_handle(pooled), Err(Error::InvalidValue));
    let garbage = driver.open_ipc(&context, &[3; IPC_HANDLE_BYTES]);
    assert_eq!(garbage, Err(Error::InvalidValue));
}

#[test]
fn one_allocation_is_mapped_at_two_addresses_and_on_two_gpus() {
    let (_dir, driver) = machine(2);
    let contexts = [0, 1].map(|gpu| driver.retain_primary(gpu).unwrap());
    let handle = driver.create_physical(0, 4 * MIB).unwrap();
    let [one, two] = [0, 1].map(|_| map(&driver, handle, 4 * MIB));
    fill(&contexts[0], one, 5, 4 * MIB);
    assert_eq!(byte_at(&contexts[0], two + 3 * MIB), 5);
    // All of it, and not more than there is.
    let place = driver.reserve_address(8 * MIB, 0, 0).unwrap();
    for size in [2 * MIB, 6 * MIB] {
        let refused = driver.map(place, size, handle);
        assert_eq!(refused, Err(Error::NotSupported));
    }
    assert!(driver.pointer(place).is_err());
    assert_eq!(driver.unmap(place, 8 * MIB), Ok(()), "nothing is mapped");
    let over_a_hole = driver.unmap(two, 6 * MIB);
    assert_eq!(over_a_hole, Err(Error::InvalidValue));
    assert_eq!(driver.set_sync_memops(one, true), Err(Error::NotSupported));
    let part = driver.set_access(one, 2 * MIB, 0, Access::Read);
    assert_eq!(part, Err(Error::InvalidValue));
    assert!(
        contexts[1]
            .set(contexts[1].legacy_stream(), one, 1, 1, 4)
            .is_err()
    );
    driver
        .set_access(one, 4 * MIB, 1, Access::ReadWrite)
        .unwrap();
    fill(&contexts[1], one, 6, 4 * MIB);
    assert_eq!(byte_at(&contexts[0], two), 6);
    // A handle of what is mapped is the one it was mapped by.
    assert_eq!(driver.retain_physical(two + 100).unwrap(), handle);
    driver.release_physical(handle).unwrap();
    assert!(driver.physical(handle).is_ok(), "still retained once");
    driver.release_physical(handle).unwrap();
    assert!(driver.physical(handle).is_err());
    assert_eq!(driver.retain_physical(one).unwrap(), handle);
}

#[test]
fn peers_reach_plain_allocations_once_they_are_let() {
    let (_dir, driver) = machine(2);
    let [here, peer] = [0, 1].map(|gpu| driver.retain_primary(gpu).unwrap());
    let [small, large] = [100, 3 * MIB].map(|size| here.alloc(size).unwrap());
    let reach = |address| peer.set(peer.legacy_stream(), address, 1, 1, 100);
    assert_eq!(reach(small), Err(Error::InvalidValue));
    assert_eq!(peer.disable_peer(&here), Err(Error::PeerAccessNotEnabled));
    assert_eq!(here.enable_peer(&here), Err(Error::InvalidDevice));
    peer.enable_peer(&here).unwrap();
    assert_eq!(
        peer.enable_peer(&here),
        Err(Error::PeerAccessAlreadyEnabled)
    );
    let later = here.alloc(5 * MIB).unwrap();
    for address in [small, large, later] {
        reach(address).unwrap();
    }
    peer.synchronize().unwrap();
    peer.disable_peer(&here).unwrap();
    for address in [small, large, later] {
        assert_eq!(reach(address), Err(Error::InvalidValue));
    }
}

#[test]
fn an_observer_counts_calls_and_synchronisations() {
    let (dir, driver) = machine(1);
    let context = driver.retain_primary(0).unwrap();
    let observer = Observer::open(dir.path()).unwrap();
    let handle = driver.create_physical(0, 2 * MIB).unwrap();
    let address = map(&driver, handle, 2 * MIB);
    fill(&context, address, 1, 100);
    byte_at(&context, address);
    context.synchronize_stream(context.legacy_stream()).unwrap();
    driver.unmap(address, 2 * MIB).unwrap();
    driver.release_physical(handle).unwrap();
    context.free(context.alloc(100).unwrap()).unwrap();
    let processes = observer.processes();
    let counters = processes[0].gpus[0];
    assert_eq!(counters.memory_calls(), 5);
    // What cuMemFree waits for is part of that call.
    assert_eq!(counters.synchronisations(), 2);
    let counts = [&counters.copies, &counters.sets, &counters.context_syncs];
    assert_eq!(counts.map(|count| count.load(Relaxed)), [1, 1, 1]);
}
