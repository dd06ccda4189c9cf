//! `CUDA_VISIBLE_DEVICES`: a process's numbers of the GPUs are its own, the memory behind them is not.

use simgpu_core::config::{Config, GpuConfig, Size};
use simgpu_core::driver::{Driver, Place, Wishes};
use simgpu_core::{Error, Observer};

const MIB: u64 = 1 << 20;
const EXPORTABLE: Wishes = Wishes {
    handle_types: 1,
    flags: [1, 2, 0, 0, 0, 0, 0, 0],
};

fn config(gpus: usize, parent: Option<u32>) -> Config {
    let gpu = |number: usize| GpuConfig {
        memory: Size((32 + 2 * number as u64) * MIB),
        context_bytes: Size(2 * MIB),
        mig_parent: parent,
        ..GpuConfig::default()
    };
    Config {
        gpus: (0..gpus).map(gpu).collect(),
        ..Config::default()
    }
}

#[test]
fn a_process_numbers_what_it_sees_and_shares_what_it_holds() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config(3, None);
    let all = Driver::attach(dir.path(), Some(&config)).unwrap();
    let some = Driver::attach_seeing(dir.path(), None, Some("2,1")).unwrap();
    assert_eq!((all.count(), some.count()), (3, 2));
    assert_eq!(some.gpu(0).unwrap().memory, Size(36 * MIB));
    assert_eq!(some.uuid(0), all.uuid(2));
    assert_eq!((some.slot(0), some.slot(1)), (Ok(2), Ok(1)));
    assert_eq!(some.gpu(2).unwrap_err(), Error::InvalidDevice);
    assert_eq!(some.retain_primary(2).err(), Some(Error::InvalidDevice));

    let handle = some
        .create_physical_with(0, 4 * MIB, EXPORTABLE)
        .expect("its GPU 0 has room");
    let observer = Observer::open(dir.path()).unwrap();
    let used = || observer.gpus().iter().map(|gpu| gpu.used_bytes).collect();
    let used: Vec<u64> = used();
    assert_eq!(used, [0, 0, 4 * MIB]);
    let descriptor = some.export_physical(handle, 1).unwrap();
    let imported = all
        .import_physical(std::os::fd::AsFd::as_fd(&descriptor))
        .unwrap();
    assert_eq!(all.physical(imported).unwrap().place, Place::Gpu(2));
}

#[test]
fn a_process_sees_one_instance_by_its_own_uuid() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let config = config(2, Some(0));
    let first = Driver::attach(dir.path(), Some(&config)).unwrap();
    let asked = config.uuid_text(1);
    let second = Driver::attach_seeing(dir.path(), None, Some(&asked)).unwrap();
    assert_eq!((first.count(), second.count()), (1, 1));
    assert_eq!(first.uuid(0), Ok(config.uuid(0)));
    assert_eq!(second.uuid(0), Ok(config.uuid(1)));
    for driver in [&first, &second] {
        assert_eq!(driver.board_uuid(0), Ok(config.parent_uuid(0)));
        assert_eq!(driver.slot(0), Ok(0));
    }
}
