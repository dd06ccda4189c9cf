//! What the witnesses tell of processes, merged.

use std::vec;
use std::vec::Vec;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::{gpu, identity, lost, mib, session, session_id, show, shown, uuid};
use crate::engine::Gpu;
use crate::ids::RegistrationId;
use crate::input::Kept;
use crate::ledger::{Dead, Disagreement, Probed};
use crate::sample::{Held, ProbedProcess};
use crate::sessions::Sessions;
use crate::status::ProcessStatus;
use crate::status::processes::Witnesses;

fn merged(gpus: &[Gpu], sessions: &Sessions, probed: &[ProbedProcess]) -> Vec<ProcessStatus> {
    let witnesses = Witnesses {
        gpus,
        sessions,
        probed,
    };
    witnesses.processes(|task| (task == TaskId(8)).then_some(RegistrationId(80)))
}

fn probed(pid: u32, held: &[(Option<u8>, u64)]) -> ProbedProcess {
    let held = held.iter().map(|(gpu, bytes)| Held {
        gpu: gpu.map(uuid),
        bytes: mib(*bytes),
        managed: mib(1),
    });
    ProbedProcess {
        pid,
        identity: Some(identity("probed", Some("docker 3f2a1b4c5d6e"))),
        first_seen: Time(33),
        early: false,
        exact: true,
        trusted: true,
        held: held.collect(),
    }
}

fn dead(pid: u32, task: u32) -> Dead {
    let identity = identity("dead", None);
    Dead::new(TaskId(task), pid, identity, Time::ZERO, Nanos(1))
}

#[test]
fn a_session_is_shown_on_each_gpu_that_it_uses_or_that_nvml_shows_it_on() {
    let mut gpus = [gpu(1), gpu(2), gpu(3)];
    show(&mut gpus[0], 1, &[shown(10, 300)], &[(10, 290)]);
    show(&mut gpus[2], 3, &[shown(10, 20)], &[(10, 0)]);
    let mut sessions = Sessions::default();
    sessions.insert(session_id(5, 1), session(10, &[Some(290), None]));
    let rows = merged(&gpus, &sessions, &[]);
    let [first, third] = &rows[..] else {
        panic!("not one for each of its GPUs: {rows:?}");
    };
    assert_eq!((first.gpu, third.gpu), (Some(0), Some(2)));
    assert_eq!((first.pid, first.uid), (10, Some(1000)));
    assert_eq!(first.comm, "agent", "as the agent said it");
    assert_eq!(first.origin.as_deref(), Some("nginx.service"));
    assert_eq!((first.nvml, first.agent), (Some(mib(300)), Some(mib(290))));
    assert_eq!(first.kept.for_processes, mib(290));
    assert_eq!(
        (third.nvml, third.agent),
        (Some(mib(20)), Some(Bytes::ZERO))
    );
    assert_eq!(third.kept, Kept::default(), "its page has no such GPU");
    for row in &rows {
        assert_eq!(row.task, Some(RegistrationId(5)));
        assert!(row.managed && row.attached);
    }
}

#[test]
fn sessions_without_a_gpu_and_lost_ones_are_shown_too() {
    let gpus = [gpu(1)];
    let mut sessions = Sessions::default();
    sessions.insert(session_id(5, 1), session(20, &[None]));
    sessions.insert(session_id(6, 1), lost(10));
    // A process may have sessions of several tasks.
    sessions.insert(session_id(7, 1), session(10, &[Some(4)]));
    let rows = merged(&gpus, &sessions, &[]);
    let brief = |row: &ProcessStatus| (row.pid, row.gpu, row.task.unwrap().0, row.attached);
    let expected = [
        (10, Some(0), 6, false),
        (10, Some(0), 7, true),
        (20, None, 5, true),
    ];
    assert_eq!(rows.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!(rows[0].kept, Kept::default(), "its page cannot be believed");
    assert_eq!((rows[2].agent, rows[2].nvml), (None, None));
}

#[test]
fn a_dead_process_is_managed_until_the_driver_forgets_it() {
    let mut gpus = [gpu(1)];
    show(&mut gpus[0], 1, &[shown(30, 50), shown(31, 60)], &[]);
    // The one with pid 31 has a session again: the pid is another process now.
    gpus[0].dead = vec![dead(30, 8), dead(30, 9), dead(31, 8)];
    let mut sessions = Sessions::default();
    sessions.insert(session_id(5, 1), session(31, &[Some(60)]));
    let rows = merged(&gpus, &sessions, &[]);
    let [gone, alive] = &rows[..] else {
        panic!("not one for each pid: {rows:?}");
    };
    assert_eq!((gone.pid, gone.comm.as_str()), (30, "dead"));
    assert_eq!((gone.nvml, gone.agent), (Some(mib(50)), None));
    assert_eq!(gone.task, Some(RegistrationId(80)));
    assert!(gone.managed && !gone.attached);
    assert_eq!((alive.pid, alive.comm.as_str()), (31, "agent"));
    assert_eq!(alive.nvml, Some(mib(60)));
}

#[test]
fn a_process_without_an_agent_is_what_nvml_shows_of_it() {
    let mut gpus = [gpu(1)];
    let mut gone = shown(41, 1);
    gone.identity = None;
    let shows = [shown(9, 5), shown(40, 512), gone];
    show(&mut gpus[0], 1, &shows, &[(9, 5)]);
    let mut sessions = Sessions::default();
    sessions.insert(session_id(5, 1), session(9, &[Some(5)]));
    let rows = merged(&gpus, &sessions, &[]);
    assert_eq!(rows.len(), 3, "{rows:?}");
    let (large, gone) = (&rows[1], &rows[2]);
    assert_eq!((large.pid, large.comm.as_str()), (40, "shown"));
    assert_eq!((large.nvml, large.agent), (Some(mib(512)), None));
    assert_eq!(large.disagreement, Some(Disagreement::Untracked));
    assert_eq!(
        (large.task, large.managed, large.attached),
        (None, false, false)
    );
    assert_eq!((gone.uid, gone.comm.as_str()), (None, ""));
    assert_eq!(gone.disagreement, None, "no more than a context may be");
}

#[test]
fn the_probes_add_to_what_is_known_and_tell_of_what_is_not() {
    let mut gpus = [gpu(1), gpu(2)];
    let counted = |bytes| Probed {
        bytes: mib(bytes),
        managed: Bytes::ZERO,
        first_seen: Time(33),
        early: true,
        exact: false,
        trusted: true,
    };
    let (claims, awaited) = Default::default();
    let on_first = [(10, counted(12))].into_iter().collect();
    gpus[0]
        .account
        .reconcile_probes(Time::ZERO, &on_first, &claims, &awaited);
    let mut sessions = Sessions::default();
    sessions.insert(session_id(5, 1), session(10, &[Some(16), None]));
    let unsure = ProbedProcess {
        early: true,
        ..probed(51, &[(Some(2), 3)])
    };
    let rows = merged(
        &gpus,
        &sessions,
        &[
            probed(10, &[(Some(1), 12)]),
            // Two GPUs that nobody knows, and one that is known.
            probed(50, &[(None, 7), (Some(9), 8), (Some(2), 3)]),
            unsure,
        ],
    );
    let brief = |row: &ProcessStatus| (row.pid, row.gpu);
    let expected = [(10, Some(0)), (50, None), (50, Some(1)), (51, Some(1))];
    assert_eq!(rows.iter().map(brief).collect::<Vec<_>>(), expected);

    let managed = rows[0].probed.unwrap();
    assert_eq!(rows[0].agent, Some(mib(16)));
    assert_eq!(rows[0].origin.as_deref(), Some("docker 3f2a1b4c5d6e"));
    assert_eq!((managed.bytes, managed.first_seen), (mib(12), Time(33)));
    assert_eq!(
        (managed.baseline, managed.confidence),
        ("unknown", "at-least")
    );

    let unknown = rows[1].probed.unwrap();
    assert_eq!((unknown.bytes, unknown.managed), (mib(7), mib(1)));
    assert_eq!((unknown.baseline, unknown.confidence), ("start", "exact"));
    assert_eq!((rows[1].comm.as_str(), rows[1].managed), ("probed", false));
    assert_eq!(
        (rows[1].nvml, rows[1].agent, rows[1].task),
        (None, None, None)
    );

    let unsure = rows[3].probed.unwrap();
    assert_eq!(
        (unsure.baseline, unsure.confidence),
        ("unknown", "at-least")
    );
}
