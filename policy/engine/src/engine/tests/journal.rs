use alloc::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::output::Level;

fn place(outputs: &[Output], is: impl Fn(&Output) -> bool) -> Option<usize> {
    outputs.iter().position(is)
}

#[test]
fn a_record_comes_before_what_tells_of_it() {
    let mut shell = Shell::new();
    let record = |output: &Output| matches!(output, Output::Record(_));
    shell.register(options("yolo")).unwrap();
    let kept = place(&shell.outputs, record).expect("a registration is recorded");
    assert!(place(&shell.outputs, |it| matches!(it, Output::Answer(..))) > Some(kept));
    for name in [Some("yolo"), None] {
        shell.greet(hello(1, 70, name)).unwrap();
        let kept = place(&shell.outputs, record).expect("a session is recorded");
        assert!(place(&shell.outputs, |it| matches!(it, Output::Welcome(_))) > Some(kept));
        assert_eq!(shell.disk, shell.engine.saved());
        shell.handle(Input::ProcessEnded(ConnectionId(1)));
        assert!(place(&shell.outputs, record).is_some());
        assert_eq!(shell.disk, shell.engine.saved());
    }
}

#[test]
fn nothing_is_recorded_where_nothing_changed() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 70, None)).unwrap();
    let record = |output: &Output| matches!(output, Output::Record(_));
    shell.ring(&welcome, request());
    assert_eq!(place(&shell.outputs, record), None);
    shell.handle(Input::Disconnected(ConnectionId(1)));
    assert_eq!(place(&shell.outputs, record), None);
    shell.greet(again(2, 70, &welcome, 0)).unwrap();
    assert_eq!(place(&shell.outputs, record), None);
}

#[test]
fn a_record_that_is_lost_is_made_good_by_a_checkpoint() {
    let mut shell = Shell::new();
    shell.keeps = false;
    shell.register(options("yolo")).unwrap();
    let error = |output: &Output| matches!(output, Output::Log(line) if line.level == Level::Error);
    assert_eq!(
        place(&shell.outputs, error),
        None,
        "the shell knows the reason, and logs it once"
    );
    assert_eq!(shell.disk.registrations, []);
    shell.wait(Time(shell.now.0 + 250_000_000));
    assert_eq!(shell.disk, shell.engine.saved());
}

#[test]
fn many_records_end_in_a_checkpoint() {
    let mut shell = Shell::new();
    let mut checkpoints = 0;
    let mut records = 0;
    for at in 0..300 {
        let id = shell.register(options("yolo")).unwrap();
        records += 1;
        let end = Call::Unregister {
            caller: CALLER,
            registration: id,
        };
        shell.call(end).unwrap();
        records += 1;
        shell.wait(shell.now);
        if place(&shell.outputs, |it| *it == Output::Checkpoint).is_some() {
            checkpoints += 1;
            assert_eq!(records, 256, "in round {at}");
            records = 0;
        }
    }
    assert_eq!(checkpoints, 2);
}

#[test]
fn eligible_times_are_in_a_checkpoint_soon_after_a_job() {
    let mut shell = Shell::new();
    shell.register(realtime("yolo")).unwrap();
    let welcome = shell.greet(hello(1, 70, Some("yolo"))).unwrap();
    let mut block = Block {
        backing: (1, Bytes(4 * MIB)),
        ..request()
    };
    let jobs = block.jobs.as_mut().unwrap();
    jobs.kind = JobKind::Declared;
    shell.ring(&welcome, block);
    assert!(shell.granted(ConnectionId(1)), "{:?}", shell.outputs);
    shell.wait(seconds(1));
    block.jobs.as_mut().unwrap().completed = JobSeq(1);
    shell.ring(&welcome, block);
    shell.disk.next_releases.clear();
    shell.wait(Time(shell.now.0 + 250_000_000));
    assert_eq!(shell.disk.next_releases.len(), 1);
    assert_eq!(shell.disk.next_releases[0].task, "yolo@1000");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Register(&'static str),
    Unregister(&'static str),
    /// The process says Hello on this connection: with its cookie, if it has one.
    Hello(u64, u32, Option<&'static str>),
    Disconnect(u32),
    Execute(u32),
    Die(u32),
    /// The daemon is killed, and the next one starts.
    Restart,
    Wait(u64),
}

/// What people and agents know.
#[derive(Debug, Default)]
struct World {
    /// Registrations that were answered.
    registered: BTreeMap<&'static str, RegistrationId>,
    /// The processes that live, with what each would say.
    alive: BTreeMap<u32, Option<Welcome>>,
    /// The greatest number that anybody was told.
    last: u64,
}

impl World {
    fn step(&mut self, shell: &mut Shell, step: Step) {
        let connection = |world: &Self, pid| {
            let welcome = world.alive.get(pid).and_then(Option::as_ref);
            welcome.map(|welcome| welcome.connection)
        };
        match step {
            Step::Register(name) => {
                let call = Call::Register {
                    caller: CALLER,
                    options: options(name),
                    claimant: None,
                    lease: false,
                };
                for output in shell.handle(Input::Call(CallId(1), Box::new(call))) {
                    if let Output::Answer(_, Ok(Reply::Registered(id))) = output {
                        self.registered.insert(name, *id);
                        self.last = self.last.max(id.0);
                    }
                }
            }
            Step::Unregister(name) => {
                // Whether it is kept is open while it is not answered.
                if let Some(registration) = self.registered.remove(name) {
                    let call = Call::Unregister {
                        caller: CALLER,
                        registration,
                    };
                    shell.handle(Input::Call(CallId(1), Box::new(call)));
                }
            }
            Step::Hello(at, pid, name) => {
                let before = self.alive.entry(pid).or_default().clone();
                let hello = match &before {
                    Some(welcome) => again(at, pid, welcome, MIB),
                    None => hello(at, pid, name),
                };
                let outputs = shell.handle(Input::Hello(Box::new(hello)));
                for output in outputs {
                    if let Output::Welcome(welcome) = output {
                        self.last = self.last.max(welcome.registration.0);
                        self.alive.insert(pid, Some(welcome.as_ref().clone()));
                    }
                    assert!(!matches!(output, Output::Refuse { .. }), "{output:?}");
                }
            }
            Step::Disconnect(pid) => {
                if let Some(connection) = connection(self, &pid) {
                    shell.handle(Input::Disconnected(connection));
                }
            }
            Step::Execute(pid) => {
                if let Some(connection) = connection(self, &pid) {
                    self.alive.insert(pid, None);
                    shell.handle(Input::Disconnected(connection));
                }
            }
            Step::Die(pid) => {
                let connection = connection(self, &pid);
                self.alive.remove(&pid);
                if let Some(connection) = connection {
                    shell.handle(Input::ProcessEnded(connection));
                }
            }
            Step::Restart => {
                if !shell.is_killed() {
                    let pids: Vec<_> = self.alive.keys().copied().collect();
                    *shell = shell.restart_until(shell.outputs_left, &pids);
                    for (pid, welcome) in &mut self.alive {
                        if let Some(welcome) = welcome {
                            welcome.connection = watched(*pid);
                        }
                    }
                }
            }
            Step::Wait(at) => shell.wait(seconds(at)),
        }
    }

    /// All that lived under the killed daemon comes to the next one.
    fn check_next(mut self, shell: &Shell, killed_at: usize) {
        let pids: Vec<_> = self.alive.keys().copied().collect();
        let mut next = shell.restart(&pids);
        for (name, id) in &self.registered {
            let found = next.engine.registry.find(USER, name);
            assert_eq!(found, Some(*id), "{name}, killed at output {killed_at}");
        }
        for (at, (pid, welcome)) in self.alive.iter().enumerate() {
            let connection = 100 + at as u64;
            let Some(welcome) = welcome else {
                continue;
            };
            let back = next.greet(again(connection, *pid, welcome, MIB));
            let back = back.unwrap_or_else(|refused| {
                panic!("{refused:?} for {pid}, killed at output {killed_at}")
            });
            assert_eq!(
                (back.registration, back.cookie, back.former),
                (welcome.registration, welcome.cookie, Some(watched(*pid))),
                "killed at output {killed_at}"
            );
        }
        let id = next.register(options("later")).unwrap();
        assert!(
            id.0 > self.last,
            "{id} was given before, killed at output {killed_at}"
        );
        // A process that got no Welcome begins a new session, and nothing is left of the unfinished one.
        let mut sessions = BTreeSet::new();
        for (at, (pid, welcome)) in self.alive.iter_mut().enumerate() {
            if welcome.is_none() {
                let anew = next.greet(hello(200 + at as u64, *pid, None)).unwrap();
                *welcome = Some(anew);
            }
            sessions.insert(*pid);
        }
        let kept = next.disk.sessions.iter().map(|session| session.pid);
        assert!(
            kept.eq(sessions),
            "killed at output {killed_at}: {:?}",
            next.disk
        );
        assert!(!next.engine.recovery.is_holding());
    }
}

#[test]
fn a_kill_at_any_output_forgets_no_session() {
    use Step::{Die, Disconnect, Execute, Register, Restart, Unregister, Wait};
    let script = [
        Register("a"),
        Step::Hello(1, 70, Some("a")),
        Step::Hello(2, 71, None),
        Step::Hello(3, 72, Some("a")),
        Disconnect(70),
        Step::Hello(4, 70, Some("a")),
        Register("b"),
        Wait(1),
        Execute(71),
        Restart,
        Step::Hello(5, 71, Some("b")),
        Step::Hello(6, 70, None),
        Die(72),
        Unregister("b"),
        Wait(5),
        Step::Hello(7, 73, None),
        Restart,
        Step::Hello(8, 73, None),
        Die(71),
        Register("b"),
        Wait(40),
    ];
    let mut killed_at = 1;
    loop {
        let config = config(vec![gpu(GPU)]);
        let mut shell = Shell::start_until(killed_at, config, Saved::default(), &[], Vec::new());
        let mut world = World::default();
        for step in script {
            world.step(&mut shell, step);
            if let Wait(40) = step {
                // No process claimed it.
                world.registered.remove("b");
            }
        }
        let is_killed = shell.is_killed();
        world.check_next(&shell, killed_at);
        if !is_killed {
            break;
        }
        killed_at += 1;
    }
    assert!(killed_at > 40, "only {killed_at} outputs");
}
