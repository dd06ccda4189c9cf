use super::*;

#[test]
fn only_the_privileged_register_realtime_tasks() {
    let mut shell = Shell::new();
    let caller = Caller {
        privileged: false,
        ..CALLER
    };
    let register = |options| Call::Register {
        caller,
        options,
        claimant: None,
        lease: false,
    };
    let denied = shell.call(register(realtime("a"))).unwrap_err();
    assert!(matches!(denied, CallError::AccessDenied(_)), "{denied:?}");
    shell.call(register(options("a"))).unwrap();
    assert_eq!(shell.names(), ["a"]);
}

#[test]
fn only_the_privileged_take_more_than_the_default_weight() {
    let mut shell = Shell::new();
    let mut register = |name, weight, privileged| {
        let options = TaskOptions {
            weight: Some(weight),
            ..options(name)
        };
        shell.call(Call::Register {
            caller: Caller {
                privileged,
                ..CALLER
            },
            options,
            claimant: None,
            lease: false,
        })
    };
    assert_eq!(
        register("a", 101, false).unwrap_err().to_string(),
        alloc::format!(
            "user {} may not register tasks with a weight above 100: root may, here or by a file in \
             tasks.d; with a weight of at most 100 it needs no permission",
            CALLER.uid
        )
    );
    register("b", 100, false).unwrap();
    register("c", 101, true).unwrap();
    assert_eq!(shell.names(), ["b", "c"]);
}

#[test]
fn what_is_not_schedulable_leaves_nothing() {
    let mut shell = Shell::new();
    let large = TaskOptions {
        footprint: Some(Bytes(64 * MIB)),
        ..realtime("a")
    };
    let refused = shell.register(large).unwrap_err();
    assert!(
        matches!(refused, CallError::NotSchedulable(_)),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("16.0 MiB"), "{refused}");
    assert!(shell.names().is_empty());
    shell.wait(seconds(60));
    assert_eq!(shell.engine.saved().registrations, []);
    shell.register(realtime("a")).unwrap();
}

#[test]
fn what_needs_an_executor_is_refused_and_leaves_nothing() {
    let mut shell = Shell::new();
    let planned = |name| TaskOptions {
        needs_executor: true,
        ..realtime(name)
    };
    for refused in [shell.register(planned("a")), shell.lease(planned("a"))] {
        assert_eq!(refused, Err(CallError::NeedsExecutor("a".into())));
    }
    // No right that a user may be given helps, so that none is asked for.
    let refused = shell.call(Call::Register {
        caller: Caller {
            privileged: false,
            ..CALLER
        },
        options: planned("a"),
        claimant: None,
        lease: false,
    });
    assert_eq!(refused.unwrap_err(), CallError::NeedsExecutor("a".into()));
    assert!(shell.names().is_empty());
    shell.wait(seconds(60));
    assert_eq!(shell.engine.saved().registrations, []);
    shell.register(realtime("a")).unwrap();
}

#[test]
fn a_gpu_is_named_by_index_or_uuid_or_is_the_only_one() {
    let mut shell = Shell::start(config(Vec::new()), Saved::default(), &[], Vec::new());
    let none = shell.register(realtime("a")).unwrap_err();
    assert!(
        none.to_string().starts_with("no GPU is known yet"),
        "{none}"
    );
    let second = Uuid::of([2; 16]);
    let both = config(vec![gpu(GPU), gpu(second)]);
    let mut shell = Shell::start(both, Saved::default(), &[], Vec::new());
    let unclear = shell.register(realtime("a")).unwrap_err();
    assert!(
        matches!(unclear, CallError::InvalidArgument(_)),
        "{unclear:?}"
    );
    let on = |name, gpu: &str| TaskOptions {
        gpu: Some(gpu.into()),
        ..realtime(name)
    };
    let wrong = shell.register(on("a", "2")).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        alloc::format!("no GPU \"2\"; there are: 0 = {GPU}, 1 = {second}")
    );
    for (name, wanted, found) in [("a", "1", second), ("b", &*GPU.to_string(), GPU)] {
        let id = shell.register(on(name, wanted)).unwrap();
        assert_eq!(shell.engine.registry.get(id).unwrap().gpu, Some(found));
    }
}

#[test]
fn a_registration_is_ended_by_its_user_or_the_privileged() {
    let mut shell = Shell::new();
    let id = shell.register(options("a")).unwrap();
    let end = |uid, registration| Call::Unregister {
        caller: Caller {
            uid,
            privileged: false,
        },
        registration,
    };
    let denied = shell.call(end(7, id)).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "/org/rtswap/task/1 belongs to user 1000; only that user or root may end it"
    );
    assert_eq!(shell.call(end(USER, id)), Ok(Reply::Done));
    let gone = shell.call(end(USER, id)).unwrap_err();
    assert_eq!(gone, CallError::NoSuchTask(id));
    assert_eq!(gone.to_string(), "/org/rtswap/task/1 is not there");
}

#[test]
fn a_task_is_parked_and_resumed_by_its_user_or_the_privileged() {
    let mut shell = Shell::new();
    let id = shell.register(options("a")).unwrap();
    let park = |uid, registration| Call::Park {
        caller: Caller {
            uid,
            privileged: false,
        },
        registration,
    };
    let resume = |uid, registration| Call::Resume {
        caller: Caller {
            uid,
            privileged: uid == 0,
        },
        registration,
    };
    assert_eq!(
        shell.call(park(7, id)).unwrap_err().to_string(),
        "/org/rtswap/task/1 belongs to user 1000; only that user or root may park it"
    );
    assert_eq!(
        shell.call(resume(7, id)).unwrap_err().to_string(),
        "/org/rtswap/task/1 belongs to user 1000; only that user or root may resume it"
    );
    let other = RegistrationId(9);
    assert_eq!(
        shell.call(park(USER, other)),
        Err(CallError::NoSuchTask(other))
    );
    for is_parked in [true, false] {
        for _ in 0..2 {
            let call = if is_parked {
                park(USER, id)
            } else {
                resume(0, id)
            };
            assert_eq!(shell.call(call), Ok(Reply::Done));
            let status = shell.engine.status();
            assert_eq!(status.tasks[0].parked, is_parked);
            assert_eq!(shell.disk.registrations[0].parked, is_parked);
        }
    }
}

/// Parks the task, or resumes it.
fn set_parked(shell: &mut Shell, registration: RegistrationId, is_parked: bool) {
    let caller = CALLER;
    let call = if is_parked {
        Call::Park {
            caller,
            registration,
        }
    } else {
        Call::Resume {
            caller,
            registration,
        }
    };
    shell.call(call).unwrap();
}

#[test]
fn a_parked_task_waits_with_all_its_processes_also_for_the_next_daemon() {
    let mut shell = Shell::new();
    let id = shell.register(options("yolo")).unwrap();
    let first = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    set_parked(&mut shell, id, true);
    shell.ring(&first, request());
    assert!(!shell.granted(first.connection));
    let status = &shell.engine.status().tasks[0];
    assert_eq!(status.phase.name(), "parked");
    let waits = "parked: rtswapctl resume yolo brings it back";
    assert_eq!(status.waits.as_deref(), Some(waits));
    let second = shell.greet(hello(2, 71, Some("yolo"))).unwrap();
    shell.ring(&second, request());
    assert!(!shell.granted(second.connection));
    let mut shell = shell.restart(&[70, 71]);
    let first = shell.greet(again(11, 70, &first, 0)).unwrap();
    let second = shell.greet(again(12, 71, &second, 0)).unwrap();
    shell.ring(&first, request());
    shell.ring(&second, request());
    assert!(shell.engine.status().tasks[0].parked);
    assert!(!shell.granted(first.connection) && !shell.granted(second.connection));
    set_parked(&mut shell, id, false);
    assert!(shell.granted(first.connection));
    assert_eq!(shell.engine.status().tasks[0].phase.name(), "running");
}

#[test]
fn a_process_that_comes_back_under_its_registration_is_parked_still() {
    let mut shell = Shell::new();
    let id = shell.register(options("yolo")).unwrap();
    let first = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    set_parked(&mut shell, id, true);
    shell.handle(Input::ProcessEnded(first.connection));
    assert_eq!(shell.engine.status().tasks[0].phase.name(), "parked");
    let next = shell.greet(hello(2, 71, Some("yolo"))).unwrap();
    shell.ring(&next, request());
    assert!(!shell.granted(next.connection));
    // Without its registration it could not be resumed.
    let end = Call::Unregister {
        caller: CALLER,
        registration: id,
    };
    shell.call(end).unwrap();
    assert!(shell.granted(next.connection));
    assert!(!shell.engine.status().tasks[0].parked);
}

#[test]
fn a_process_without_a_registration_can_be_parked() {
    let mut shell = Shell::new();
    let own = shell.greet(hello(1, 70, None)).unwrap();
    set_parked(&mut shell, own.registration, true);
    shell.ring(&own, request());
    assert!(!shell.granted(own.connection));
    set_parked(&mut shell, own.registration, false);
    assert!(shell.granted(own.connection));
}
