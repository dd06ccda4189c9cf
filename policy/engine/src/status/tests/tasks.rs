//! One word for what a task does, and its sums over all GPUs.

use std::vec::Vec;

use rtswap_policy::scheduler::{self, Direction, JobSeq, JobStatus, SwapSeq, TurnStatus, Usage};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Ppm, Time};

use super::{lost, mib, session, uuid};
use crate::config::OnViolation;
use crate::ids::RegistrationId;
use crate::registry::{Origin, Registration, TaskDeclaration};
use crate::rules::{Limits, Policy, Shape};
use crate::sessions::Session;
use crate::status::tasks::{describe, largest};
use crate::status::{Phase, TaskStatus, TreatedAs};

const TIMING: Timing = Timing {
    period: Nanos(30),
    deadline: Nanos(20),
    wcet: Nanos(10),
};

const NO_LIMITS: Limits = Limits {
    gpu_memory: None,
    pinned_memory: None,
    on_violation: OnViolation::Warn,
};

fn entry(class: Class) -> Registration {
    let task = TaskDeclaration {
        name: "camera".into(),
        class,
        memory: MemoryProfile {
            footprint: mib(80),
            swappable: mib(64),
        },
        weight: Weight::new(300).unwrap(),
        idle_after: None,
        gpu: None,
    };
    Registration::new(RegistrationId(4), 1000, task, Origin::Call)
}

/// A realtime task without a job, as its scheduler knows it.
fn ready() -> scheduler::TaskStatus {
    scheduler::TaskStatus {
        task: TaskId(9),
        name: "camera".into(),
        class: Class::Realtime(TIMING),
        phase: scheduler::Phase::Ready,
        parked: false,
        leaving: Bytes::ZERO,
        attachment: scheduler::Attachment::Attached,
        usage: Usage {
            resident: mib(16),
            swapped: mib(48),
            arena: mib(64),
        },
        budget: mib(32),
        dying: Bytes::ZERO,
        volume: Some(mib(48)),
        next_volume: None,
        barred_until: None,
        backing: mib(50),
        next_release: Time::ZERO,
        job: None,
        op: None,
    }
}

fn turns(gpu_share: u32, swap_share: u32, longest_wait: u64) -> TurnStatus {
    TurnStatus {
        gpu_share: Ppm(gpu_share),
        swap_share: Ppm(swap_share),
        longest_wait: Nanos(longest_wait),
    }
}

fn with_job(granted: Option<Time>) -> scheduler::TaskStatus {
    scheduler::TaskStatus {
        job: Some(JobStatus {
            job: JobSeq(1),
            deadline: None,
            eligible: Time::ZERO,
            granted,
        }),
        ..ready()
    }
}

fn swapping(direction: Direction) -> scheduler::TaskStatus {
    scheduler::TaskStatus {
        op: Some((SwapSeq(1), direction, Bytes::ZERO)),
        ..ready()
    }
}

fn treated(phase: scheduler::Phase) -> scheduler::TaskStatus {
    scheduler::TaskStatus { phase, ..ready() }
}

fn of(on: &[scheduler::TaskStatus], sessions: &[Session]) -> TaskStatus {
    let entry = entry(Class::Realtime(TIMING));
    describe(
        &entry,
        (&shape(&entry), NO_LIMITS),
        on.iter().cloned(),
        sessions.iter(),
    )
}

#[test]
fn the_most_telling_phase_counts() {
    let (granted, waiting) = (with_job(Some(Time(1))), with_job(None));
    let loading = treated(scheduler::Phase::Loading);
    let (inwards, outwards) = (swapping(Direction::In), swapping(Direction::Out));
    let served = scheduler::TaskStatus {
        job: waiting.job,
        ..inwards.clone()
    };
    // From the least telling on: each beats all that came before it.
    let ladder = [
        (ready(), "idle"),
        (loading, "loading"),
        (waiting, "waiting"),
        (outwards, "swapping-out"),
        (inwards, "swapping-in"),
        (served, "swapping-in"),
        (granted, "running"),
    ];
    let mut on = Vec::new();
    for (task, name) in ladder {
        on.insert(0, task.clone());
        for on in [&[task][..], &on] {
            let phase = of(on, &[session(1, &[])]).phase;
            assert_eq!(phase.name(), name, "{on:?}");
        }
    }
    on.reverse();
    assert_eq!(
        of(&on, &[session(1, &[])]).phase,
        Phase::Running,
        "in any order"
    );
}

#[test]
fn a_task_that_nobody_answers_for_is_unclaimed_or_lost() {
    let on = [with_job(Some(Time(1)))];
    assert_eq!(of(&on, &[]).phase.name(), "unclaimed");
    assert_eq!(of(&on, &[lost(1), lost(2)]).phase.name(), "lost");
    let one_left = of(&on, &[lost(1), session(2, &[])]);
    assert_eq!(one_left.phase, Phase::Running);
    assert_eq!(one_left.processes, [1, 2], "the lost one holds memory");
    assert_eq!(of(&[], &[session(1, &[])]).phase, Phase::Idle);
}

#[test]
fn a_parked_task_is_parked_once_nothing_of_it_runs_or_moves() {
    let phase = |on: scheduler::TaskStatus, sessions: &[Session]| {
        let mut entry = entry(Class::BestEffort);
        entry.parked = true;
        describe(
            &entry,
            (&shape(&entry), NO_LIMITS),
            [on].into_iter(),
            sessions.iter(),
        )
        .phase
        .name()
    };
    let present = [session(1, &[])];
    assert_eq!(phase(with_job(Some(Time(1))), &present), "running");
    assert_eq!(phase(swapping(Direction::Out), &present), "swapping-out");
    assert_eq!(phase(with_job(None), &present), "parked");
    let leaves = scheduler::TaskStatus {
        leaving: mib(2),
        ..ready()
    };
    assert_eq!(phase(leaves, &present), "swapping-out");
    assert_eq!(phase(ready(), &[]), "parked");
    assert_eq!(phase(ready(), &[lost(1)]), "lost");
}

#[test]
fn a_demoted_task_is_best_effort_and_keeps_what_it_declared() {
    let class = |on, demoted| {
        let mut entry = entry(Class::Realtime(TIMING));
        entry.demoted = demoted;
        let task = describe(
            &entry,
            (&shape(&entry), NO_LIMITS),
            [treated(on)].into_iter(),
            [].into_iter(),
        );
        assert_eq!(task.timing, Some(TIMING));
        task.class.name()
    };
    assert_eq!(class(scheduler::Phase::Ready, false), "realtime");
    assert_eq!(class(scheduler::Phase::Loading, false), "realtime");
    assert_eq!(class(scheduler::Phase::BestEffort, false), "best-effort");
    assert_eq!(class(scheduler::Phase::Ready, true), "best-effort");
    let other = describe(
        &entry(Class::BestEffort),
        (&shape(&entry(Class::BestEffort)), NO_LIMITS),
        [].into_iter(),
        [].into_iter(),
    );
    assert_eq!((other.class, other.timing), (TreatedAs::BestEffort, None));
}

#[test]
fn memory_is_the_sum_over_all_gpus() {
    let newcomer = scheduler::TaskStatus {
        volume: None,
        next_volume: Some(mib(32)),
        ..ready()
    };
    let changing = scheduler::TaskStatus {
        next_volume: Some(mib(999)),
        ..ready()
    };
    let task = of(&[changing, newcomer], &[]);
    let memory = task.memory;
    assert_eq!(
        memory.swap_volume,
        mib(80),
        "x in effect, else the next one"
    );
    assert_eq!((memory.resident, memory.swapped), (mib(32), mib(96)));
    assert_eq!((memory.budget, memory.backing), (mib(64), mib(100)));
    assert_eq!(task.declared.footprint, mib(80));
}

#[test]
fn of_several_gpus_the_worst_counts() {
    let worst = largest(turns(400_000, 30_000, 70), turns(100_000, 50_000, 80));
    assert_eq!(worst, turns(400_000, 50_000, 80));
}

#[test]
fn what_the_registration_knows_is_passed_on() {
    let mut entry = entry(Class::BestEffort);
    entry.gpu = Some(uuid(3));
    entry.statistics.violations = 2;
    entry.statistics.copied(Direction::In, mib(5), Nanos(70));
    let task = describe(
        &entry,
        (&shape(&entry), NO_LIMITS),
        [].into_iter(),
        [].into_iter(),
    );
    assert_eq!((task.registration, task.uid), (RegistrationId(4), 1000));
    assert_eq!((task.name.as_str(), task.gpu), ("camera", Some(uuid(3))));
    assert_eq!(task.statistics.violations, 2);
    let copied = task.statistics.swapped_in;
    assert_eq!((copied.bytes, copied.time), (mib(5), Nanos(70)));
    assert_eq!(task.statistics.swapped_out.bytes, Bytes::ZERO);
}

/// Of a policy without rules.
fn shape(entry: &Registration) -> Shape {
    let demoted = entry.demoted;
    Policy::default().shape(entry.uid, entry.uid, demoted, &entry.task)
}
