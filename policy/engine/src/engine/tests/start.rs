use super::*;
use crate::saved::NextRelease;

/// Two processes of a daemon that is killed while both live.
fn killed() -> (Shell, Welcome, Welcome) {
    let mut shell = Shell::new();
    shell.register(options("yolo")).unwrap();
    let one = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    let other = shell.greet(hello(2, 71, None)).unwrap();
    (shell, one, other)
}

#[test]
fn requests_wait_until_all_processes_are_back() {
    let (shell, one, other) = killed();
    let mut shell = shell.restart(&[70, 71]);
    let one = shell.greet(again(11, 70, &one, 2 * MIB)).unwrap();
    assert_eq!(one.former, Some(watched(70)));
    shell.ring(&one, request());
    assert!(!shell.granted(one.connection));
    assert_eq!(shell.engine.recovery.pids(), [71].into());
    shell.greet(again(12, 71, &other, 0)).unwrap();
    assert!(shell.granted(one.connection), "{:?}", shell.outputs);
    assert_eq!(shell.engine.recovery.pids(), [].into());
    assert_eq!(shell.disk.sessions.len(), 2);
}

#[test]
fn requests_wait_no_longer_than_the_grace() {
    let (shell, one, other) = killed();
    let mut shell = shell.restart(&[70, 71]);
    let one = shell.greet(again(11, 70, &one, 0)).unwrap();
    shell.ring(&one, request());
    shell.wait(Time(seconds(2).0 - 1));
    assert!(!shell.granted(one.connection));
    shell.wait(seconds(2));
    assert!(shell.granted(one.connection));
    assert!(shell.outputs.contains(&Output::HurryNvml(true)));
    shell.wait(seconds(100));
    let other_back = shell.greet(again(12, 71, &other, 0)).unwrap();
    assert_eq!(
        other_back.registration, other.registration,
        "its cookie is still known"
    );
}

#[test]
fn requests_do_not_wait_for_the_dead() {
    let (shell, one, _) = killed();
    let mut shell = shell.restart(&[70, 71]);
    let one = shell.greet(again(11, 70, &one, 0)).unwrap();
    shell.ring(&one, request());
    shell.handle(Input::ProcessEnded(watched(71)));
    assert!(shell.forgets(watched(71)));
    assert!(shell.granted(one.connection));
    assert_eq!(shell.names(), ["yolo"], "its own task ended with it");
    let mut shell = shell.restart(&[]);
    assert_eq!(shell.names(), ["yolo"]);
    shell.wait(seconds(30));
    assert!(shell.names().is_empty(), "no process claimed it");
}

/// A daemon after one that leased the name "yolo", with a process of it and without.
fn after_a_lease(is_alive: bool) -> (Shell, Welcome) {
    let mut shell = Shell::new();
    shell.lease(options("yolo")).unwrap();
    let welcome = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    let alive: &[u32] = if is_alive { &[70] } else { &[] };
    let shell = shell.restart(alive).restart(alive);
    (shell, welcome)
}

#[test]
fn a_former_lease_ends_with_its_process() {
    let (mut shell, welcome) = after_a_lease(true);
    let back = shell.greet(again(11, 70, &welcome, 0)).unwrap();
    let refused = shell.lease(options("yolo")).unwrap_err();
    assert!(refused.to_string().contains("has a task named yolo"));
    shell.handle(Input::ProcessEnded(back.connection));
    assert!(shell.names().is_empty(), "no claim_timeout");
    shell.lease(options("yolo")).unwrap();
}

#[test]
fn a_former_lease_without_a_process_gives_its_name_to_the_next() {
    let (mut shell, welcome) = after_a_lease(false);
    assert_eq!(
        shell.names(),
        ["yolo"],
        "its program may not have said Hello"
    );
    let next = shell.lease(options("yolo")).unwrap();
    assert_ne!(next, welcome.registration);
    assert_eq!(shell.names(), ["yolo"]);
}

#[test]
fn an_awaited_process_that_executed_another_program_is_not_awaited() {
    let (shell, one, other) = killed();
    let mut shell = shell.restart(&[70, 71]);
    let one = shell.greet(again(11, 70, &one, 0)).unwrap();
    shell.ring(&one, request());
    let anew = shell.greet(hello(12, 71, None)).unwrap();
    assert!(shell.forgets(watched(71)));
    assert!(shell.granted(one.connection));
    assert_ne!(anew.registration, other.registration);
    assert_eq!(shell.names(), ["yolo", "python-71"]);
}

#[test]
fn part_of_an_awaited_session_is_refused() {
    let (shell, one, _) = killed();
    let mut shell = shell.restart(&[70, 71]);
    for (pid, cookie) in [(70, Cookie(9)), (72, one.cookie)] {
        let wrong = Hello {
            resumes: Some((one.registration, cookie)),
            ..hello(11, pid, None)
        };
        let (_, text) = shell.greet(wrong).unwrap_err();
        assert_eq!(text, "registration 1 belongs to another session");
    }
}

#[test]
fn an_unregistered_task_of_an_awaited_process_is_kept_for_it() {
    let (shell, one, _) = killed();
    let mut shell = shell.restart(&[70]);
    let end = Call::Unregister {
        caller: CALLER,
        registration: one.registration,
    };
    shell.call(end).unwrap();
    let back = shell.greet(again(11, 70, &one, 2 * MIB)).unwrap();
    assert_eq!(back.registration, one.registration);
    shell.handle(Input::ProcessEnded(ConnectionId(11)));
    assert!(shell.names().is_empty());
}

#[test]
fn files_keep_their_numbers_and_a_demotion_while_they_say_the_same() {
    let files = || ["a", "b"].map(|name| file(realtime(name))).to_vec();
    let small = |name| TaskOptions {
        footprint: Some(Bytes(2 * MIB)),
        swappable: Some(Bytes(0)),
        ..realtime(name)
    };
    let config = || config(vec![gpu(GPU)]);
    let mut shell = Shell::start(config(), Saved::default(), &[], files());
    let ids = ["a", "b"].map(|name| shell.engine.registry.find(USER, name).unwrap());
    for id in ids {
        shell.engine.record_demotion(id);
    }
    shell.handle(Input::Timer);
    let changed = vec![file(small("b")), file(realtime("a")), file(small("c"))];
    let next = Shell::start(config(), shell.disk.clone(), &[], changed);
    let entry = |name| {
        let id = next.engine.registry.find(USER, name).unwrap();
        next.engine.registry.get(id).unwrap()
    };
    assert_eq!([entry("a").id, entry("b").id], ids);
    assert!(entry("a").demoted, "an old promise was broken");
    assert!(!entry("b").demoted, "this one is new");
    assert_eq!(entry("c").id, RegistrationId(3));
    assert_eq!(next.engine.gpus[0].scheduler.state().tasks().count(), 3);
}

#[test]
fn the_numbers_that_a_start_gives_to_files_need_no_checkpoint() {
    let small = TaskOptions {
        footprint: Some(Bytes(2 * MIB)),
        swappable: Some(Bytes(0)),
        ..realtime("b")
    };
    // Files wait for their GPU, which is not known yet.
    let config = || config(Vec::new());
    let files = vec![file(realtime("a")), file(realtime("b"))];
    let before = Shell::start(config(), Saved::default(), &[], files).disk;
    let files = vec![file(realtime("a")), file(small), file(realtime("c"))];
    let next = Shell::start(config(), before.clone(), &[], files);
    let mut disk = before;
    for output in &next.outputs {
        if let Output::Record(record) = output {
            disk.apply(record.as_ref().clone());
        }
    }
    assert_eq!(disk.registrations.len(), 3);
    assert_eq!(disk, next.engine.saved());
}

#[test]
fn a_file_waits_for_its_gpu_to_be_known() {
    let files = vec![file(realtime("a"))];
    let mut shell = Shell::start(config(Vec::new()), Saved::default(), &[], files);
    assert_eq!(
        shell.engine.registry.get(RegistrationId(1)).unwrap().gpu,
        None
    );
    shell.name_gpu(Bytes(1 << 30));
    let welcome = shell.greet(hello(1, 70, Some("a"))).unwrap();
    assert_eq!(welcome.blocks.len(), 1);
    assert_eq!(
        shell.engine.registry.get(RegistrationId(1)).unwrap().gpu,
        Some(GPU)
    );
    assert!(shell.engine.tasks.on(RegistrationId(1), 0).is_some());
    assert_eq!(shell.disk, shell.engine.saved());
}

#[test]
fn what_a_smaller_gpu_cannot_promise_goes_on_as_best_effort() {
    let mut shell = Shell::new();
    let id = shell.register(realtime("a")).unwrap();
    let smaller = GpuConfig {
        memory: Some(Bytes(4 * MIB)),
        ..gpu(GPU)
    };
    let next = Shell::start(config(vec![smaller]), shell.disk.clone(), &[], Vec::new());
    assert!(!next.engine.registry.get(id).unwrap().is_realtime());
    assert_eq!(next.disk, next.engine.saved());
}

#[test]
fn a_promise_that_a_late_gpu_cannot_keep_is_recorded_as_void() {
    let large = GpuConfig {
        memory: Some(Bytes(64 * MIB)),
        ..gpu(GPU)
    };
    let first = config(vec![large]);
    let mut shell = Shell::start(first, Saved::default(), &[], Vec::new());
    let task = TaskOptions {
        footprint: Some(Bytes(40 * MIB)),
        ..realtime("a")
    };
    let id = shell.register(task).unwrap();
    let saved = shell.disk.clone();
    let mut shell = Shell::start(config(Vec::new()), saved, &[], Vec::new());
    assert!(shell.engine.registry.get(id).unwrap().is_realtime());
    shell.name_gpu(Bytes(32 * MIB));
    shell.greet(hello(1, 70, Some("a"))).unwrap();
    assert!(!shell.engine.registry.get(id).unwrap().is_realtime());
    assert_eq!(shell.disk, shell.engine.saved());
}

#[test]
fn eligible_times_outlive_daemons_that_do_not_know_the_gpu() {
    let other = Uuid::of([2; 16]);
    let releases = [GPU, other].map(|gpu| NextRelease {
        gpu,
        task: "a@1000".into(),
        at: seconds(5),
    });
    let saved = Saved {
        next_releases: releases.to_vec(),
        ..Saved::default()
    };
    let shell = Shell::start(config(Vec::new()), saved, &[], Vec::new());
    assert_eq!(shell.disk.next_releases, releases);
    let config = config(vec![gpu(GPU)]);
    let mut shell = Shell::start(config, shell.disk.clone(), &[], Vec::new());
    shell.register(realtime("a")).unwrap();
    assert_eq!(shell.engine.saved().next_releases, releases);
}
