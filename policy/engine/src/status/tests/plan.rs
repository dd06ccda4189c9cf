//! What the admission test says of a GPU.

use std::string::ToString;

use rtswap_policy::scheduler::{Event, Usage};
use rtswap_policy::task::{Class, MemoryProfile, TaskId, TaskSpec, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos, Time};

use super::{gpu, mib, uuid};
use crate::engine::Gpu;
use crate::ids::RegistrationId;
use crate::status::GpuPlan;
use crate::status::plan::of_gpu;

const S: u64 = 1_000_000_000;

fn register(gpu: &mut Gpu, id: u32, period: u64, footprint: u64) {
    let spec = TaskSpec {
        name: ["", "camera", "lidar"][id as usize].into(),
        class: match period {
            0 => Class::BestEffort,
            period => Class::Realtime(Timing {
                period: Nanos(period * S),
                deadline: Nanos(period * S),
                wcet: Nanos(S / 10),
            }),
        },
        memory: MemoryProfile {
            footprint: mib(footprint),
            swappable: mib(footprint),
        },
        weight: Weight::default(),
        idle_after: None,
    };
    gpu.scheduler
        .register(Time::ZERO, TaskId(id), spec)
        .unwrap();
    while gpu.scheduler.poll_command().is_some() {}
}

fn tell(gpu: &mut Gpu, now: u64, event: Event) {
    gpu.scheduler.handle(Time(now), event).unwrap();
    while gpu.scheduler.poll_command().is_some() {}
}

/// The task's process comes, with nothing yet.
fn attach(id: u32) -> Event {
    Event::Attach {
        task: TaskId(id),
        usage: Usage::default(),
        backing: Bytes::ZERO,
        open: None,
    }
}

fn plan(gpu: &mut Gpu) -> GpuPlan {
    of_gpu(gpu, |task| Some(RegistrationId(u64::from(task.0) * 10)))
}

#[test]
fn a_gpu_without_tasks_has_an_empty_plan() {
    let mut gpu = gpu(1);
    let plan = plan(&mut gpu);
    assert_eq!((plan.uuid, plan.tasks.len()), (uuid(1), 0));
    assert_eq!((plan.chunk, plan.test.name()), (mib(16), "demand"));
    assert_eq!(plan.capacity, gpu.scheduler.state().gpu().capacity);
    assert!(plan.schedulable);
    assert!(plan.utilization.is_sign_positive(), "no −0");
    assert_eq!(plan.total_swap(), Bytes::ZERO);
}

#[test]
fn newcomers_are_in_the_plan_and_best_effort_is_not() {
    let mut gpu = gpu(1);
    register(&mut gpu, 1, 2, 640);
    tell(&mut gpu, 0, attach(1));
    register(&mut gpu, 2, 4, 640);
    tell(&mut gpu, 0, attach(2));
    register(&mut gpu, 0, 0, 0);
    let planned = plan(&mut gpu);
    let [camera, lidar] = &planned.tasks[..] else {
        panic!("not the realtime tasks: {planned:?}");
    };
    assert_eq!(
        (camera.name.as_str(), lidar.name.as_str()),
        ("camera", "lidar")
    );
    assert_eq!(camera.registration, RegistrationId(10));
    assert_eq!(lidar.timing.period, Nanos(4 * S));
    assert!(planned.schedulable && planned.slack > 0.0);
    let total = planned.total_swap();
    assert_eq!(total, camera.volume + lidar.volume);
    assert!(
        mib(2 * 640) - total <= planned.capacity - planned.best_effort_reserve,
        "what may stay fits: {planned:?}"
    );
    let swaps = planned.tasks.iter().find(|task| task.volume > Bytes::ZERO);
    let swaps = swaps.expect("not all fits");
    assert!(swaps.swap_out > Nanos::ZERO && swaps.swap_in > Nanos::ZERO);
    assert!(!swaps.in_effect, "no backing store is pinned yet");
    assert!(
        planned
            .blocking_term
            .starts_with(&planned.blocking.to_string())
    );

    // One leaves: all fits without a swap, and nothing is waited for.
    tell(&mut gpu, 1, Event::Detach { task: TaskId(2) });
    tell(&mut gpu, 1, Event::Unregister { task: TaskId(2) });
    let planned = plan(&mut gpu);
    let [camera] = &planned.tasks[..] else {
        panic!("not the one task that is left: {planned:?}");
    };
    assert_eq!((camera.volume, camera.in_effect), (Bytes::ZERO, true));
}

#[test]
fn a_task_without_a_registration_is_left_out() {
    let mut gpu = gpu(1);
    register(&mut gpu, 1, 2, 64);
    assert_eq!(of_gpu(&mut gpu, |_| None).tasks, []);
}
