//! Status and plan as the engine gives them, from its inputs alone.

use std::boxed::Box;
use std::vec;

use rtswap_policy::scheduler::{BudgetRequestSeq, Usage};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::{GIB, config, identity, mib, uuid};
use crate::config::GpuConfig;
use crate::groups::Order;
use crate::ids::{CallId, ConnectionId, Cookie, RegistrationId};
use crate::input::{Answer, Block, Call, Caller, DeviceState, Hello, Input, Peer, Start};
use crate::registry::TaskOptions;
use crate::rules::RuleSet;
use crate::sample::{Held, LeftAlone, ProbeSample, ProbeState, ProbedProcess, Sample};
use crate::saved::Saved;
use crate::status::{Phase, TreatedAs};
use crate::{Engine, Output};

/// Hands an input in and answers all questions as if all went well.
fn drive(engine: &mut Engine, now: u64, input: Input) {
    engine.handle(Time(now), input);
    while let Some(output) = engine.poll_output() {
        let answer = match output {
            Output::Order {
                order: Order::SetBudget { bytes, .. },
                ..
            } => Answer::Held(bytes),
            Output::Welcome(_) => Answer::Sent(true),
            Output::Record(_) => Answer::Kept(true),
            Output::Answer(_, reply) => {
                reply.unwrap();
                continue;
            }
            Output::Refuse { text, .. } => panic!("refused: {text}"),
            _ => continue,
        };
        engine.handle(Time(now), Input::Answer(answer));
    }
}

/// An engine with GPU 1 out of the configuration and another one that is left alone.
fn started() -> Engine {
    let mut config = config();
    config.gpus = vec![GpuConfig::learned(uuid(1)).completed(mib(GIB), Bytes::ZERO)];
    let mut engine = Engine::new(config);
    let nvml = Sample {
        began: Time::ZERO,
        gpus: vec![],
        left_alone: vec![LeftAlone {
            uuid: uuid(2),
            why: "GPU 2 is in MIG mode".into(),
        }],
        named: vec![],
    };
    let start = Start {
        saved: Saved::default(),
        awaited: vec![],
        tasks: vec![],
        run_time_rules: RuleSet::new(),
        calibrations: vec![],
        nvml,
    };
    drive(&mut engine, 0, Input::Start(Box::new(start)));
    engine
}

fn camera(footprint: u64, swappable: u64) -> Input {
    let options = TaskOptions {
        name: "camera".into(),
        period: Some(Nanos(2_000_000_000)),
        wcet: Some(Nanos(100_000_000)),
        footprint: Some(mib(footprint)),
        swappable: Some(mib(swappable)),
        ..TaskOptions::default()
    };
    let caller = Caller {
        uid: 1000,
        privileged: true,
    };
    let call = Call::Register {
        caller,
        options,
        claimant: None,
        lease: false,
    };
    Input::Call(CallId(1), Box::new(call))
}

fn hello(name: Option<&str>, connection: u64) -> Input {
    Input::Hello(Box::new(Hello {
        connection: ConnectionId(connection),
        peer: Peer {
            pid: 40 + connection as u32,
            uid: 1000,
            comm: "viewer".into(),
            start_ticks: 5,
            unit: None,
        },
        name: name.map(Into::into),
        resumes: None,
        cookie: Cookie(connection),
        devices: vec![DeviceState {
            uuid: [1; 16],
            memory: mib(GIB),
            ..DeviceState::default()
        }],
        cgroups: vec![],
    }))
}

#[test]
fn an_engine_shows_its_tasks_gpus_and_processes() {
    let mut engine = started();
    let status = engine.status();
    assert_eq!((status.tasks.len(), status.processes.len()), (0, 0));
    assert_eq!(status.left_alone, ["GPU 2 is in MIG mode"]);
    assert_eq!(status.probes, ProbeState::Off);
    let [gpu] = &status.gpus[..] else {
        panic!("not the one GPU: {status:?}");
    };
    assert_eq!((gpu.uuid, gpu.device.total), (uuid(1), mib(GIB)));
    assert!(gpu.utilization.is_sign_positive(), "no −0");
    assert_eq!((gpu.running, gpu.used), (None, Bytes::ZERO));

    drive(&mut engine, 1, camera(64, 64));
    let task = engine.status().tasks.remove(0);
    assert_eq!(
        (task.name.as_str(), task.phase),
        ("camera", Phase::Unclaimed)
    );
    assert_eq!((task.class, task.gpu), (TreatedAs::Realtime, Some(uuid(1))));
    assert_eq!((task.waits, task.processes.len()), (None, 0));
    assert!(engine.status().gpus[0].utilization > 0.05, "0.1 s of 2 s");
    let plan = engine.plan();
    let planned = &plan[0].tasks[0];
    assert_eq!(planned.registration, task.registration);
    assert_eq!(
        planned.name, "camera@1000",
        "of another user than the daemon's"
    );

    drive(&mut engine, 2, hello(Some("camera"), 1));
    drive(&mut engine, 3, hello(None, 2));
    let block = Block {
        usage: Usage {
            resident: mib(16),
            swapped: Bytes::ZERO,
            arena: mib(16),
        },
        ..Block::default()
    };
    let input = Input::Block {
        connection: ConnectionId(2),
        gpu: 0,
        block,
        rang: true,
    };
    drive(&mut engine, 4, input);
    let status = engine.status();
    let [camera, own] = &status.tasks[..] else {
        panic!("not the two tasks: {status:?}");
    };
    assert_eq!(
        (camera.phase, camera.processes[..] == [41]),
        (Phase::Loading, true)
    );
    assert_eq!((own.class, own.timing), (TreatedAs::BestEffort, None));
    assert_eq!(own.gpu, Some(uuid(1)), "the one that it uses");
    assert_eq!(own.registration, RegistrationId(camera.registration.0 + 1));
    let viewer = status.processes.iter().find(|row| row.pid == 42).unwrap();
    assert_eq!((viewer.gpu, viewer.agent), (Some(0), Some(mib(16))));
    assert_eq!(status.gpus[0].device.used, mib(16), "by the agents");

    drive(&mut engine, 5, Input::Disconnected(ConnectionId(1)));
    assert_eq!(engine.status().tasks[0].phase, Phase::Lost);
}

#[test]
fn what_only_the_probes_know_is_shown() {
    let mut engine = started();
    let state = ProbeState::On {
        libraries: 1,
        lost_news: 0,
        lost_calls: 0,
    };
    let process = ProbedProcess {
        pid: 77,
        identity: Some(identity("blender", None)),
        first_seen: Time(4),
        early: false,
        exact: true,
        trusted: true,
        held: vec![Held {
            gpu: Some(uuid(1)),
            bytes: mib(3),
            managed: Bytes::ZERO,
        }],
    };
    let sample = ProbeSample {
        state: state.clone(),
        complete_at: Time(4),
        processes: vec![process],
    };
    drive(&mut engine, 6, Input::Probes(sample));
    let status = engine.status();
    assert_eq!(status.probes, state);
    let [row] = &status.processes[..] else {
        panic!("not the one process: {status:?}");
    };
    assert_eq!((row.pid, row.gpu, row.managed), (77, Some(0), false));
    let probed = row.probed.unwrap();
    assert_eq!((probed.bytes, probed.baseline), (mib(3), "start"));
}

#[test]
fn a_task_that_the_plan_leaves_too_little_says_so() {
    let mut engine = started();
    drive(&mut engine, 1, camera(800, 0));
    drive(&mut engine, 2, hello(None, 2));
    let block = Block {
        want: Some((BudgetRequestSeq(1), mib(512))),
        ..Block::default()
    };
    let input = Input::Block {
        connection: ConnectionId(2),
        gpu: 0,
        block,
        rang: true,
    };
    drive(&mut engine, 3, input);
    let tasks = engine.status().tasks;
    assert_eq!(tasks[0].waits, None, "the plan is its own");
    let waits = tasks[1].waits.as_deref().unwrap();
    assert!(
        waits.starts_with("the plan of camera@1000 leaves "),
        "{waits}"
    );
    assert!(waits.ends_with("needs 512.0 MiB"), "{waits}");
}
