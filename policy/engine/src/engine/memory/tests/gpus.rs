use std::boxed::Box;
use std::vec;

use rtswap_policy::admission::Test;
use rtswap_policy::units::Bytes;

use super::world::{GIB, GPU, MEMORY, World, config, realtime, shown};
use crate::Uuid;
use crate::config::{Config, GpuConfig};
use crate::ids::{CallId, ConnectionId, Cookie};
use crate::input::{Call, DeviceState, Hello, Input, Peer};
use crate::sample::{LeftAlone, NamedGpu, Sample};

const OTHER: Uuid = Uuid::of([2; 16]);

/// A configuration that describes no GPU.
fn undescribed() -> Config {
    Config {
        gpus: vec![],
        ..config()
    }
}

#[test]
fn without_a_file_all_gpus_that_nvml_shows_are_managed() {
    let mut world = World::new(undescribed(), vec![], vec![shown(GPU, &[])]);
    assert_eq!(world.engine.gpus.len(), 1);
    assert_eq!(world.capacity(), 8 * GIB - 128 * (1 << 20));
    // Another one, with a driver that was loaded later.
    world.wait(500);
    world.nvml(vec![shown(GPU, &[]), shown(OTHER, &[])]);
    assert_eq!(world.engine.gpus[1].uuid, OTHER);
    world.wait(500);
    world.nvml(vec![shown(GPU, &[]), shown(OTHER, &[])]);
    assert_eq!(world.engine.gpus.len(), 2);
}

#[test]
fn a_file_decides_which_gpus_are_managed() {
    let mut config = config();
    config.gpus.push(GpuConfig::learned(OTHER));
    let third = Uuid::of([3; 16]);
    let mut world = World::new(config, vec![], vec![shown(GPU, &[]), shown(third, &[])]);
    assert_eq!(world.engine.gpus.len(), 1);
    assert_eq!(world.lines("it waits for one of them").len(), 1);
    world.nvml(vec![shown(GPU, &[]), shown(third, &[]), shown(OTHER, &[])]);
    let uuids: std::vec::Vec<_> = world.engine.gpus.iter().map(|gpu| gpu.uuid).collect();
    assert_eq!(uuids, [GPU, OTHER]);
}

#[test]
fn an_agent_names_no_gpus() {
    let mut world = World::new(undescribed(), vec![], vec![]);
    let forged = (10..18).map(|byte| DeviceState {
        uuid: [byte; 16],
        memory: Bytes(1 << 63),
        ..DeviceState::default()
    });
    world.put(Input::Hello(Box::new(Hello {
        connection: ConnectionId(7),
        peer: Peer {
            pid: 7,
            uid: 1000,
            comm: "forger".into(),
            start_ticks: 7,
            unit: None,
        },
        name: None,
        resumes: None,
        cookie: Cookie(7),
        devices: forged.collect(),
        cgroups: vec![],
    })));
    assert_eq!(world.engine.gpus.len(), 0);
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.engine.gpus.len(), 1, "the table has room");
}

#[test]
fn the_driver_names_gpus_only_where_nvml_and_files_leave_that_open() {
    let named = |world: &World| Sample {
        began: world.now,
        gpus: vec![],
        left_alone: vec![],
        named: vec![NamedGpu {
            uuid: GPU,
            total: MEMORY,
        }],
    };
    let mut world = World::new(undescribed(), vec![], vec![]);
    for _ in 0..2 {
        let sample = named(&world);
        world.put(Input::Nvml(sample));
        let uuids: std::vec::Vec<_> = world.engine.gpus.iter().map(|gpu| gpu.uuid).collect();
        assert_eq!(uuids, [GPU]);
    }
    assert_eq!(world.capacity(), 8 * GIB - 128 * (1 << 20));
    let mut world = World::new(undescribed(), vec![], vec![shown(OTHER, &[])]);
    let sample = named(&world);
    world.put(Input::Nvml(sample));
    assert_eq!(world.engine.gpus.len(), 1);
    assert_eq!(world.engine.gpus[0].uuid, OTHER, "NVML has spoken");
}

#[test]
fn a_task_waits_for_its_gpu_to_become_known() {
    let tasks = vec![realtime("a", 4 * GIB, 2 * GIB)];
    let mut world = World::new(undescribed(), tasks, vec![]);
    assert_eq!(
        world.lines("waits for its GPU: no GPU is known yet").len(),
        1
    );
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.task("a").volume, Some(Bytes::ZERO));
    let id = world.registration("a");
    assert_eq!(world.engine.registry.get(id).unwrap().gpu, Some(GPU));
}

#[test]
fn a_task_that_its_gpu_cannot_have_is_best_effort() {
    let tasks = vec![realtime("a", 9 * GIB, GIB)];
    let world = World::new(undescribed(), tasks, vec![shown(GPU, &[])]);
    let lines = world.lines("refused: not schedulable");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].task.as_deref(), Some("a"));
    let id = world.registration("a");
    assert!(!world.engine.registry.get(id).unwrap().is_realtime());
}

#[test]
fn a_gpu_that_is_left_alone_is_said_once_and_not_learned() {
    let gpus = vec![GpuConfig::learned(GPU)];
    let mut world = World::new(Config { gpus, ..config() }, vec![], vec![]);
    for _ in 0..2 {
        let began = world.now;
        world.put(Input::Nvml(Sample {
            began,
            gpus: vec![],
            left_alone: vec![LeftAlone {
                uuid: GPU,
                why: "it is split into instances".into(),
            }],
            named: vec![],
        }));
    }
    assert_eq!(world.lines("a GPU is left alone: it is split").len(), 1);
    assert_eq!(world.engine.left_alone(), ["it is split into instances"]);
    world.hello(7, None);
    assert_eq!(world.engine.gpus.len(), 0);
}

#[test]
fn less_memory_than_a_file_says_counts() {
    let mut config = config();
    config.gpus[0].memory = Some(MEMORY + MEMORY);
    let world = World::new(config, vec![], vec![shown(GPU, &[])]);
    assert_eq!(
        world
            .lines("less than the 16.00 GiB that its file says")
            .len(),
        1
    );
    assert!(world.capacity() < MEMORY.0);
}

#[test]
fn the_verdict_on_a_plan_is_kept_until_the_plan_changes() {
    let tasks = vec![realtime("a", 6 * GIB, 2 * GIB)];
    let mut world = World::new(config(), tasks, vec![shown(GPU, &[])]);
    let gpu = &mut world.engine.gpus[0];
    let (tasks, intended) = gpu.intended();
    assert_eq!((tasks.len(), intended.tasks.len()), (1, 1));
    assert_eq!(tasks[0].volume.or(tasks[0].next_volume), Some(Bytes::ZERO));
    let before = gpu.analysis().clone();
    assert!(before.schedulable);
    // Computed anew, it would be that of another test.
    let test = gpu.config.test;
    gpu.config.test = Test::Theorem1;
    assert_eq!(gpu.analysis().test, test);
    assert_eq!(*gpu.analysis(), before);
    let (config, tasks) = (config(), vec![]);
    let call = Call::Reload { config, tasks };
    world.put(Input::Call(CallId(1), Box::new(call)));
    let gpu = &mut world.engine.gpus[0];
    assert_eq!(gpu.intended().0, []);
    assert!(gpu.intended().1.tasks.is_empty());
    assert!(gpu.analysis().tasks.is_empty());
}
