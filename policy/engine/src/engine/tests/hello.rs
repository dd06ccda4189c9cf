use super::*;
use crate::ids::Claimant;
use crate::output::Level;
use crate::owners::{Owner, Subordinate, Subordinates};

#[test]
fn a_name_that_is_not_registered_is_refused() {
    let mut shell = Shell::new();
    let (code, text) = shell.greet(hello(1, 70, Some("yolo"))).unwrap_err();
    assert_eq!(code, RefusalCode::Claim);
    assert_eq!(
        text,
        "no task named yolo is registered for user 1000; register it first (rtswapctl run --name \
         yolo does both)"
    );
    let warned = |output: &Output| matches!(output, Output::Log(line) if line.level == Level::Warn);
    assert!(shell.outputs.iter().any(warned), "{:?}", shell.outputs);
    assert_eq!(shell.disk, shell.engine.saved(), "nothing is left of it");
}

#[test]
fn a_process_without_a_name_gets_a_task_of_its_own_that_ends_with_it() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    assert_eq!((welcome.former, welcome.cookie), (None, Cookie(1 << 32)));
    assert_eq!(welcome.blocks.len(), 1);
    assert_eq!(welcome.blocks[0].capacity, Bytes(16 * MIB));
    let second = shell.greet(hello(2, 70, None)).unwrap();
    assert_ne!(second.registration, welcome.registration);
    assert_eq!(shell.names(), ["python-70", "python-70-2"]);
    shell.handle(Input::ProcessEnded(welcome.connection));
    assert_eq!(shell.names(), ["python-70-2"]);
}

#[test]
fn a_cookie_brings_the_session_back() {
    let mut shell = Shell::new();
    let id = shell.register(options("yolo")).unwrap();
    let welcome = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    assert_eq!(welcome.registration, id);
    shell.handle(Input::Disconnected(ConnectionId(1)));
    assert!(!shell.forgets(ConnectionId(1)), "its process lives");
    let back = shell.greet(again(2, 70, &welcome, 4 * MIB)).unwrap();
    assert_eq!(
        (back.former, back.registration),
        (Some(ConnectionId(1)), id)
    );
    assert_eq!(back.cookie, welcome.cookie);
    // Nobody knows of its memory, but there is room for it.
    let mut budgets = shell.outputs.iter().filter_map(|output| match output {
        Output::Order {
            connection,
            order: Order::SetBudget { bytes, .. },
            ..
        } => Some((*connection, *bytes)),
        _ => None,
    });
    assert_eq!(budgets.next_back(), Some((ConnectionId(2), Bytes(4 * MIB))));
    let sessions: Vec<_> = shell.engine.sessions.of(id).collect();
    assert_eq!(
        sessions.len(),
        1,
        "one process is one session: {sessions:?}"
    );
    assert_eq!(sessions[0].0.process.0, 1, "by its first connection");
    // A late event of the former connection belongs to no session.
    shell.handle(Input::Disconnected(ConnectionId(1)));
    shell.ring(&back, request());
    assert!(shell.granted(ConnectionId(2)), "{:?}", shell.outputs);
}

#[test]
fn a_job_that_runs_goes_on() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    assert_eq!(welcome.blocks[0].granted, None);
    shell.handle(Input::Disconnected(ConnectionId(1)));
    let mut resuming = again(2, 70, &welcome, 2 * MIB);
    let device = &mut resuming.devices[0];
    (device.requested, device.granted, device.completed) = (4, 4, 3);
    let back = shell.greet(resuming).unwrap();
    assert_eq!(back.blocks[0].granted, Some(JobSeq(4)));
}

#[test]
fn a_wrong_cookie_is_refused_and_the_session_stays() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    shell.handle(Input::Disconnected(ConnectionId(1)));
    for (pid, cookie) in [(70, Cookie(9)), (71, welcome.cookie)] {
        let wrong = Hello {
            resumes: Some((welcome.registration, cookie)),
            ..hello(2, pid, None)
        };
        let (code, text) = shell.greet(wrong).unwrap_err();
        assert_eq!(code, RefusalCode::Claim);
        assert_eq!(text, "registration 1 belongs to another session");
    }
    let other_user = Hello {
        peer: Peer {
            uid: 7,
            ..hello(2, 70, None).peer
        },
        ..again(2, 70, &welcome, 0)
    };
    shell.greet(other_user).unwrap_err();
    assert!(shell.greet(again(3, 70, &welcome, 0)).is_ok());
}

#[test]
fn a_process_that_executed_another_program_begins_anew() {
    let mut shell = Shell::new();
    shell.register(options("yolo")).unwrap();
    let yolo = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    shell.greet(hello(2, 70, None)).unwrap();
    shell.handle(Input::Disconnected(ConnectionId(1)));
    shell.handle(Input::Disconnected(ConnectionId(2)));
    let welcome = shell.greet(hello(3, 70, Some("yolo"))).unwrap();
    assert_eq!(
        (welcome.former, welcome.registration),
        (None, yolo.registration)
    );
    assert_ne!(welcome.cookie, yolo.cookie);
    assert!(shell.forgets(ConnectionId(1)) && shell.forgets(ConnectionId(2)));
    assert_eq!(shell.names(), ["yolo"], "its own task went with it");
    assert_eq!(shell.disk.sessions.len(), 1);
    shell.wait(seconds(60));
    assert_eq!(
        shell.names(),
        ["yolo"],
        "claimed, so not in want of a process"
    );
}

#[test]
fn a_number_that_nobody_knows_begins_anew() {
    let mut shell = Shell::new();
    let stranger = Hello {
        resumes: Some((RegistrationId(99), Cookie(5))),
        ..hello(1, 70, None)
    };
    let welcome = shell.greet(stranger).unwrap();
    assert_eq!((welcome.former, welcome.cookie), (None, Cookie(1 << 32)));
}

#[test]
fn one_process_claims_a_task_once() {
    let mut shell = Shell::new();
    shell.register(options("yolo")).unwrap();
    shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    let (_, text) = shell.greet(hello(2, 70, Some("yolo"))).unwrap_err();
    assert!(
        text.starts_with("pid 70 has a session of task yolo already"),
        "{text}"
    );
    for at in 1..128 {
        shell
            .greet(hello(2 + at, 70 + u32::try_from(at).unwrap(), Some("yolo")))
            .unwrap();
    }
    let (_, text) = shell.greet(hello(999, 900, Some("yolo"))).unwrap_err();
    assert!(
        text.starts_with("task yolo has 128 processes, which is the most"),
        "{text}"
    );
}

#[test]
fn only_its_process_claims_a_task_even_of_the_next_daemon() {
    let mut shell = Shell::new();
    let own = hello(1, 70, Some("yolo"));
    let claimant = Claimant {
        pid: 70,
        start_ticks: own.peer.start_ticks,
    };
    let call = Call::Register {
        caller: CALLER,
        options: options("yolo"),
        claimant: Some(claimant),
        lease: false,
    };
    shell.call(call).unwrap();
    let mut shell = shell.restart(&[]);
    let successor = Hello {
        peer: Peer {
            start_ticks: 1,
            unit: None,
            ..own.peer.clone()
        },
        ..own.clone()
    };
    for other in [hello(2, 71, Some("yolo")), successor] {
        let (_, text) = shell.greet(other).unwrap_err();
        assert!(
            text.starts_with("task yolo was registered for another process"),
            "{text}"
        );
    }
    shell.greet(own).unwrap();
}

#[test]
fn a_welcome_that_cannot_be_sent_leaves_nothing() {
    let mut shell = Shell::new();
    shell.register(options("yolo")).unwrap();
    let before = shell.disk.clone();
    shell.sends = false;
    shell.wait(seconds(20));
    shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    assert!(shell.forgets(ConnectionId(1)));
    assert_eq!(shell.disk, before);
    shell.greet(hello(2, 70, None)).unwrap();
    assert_eq!(shell.names(), ["yolo"]);
    assert_eq!(shell.disk.sessions, []);
    shell.wait(seconds(49));
    assert_eq!(shell.names(), ["yolo"], "it waits for a process again");
    shell.wait(seconds(51));
    assert!(shell.names().is_empty());
}

#[test]
fn a_welcome_back_that_cannot_be_sent_changes_nothing() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    shell.handle(Input::Disconnected(ConnectionId(1)));
    shell.sends = false;
    shell.greet(again(2, 70, &welcome, 0)).unwrap();
    assert!(shell.forgets(ConnectionId(2)) && !shell.forgets(ConnectionId(1)));
    shell.sends = true;
    let back = shell.greet(again(3, 70, &welcome, 0)).unwrap();
    assert_eq!(back.former, Some(ConnectionId(1)));
}

/// A Hello of a process of that user, or of root in that unit.
fn of_owner(pid: u32, uid: u32, unit: Option<&str>) -> Hello {
    let mut hello = hello(u64::from(pid), pid, None);
    hello.peer.uid = uid;
    hello.peer.unit = unit.map(Into::into);
    hello
}

#[test]
fn one_owner_leaves_half_of_the_sessions_to_others() {
    let mut settings = config(vec![gpu(GPU)]);
    settings.max_sessions = 100;
    let range = Subordinate {
        first: 100_000,
        count: 65_536,
        user: 1000,
    };
    settings.subordinates = Subordinates::new(vec![range]);
    let mut shell = Shell::start(settings, Saved::default(), &[], Vec::new());
    // Its subordinate ids are the same owner's.
    let user = |pid| if pid % 2 == 0 { 1000 } else { 100_000 + pid };
    let welcomed = (1..80).filter(|&pid| shell.greet(of_owner(pid, user(pid), None)).is_ok());
    assert_eq!(welcomed.count(), 50);
    let (code, text) = shell.greet(of_owner(90, 1000, None)).unwrap_err();
    assert_eq!(code, RefusalCode::Busy);
    assert!(
        text.starts_with("user 1000 has 50 of 50 processes"),
        "{text}"
    );
    // Root in two containers is two owners, root itself is not limited.
    for (first, unit, most) in [
        (100, Some("docker a"), 25),
        (200, Some("docker b"), 12),
        (300, None, 80),
    ] {
        let welcomed =
            (first..first + 80).filter(|&pid| shell.greet(of_owner(pid, 0, unit)).is_ok());
        assert_eq!(welcomed.count(), most, "{unit:?}");
    }
    for pid in 1..80 {
        shell.handle(Input::ProcessEnded(ConnectionId(pid)));
    }
    assert!(
        shell.greet(of_owner(90, 1000, None)).is_err(),
        "root has most now"
    );
}

#[test]
fn an_owner_pays_for_requests_of_what_is_scheduled_as_best_effort() {
    let mut shell = Shell::new();
    let id = shell.register(realtime("camera")).unwrap();
    shell.greet(hello(1, 70, None)).unwrap();
    shell.greet(hello(2, 71, Some("camera"))).unwrap();
    shell.greet(of_owner(4, 0, None)).unwrap();
    shell.greet(of_owner(5, 0, Some("docker a"))).unwrap();
    let payer = |shell: &Shell, id| shell.engine.payer(ConnectionId(id)).cloned();
    assert_eq!(payer(&shell, 1), Some(Owner::User(1000)));
    assert_eq!([2, 3].map(|id| payer(&shell, id)), [None, None]);
    assert_eq!(payer(&shell, 4), None, "root on the host is not limited");
    assert_eq!(payer(&shell, 5), Some(Owner::Unit("docker a".into())));
    shell.engine.record_demotion(id);
    assert_eq!(payer(&shell, 2), Some(Owner::User(1000)));
}
