//! Memory that was created to be shared: it swaps until somebody is given it, and then is one
//! allocation of the driver's for good.

use std::time::Duration;

use super::*;
use crate::cuda::Handle;

const DESCRIPTOR: AllocationProp = AllocationProp {
    handle_types: 1,
    flags: AllocationProp::RDMA,
    ..PROP
};

impl Program {
    /// Exports a handle as a descriptor while the daemon grants what is asked for; the driver's
    /// handle.
    fn export(&mut self, handle: u64) -> Result<u64> {
        self.back(0);
        let agent = self.bench.agent;
        let exported = std::thread::scope(|scope| {
            let exported = scope.spawn(move || {
                let mut given = 0;
                let call = |handle| {
                    given = handle;
                    Ok(())
                };
                let result = agent.export_physical(handle, 1, 0, call);
                result.expect("a handle of ours").map(|()| given)
            });
            self.bench.grant_until(|| exported.is_finished());
            exported.join().unwrap()
        });
        self.bench.idle();
        exported
    }

    /// Nine units with these bytes, mapped at two places, the second for reading only.
    fn load(&mut self, bytes: &[u8]) -> u64 {
        let handle = self.create_as(9, &DESCRIPTOR).unwrap();
        self.map(0, 9, handle).unwrap();
        self.allow(0, 9, &rights(Access::READ_WRITE)).unwrap();
        self.map(20, 9, handle).unwrap();
        self.allow(20, 9, &rights(Access::READ)).unwrap();
        self.write(0, bytes);
        handle
    }

    fn drop_all(&mut self, handle: u64) {
        self.unmap(0, 9).unwrap();
        self.unmap(20, 9).unwrap();
        self.release(handle).unwrap();
    }
}

#[test]
fn it_swaps_until_it_is_exported_and_stays_then() {
    let mut program = Program::new("exported", 16);
    let before = program.bench.usage();
    let bytes = pattern(3, 9 * UNIT as usize);
    let handle = program.load(&bytes);
    assert!(Book::is_ours(handle));
    program.out(4);
    assert_eq!(program.driver().used(), 0, "all of it left");
    assert_eq!(program.read(0, bytes.len()), Ok(bytes.clone()));

    let whole = program.export(handle).unwrap();
    let driver = program.driver();
    assert_eq!(driver.asked(whole), Some(DESCRIPTOR), "as it was asked for");
    assert!(driver.is_live(whole, 9 * UNIT) && !driver.is_live(whole, 9 * UNIT + 1));
    assert_eq!(driver.used(), CHUNK + 9 * UNIT, "the pieces are gone");
    assert_eq!(program.bench.usage().0 - before.0, 9 * UNIT);
    assert_eq!(program.export(handle), Ok(whole), "once is enough");
    program.out(16);
    assert_eq!(driver.used(), 9 * UNIT, "it stays");
    for unit in [0, 20] {
        let read = driver.read(program.region + unit * UNIT, bytes.len());
        assert_eq!(read.as_ref(), Ok(&bytes));
    }
    program.write(0, b"new");
    assert_eq!(program.read(20, 3), Ok(b"new".to_vec()), "one memory");
    let denied = program.work(|driver, region| driver.write(region + 20 * UNIT, b"no"));
    assert_eq!(denied, Err(Status(700)), "rights are as before");

    // The program's handle is as good as before.
    let agent = program.bench.agent;
    assert_eq!(agent.physical_prop(handle), Some(Ok(DESCRIPTOR)));
    let again = agent.retain_physical(program.region + 5, || panic!("ours"));
    assert_eq!(again, Ok(handle));
    program.release(handle).unwrap();
    program.map(40, 9, handle).unwrap();
    program.allow(40, 9, &rights(Access::READ)).unwrap();
    assert_eq!(program.read(40, 3), Ok(b"new".to_vec()));
    program.unmap(40, 9).unwrap();
    program.drop_all(handle);
    assert_eq!(program.release(handle), Err(Status::INVALID_VALUE));
    program.back(0);
    assert_eq!(program.driver().used(), CHUNK);
    assert_eq!(program.bench.usage(), before);
}

#[test]
fn a_driver_that_refuses_a_step_of_an_export_leaves_everything_as_it_was() {
    let mut program = Program::new("export-faults", 16);
    let mut empty = program.bench.usage();
    let bytes = pattern(5, 9 * UNIT as usize);
    let mut refused = Vec::new();
    for number in 0.. {
        let handle = program.load(&bytes);
        let (before, used) = (program.bench.usage(), program.driver().used());
        program.driver().refuse_call(number);
        let exported = program.export(handle);
        let Some(name) = program.driver().refused() else {
            exported.unwrap();
            break;
        };
        // What only marks work or cleans up may fail.
        if exported.is_err() {
            refused.push(name);
            assert_eq!(program.bench.usage(), before, "{number}: {name}");
            assert_eq!(program.driver().used(), used, "{number}: {name}");
            let read = program.read(20, bytes.len());
            assert_eq!(read, Ok(bytes.clone()), "{number}: {name}");
            program.out(4);
        }
        for unit in [0, 20] {
            let read = program.read(unit, bytes.len());
            assert_eq!(read, Ok(bytes.clone()), "{number}: {name}");
        }
        program.drop_all(handle);
        if name == "release" {
            // What cannot be freed stays counted.
            empty = program.bench.usage();
        }
        assert_eq!(program.bench.usage(), empty, "{number}: {name}");
    }
    for step in [
        "create",
        "reserve",
        "map",
        "set_access",
        "copy_within",
        "unmap",
    ] {
        assert!(refused.contains(&step), "{step} not in {refused:?}");
    }
}

#[test]
fn what_was_never_mapped_is_exported_beside_running_work() {
    let program = Program::new("export-blank", 16);
    let handle = program.create_as(5, &DESCRIPTOR).unwrap();
    let stream = Stream(0x51);
    let (agent, driver) = (program.bench.agent, program.driver());
    driver.set_busy(stream, true);
    let exported = program.bench.launch(|| {
        agent
            .work
            .mark(&crate::gate::InCall::begin(), stream, u64::MAX);
        agent.export_physical(handle, 1, 0, |_| Ok(()))
    });
    assert_eq!(exported, Some(Ok(())));
    driver.set_busy(stream, false);
    program.bench.idle();
    program.release(handle).unwrap();
    assert_eq!(driver.used(), CHUNK);
}

#[test]
fn work_that_does_not_end_is_waited_for_within_the_drain_bound() {
    let mut program = Program::with_terms("export-busy", 16, |terms| terms.drain_ms = 50);
    let bytes = pattern(7, 9 * UNIT as usize);
    let handle = program.load(&bytes);
    let stream = Stream(0x52);
    let (agent, driver) = (program.bench.agent, program.driver());
    program.bench.launch(|| {
        let call = agent.enter_on(stream, &|_| ());
        driver.set_busy(stream, true);
        drop(call);
    });
    let start = std::time::Instant::now();
    let exported = agent.export_physical(handle, 1, 0, |_| panic!("not exported"));
    assert_eq!(exported, Some(Err(Status::NOT_PERMITTED)));
    assert!(start.elapsed() >= Duration::from_millis(50));
    driver.set_busy(stream, false);
    program.bench.idle();
    program.out(4);
    assert_eq!(driver.used(), 0, "it swaps as before");
    assert_eq!(program.read(0, bytes.len()), Ok(bytes));
    assert!(program.export(handle).is_ok());
}

#[test]
fn kinds_of_handle_that_the_driver_lacks_are_its_own_answer() {
    let program = Program::new("kinds", 8);
    let agent = program.bench.agent;
    let before = program.bench.usage();
    let kind = |handle_types| AllocationProp {
        handle_types,
        ..PROP
    };
    // The fake has no fabric; frameworks ask for it first, alone or with a descriptor.
    for fabric in [8, 9] {
        let refused = program.create_as(2, &kind(fabric));
        assert_eq!(refused, Err(Status::NOT_PERMITTED));
    }
    let calls = program.driver().calls();
    let first = program.create_as(2, &kind(1)).unwrap();
    let asked = program.driver().calls() - calls;
    let calls = program.driver().calls();
    let second = program.create_as(2, &kind(1)).unwrap();
    assert!(program.driver().calls() - calls < asked, "asked once only");
    let export =
        |handle, kind| agent.export_physical(handle, kind, 0, |_| panic!("refused before"));
    assert_eq!(
        export(first, 8),
        Some(Err(Status::INVALID_VALUE)),
        "not asked for"
    );
    assert_eq!(
        export(first, 9),
        Some(Err(Status::INVALID_VALUE)),
        "two kinds"
    );
    let flags = agent.export_physical(first, 1, 1, |_| panic!("refused before"));
    assert_eq!(flags, Some(Err(Status::INVALID_VALUE)));
    let private = program.create(1).unwrap();
    assert_eq!(export(private, 1), Some(Err(Status::INVALID_VALUE)));
    assert_eq!(export(7, 1), None, "the driver's");
    for handle in [first, second, private] {
        program.release(handle).unwrap();
        assert_eq!(
            export(handle, 1),
            Some(Err(Status::INVALID_VALUE)),
            "released"
        );
    }
    assert_eq!(program.bench.usage(), before);
    assert_eq!(program.driver().used(), CHUNK);
}

/// A dma-buf, a multicast object and synchronous copies are given all of it too.
#[test]
fn other_devices_are_given_one_allocation() {
    let mut program = Program::new("devices", 16);
    let agent = program.bench.agent;
    let bytes = pattern(9, 9 * UNIT as usize);
    let handle = program.load(&bytes);
    program.out(4);
    let (region, mut parts) = (program.region, Vec::new());
    let shared = std::thread::scope(|scope| {
        let kept = scope.spawn(move || agent.keep_range(region + UNIT, UNIT));
        program.back(0);
        program.bench.grant_until(|| kept.is_finished());
        kept.join().unwrap()
    });
    assert_eq!(shared, Ok(()));
    assert!(
        agent.mapped_at(region).is_none(),
        "the driver answers for it"
    );
    let bound = agent.bind_physical(
        handle,
        UNIT,
        8 * UNIT,
        |part| {
            parts.push(part);
            Ok(())
        },
        |_| (),
    );
    assert_eq!(bound, Some(Ok(())));
    let [part] = parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!((part.offset, part.at, part.bytes), (UNIT, 0, 8 * UNIT));
    assert_eq!(program.driver().asked(part.handle), Some(DESCRIPTOR));
    assert!(program.driver().release(Handle(part.handle + 1)).is_err());
    program.out(16);
    assert_eq!(program.driver().read(region, bytes.len()), Ok(bytes));
    program.drop_all(handle);
}

#[test]
fn all_of_a_range_is_kept_behind_what_is_one_allocation_already() {
    let mut program = Program::new("range", 16);
    let agent = program.bench.agent;
    let bytes = pattern(11, 9 * UNIT as usize);
    let first = program.load(&bytes);
    let second = program.create_as(3, &DESCRIPTOR).unwrap();
    program.map(9, 3, second).unwrap();
    program.allow(9, 3, &rights(Access::READ_WRITE)).unwrap();
    // Behind a gap.
    let third = program.create_as(2, &DESCRIPTOR).unwrap();
    program.map(14, 2, third).unwrap();
    program.allow(14, 2, &rights(Access::READ_WRITE)).unwrap();
    program.export(first).unwrap();
    let region = program.region;
    let kept = std::thread::scope(|scope| {
        let kept = scope.spawn(move || agent.keep_range(region, 16 * UNIT));
        program.bench.grant_until(|| kept.is_finished());
        kept.join().unwrap()
    });
    assert_eq!(kept, Ok(()));
    program.bench.idle();
    program.out(16);
    assert_eq!(program.driver().used(), 14 * UNIT, "all three stay");
    let kept = program.bench.daemon.block().agent.kept();
    assert_eq!(
        (kept.processes_bytes, kept.devices_bytes),
        (9 * UNIT, 5 * UNIT)
    );
    program.unmap(9, 3).unwrap();
    program.unmap(14, 2).unwrap();
    program.release(second).unwrap();
    program.release(third).unwrap();
    program.drop_all(first);
    let kept = program.bench.daemon.block().agent.kept();
    assert_eq!((kept.processes_bytes, kept.devices_bytes), (0, 0));
}

/// No gate of ours stops another GPU while the memory is put together: it is done before.
#[test]
fn another_gpu_is_given_one_allocation() {
    let mut program = Program::new("peer-whole", 16);
    let bytes = pattern(13, 9 * UNIT as usize);
    let handle = program.load(&bytes);
    let (agent, driver, at) = (program.bench.agent, program.bench.driver, program.region);
    let peer = [Access::full(1)];
    let allowed = std::thread::scope(|scope| {
        let allowed = scope.spawn(move || {
            let call = |at, bytes| driver.set_access(at, bytes, &peer);
            agent.set_access(at, 9 * UNIT, &peer, call)
        });
        program.bench.grant_until(|| allowed.is_finished());
        allowed.join().unwrap()
    });
    assert_eq!(allowed, Ok(()));
    program.bench.idle();
    assert!(driver.may_write(1, at));
    assert!(agent.mapped_at(at).is_none(), "the driver answers for it");
    program.out(16);
    assert_eq!(driver.read(at, bytes.len()), Ok(bytes));
    program.drop_all(handle);
}

#[test]
fn nothing_is_mapped_over_what_is_swapped_out() {
    let mut program = Program::new("over", 16);
    let handle = program.load(&pattern(15, 9 * UNIT as usize));
    program.export(handle).unwrap();
    let other = program.create(4).unwrap();
    program.map(40, 4, other).unwrap();
    program.out(16);
    assert_eq!(program.map(42, 9, handle), Err(Status::INVALID_VALUE));
    let agent = program.bench.agent;
    let at = program.region + 42 * UNIT;
    let theirs = agent.map_physical(at, UNIT, 0, 7, 0, || panic!("not the driver's"));
    assert_eq!(theirs, Err(Status::INVALID_VALUE));
    program.unmap(40, 4).unwrap();
    program.release(other).unwrap();
    program.drop_all(handle);
}

#[test]
fn without_a_daemon_memory_is_exported_all_the_same() {
    let mut program = Program::new("export-alone", 16);
    let bytes = pattern(17, 9 * UNIT as usize);
    let handle = program.load(&bytes);
    let agent = program.bench.agent;
    let device = &agent.devices[0];
    device.memory().set_alone();
    device.go_alone();
    let exported = agent.export_physical(handle, 1, 0, |_| Ok(()));
    assert_eq!(exported, Some(Ok(())));
    assert_eq!(
        program.driver().read(program.region, bytes.len()),
        Ok(bytes)
    );
    // The gate is open as before.
    drop(agent.enter());
    program.drop_all(handle);
}
