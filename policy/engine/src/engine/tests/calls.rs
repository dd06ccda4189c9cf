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
