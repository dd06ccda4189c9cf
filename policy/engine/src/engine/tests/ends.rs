use super::*;
use crate::registry::Origin;

#[test]
fn a_registration_outlives_its_last_process_by_the_claim_timeout() {
    let mut shell = Shell::new();
    let idle = shell.engine.poll_timeout();
    let id = shell.register(options("yolo")).unwrap();
    shell.wait(seconds(29));
    shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    shell.greet(hello(2, 71, Some("yolo"))).unwrap();
    shell.wait(seconds(100));
    shell.handle(Input::ProcessEnded(ConnectionId(1)));
    assert!(shell.forgets(ConnectionId(1)));
    shell.wait(seconds(200));
    shell.handle(Input::ProcessEnded(ConnectionId(2)));
    assert_eq!(shell.names(), ["yolo"]);
    shell.wait(seconds(229));
    assert_eq!(shell.names(), ["yolo"]);
    assert_eq!(shell.disk.registrations.len(), 1);
    shell.wait(seconds(230));
    assert!(shell.names().is_empty());
    assert_eq!(shell.disk.registrations, []);
    assert_eq!(shell.engine.tasks.of(id).count(), 0);
    assert!(
        shell.engine.gpus[0]
            .scheduler
            .state()
            .tasks()
            .next()
            .is_none()
    );
    assert!(idle.is_some_and(|nvml| nvml < shell.now), "long ago");
    assert_eq!(shell.engine.poll_timeout(), None, "no timer is left behind");
}

#[test]
fn a_process_goes_on_as_best_effort_without_its_registration() {
    let mut shell = Shell::new();
    let id = shell.register(realtime("yolo")).unwrap();
    let welcome = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    let end = Call::Unregister {
        caller: CALLER,
        registration: id,
    };
    shell.call(end.clone()).unwrap();
    let entry = shell.engine.registry.get(id).unwrap();
    assert_eq!(
        (entry.origin, entry.is_realtime()),
        (Origin::Session, false)
    );
    assert_eq!(
        shell.call(end.clone()).unwrap_err().to_string(),
        "/org/rtswap/task/1 is a process's own and ends with it"
    );
    assert_eq!(shell.disk, shell.engine.saved());
    // Others are refused it for the same reason, and not for a right that would not help them.
    let others = Call::Unregister {
        caller: Caller {
            uid: CALLER.uid + 1,
            privileged: false,
        },
        registration: id,
    };
    let refused = shell.call(others).unwrap_err();
    assert!(
        matches!(refused, CallError::InvalidArgument(_)),
        "{refused:?}"
    );
    shell.ring(&welcome, request());
    assert!(shell.granted(ConnectionId(1)));
    assert!(
        shell.register(realtime("yolo")).is_err(),
        "the name is taken"
    );
    shell.handle(Input::Disconnected(ConnectionId(1)));
    let refused = shell.call(end).unwrap_err();
    assert!(matches!(refused, CallError::AgentLost(_)), "{refused:?}");
    shell.handle(Input::ProcessEnded(ConnectionId(1)));
    assert!(shell.names().is_empty());
    shell.register(realtime("yolo")).unwrap();
}

#[test]
fn a_lease_ends_its_registration_and_nothing_else_does() {
    let mut shell = Shell::new();
    let call = Call::Register {
        caller: CALLER,
        options: realtime("yolo"),
        claimant: None,
        lease: true,
    };
    let Ok(Reply::Registered(id)) = shell.call(call) else {
        panic!("there is room");
    };
    shell.wait(seconds(100));
    shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    shell.handle(Input::ProcessEnded(ConnectionId(1)));
    shell.wait(seconds(200));
    assert_eq!(shell.names(), ["yolo"]);
    shell.handle(Input::LeaseEnded(id));
    assert!(shell.names().is_empty());
    assert_eq!(shell.disk.registrations, []);
    assert_eq!(shell.handle(Input::LeaseEnded(id)), [], "once");
}

#[test]
fn all_tasks_of_a_dead_process_lose_it() {
    let mut shell = Shell::start(
        config(vec![gpu(GPU), gpu(Uuid::of([2; 16]))]),
        Saved::default(),
        &[],
        Vec::new(),
    );
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    for gpu in 0..2 {
        shell.handle(Input::Block {
            connection: ConnectionId(1),
            gpu,
            block: request(),
            rang: true,
        });
        assert!(shell.granted(ConnectionId(1)), "on GPU {gpu}");
    }
    assert_eq!(shell.engine.tasks.of(welcome.registration).count(), 2);
    shell.handle(Input::ProcessEnded(ConnectionId(1)));
    assert_eq!(shell.engine.tasks.of(welcome.registration).count(), 0);
    for gpu in &shell.engine.gpus {
        assert!(gpu.scheduler.state().tasks().next().is_none());
    }
}
