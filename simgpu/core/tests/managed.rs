//! Managed memory and the variables of modules.

use simgpu_core::Error;
use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{CopySide, Driver, Kernel, Module};

const MIB: u64 = 1 << 20;

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

#[test]
fn host_and_gpus_reach_managed_memory_at_one_address() {
    let (_dir, driver) = machine(2);
    let [here, there] = [0, 1].map(|gpu| driver.retain_primary(gpu).unwrap());
    let free = driver.memory_info(0).0;
    let address = here.alloc_managed(5 * MIB).unwrap();
    assert_eq!(driver.memory_info(0).0, free - 6 * MIB);
    assert!(driver.is_managed(address + 5 * MIB - 1) && !driver.is_managed(address + 5 * MIB));
    let words = std::ptr::with_exposed_provenance_mut::<u32>(address as usize);
    let count = (5 * MIB / 4) as usize;
    // SAFETY: managed memory of so many words, which no GPU works on now.
    let host = unsafe { std::slice::from_raw_parts_mut(words, count) };
    host.fill(3);
    for context in [&here, &there] {
        let stream = context.legacy_stream();
        let args = vec![address, address, count as u64, 1];
        context.launch(stream, Kernel::Axpy, args).unwrap();
        context.synchronize().unwrap();
    }
    assert!(host.iter().all(|word| *word == 12));
    assert_eq!(driver.check_managed(address + 100, 4 * MIB), Ok(()));
    for (start, len) in [(address, 6 * MIB), (address, 0), (address, u64::MAX)] {
        assert_eq!(driver.check_managed(start, len), Err(Error::InvalidValue));
    }
    let plain = here.alloc(100).unwrap();
    assert_eq!(driver.check_managed(plain, 1), Err(Error::InvalidValue));
    assert_eq!(driver.ipc_handle(address), Err(Error::InvalidValue));
    here.free(address).unwrap();
    here.free(plain).unwrap();
    assert_eq!(driver.memory_info(0).0, free);
    assert_eq!(here.alloc_managed(0), Err(Error::InvalidValue));
    assert_eq!(here.alloc_managed(40 * MIB), Err(Error::OutOfMemory));
}

#[test]
fn variables_of_a_module_are_zeroed_memory_that_goes_with_it() {
    let (_dir, driver) = machine(1);
    let context = driver.retain_primary(0).unwrap();
    let free = driver.memory_info(0).0;
    // What the last owner left.
    let dirty = context.alloc(28 * MIB).unwrap();
    context
        .set(context.legacy_stream(), dirty, 7, 1, 28 << 20)
        .unwrap();
    context.free(dirty).unwrap();
    let image =
        b".version 6.0\n.global .align 4 .u32 table[500000];\n.visible .entry fill() { ret; }\0";
    let module = driver.modules.insert(&Module::load(image).unwrap());
    driver.place_globals(&context, module).unwrap();
    let (address, bytes) = driver.global(module, "table").unwrap();
    assert_eq!(bytes, 2_000_000);
    assert!(driver.memory_info(0).0 < free);
    let mut words = vec![1_u32; 500_000];
    let to = CopySide::Host(words.as_mut_ptr().expose_provenance());
    let from = CopySide::Device(address);
    context
        .copy(context.legacy_stream(), to, from, 2_000_000, true)
        .unwrap();
    assert!(words.iter().all(|word| *word == 0));
    assert_eq!(driver.global(module, "other"), Err(Error::NotFound));
    driver.place_globals(&context, module).unwrap();
    assert_eq!(driver.global(module, "table"), Ok((address, bytes)));
    driver.unload(module).unwrap();
    assert_eq!(driver.memory_info(0).0, free);
    assert_eq!(driver.global(module, "table"), Err(Error::InvalidHandle));
}
