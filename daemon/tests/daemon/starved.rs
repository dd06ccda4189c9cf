//! A task that a plan leaves too little for says so, as long as it is so.

use std::time::{Duration, Instant};

use rtswap_dbus::objects::list;
use rtswap_dbus::{Manager1Proxy, Options, Size, TaskProperties};
use rtswap_wire::page::JobKind;
use zbus::Connection;

use crate::common::agent::Agent;
use crate::common::{BOUND, Home, MIB, ONE_GPU, wait_for};

/// Waits until the best-effort task is as `is` says.
async fn wait_best_effort(
    bus: &Connection,
    home: &Home,
    what: &str,
    is: impl Fn(&TaskProperties) -> bool,
) {
    let start = Instant::now();
    loop {
        let tasks = list(bus).await.unwrap().tasks;
        let mut tasks = tasks.iter().map(|(_, task)| task);
        let task = tasks.find(|task| task.name != "camera").unwrap();
        if is(task) {
            return;
        }
        let log = home.log();
        assert!(start.elapsed() < BOUND, "not {what}: {task:?}\n{log}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_a_plan_leaves_too_little_says_so_until_the_plan_ends() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let mut program = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(program.want(8 * MIB), 8 * MIB);
    program.allocate(8 * MIB);

    // Of 16 MiB the plan leaves 4.
    let camera = Options {
        period: Some(Duration::from_secs(1)),
        // Not to be overrun where many tests share two cores.
        wcet: Some(Duration::from_millis(500)),
        footprint: Some(Size::Bytes(12 * MIB)),
        swappable: Some(Size::Bytes(0)),
        ..Options::default()
    };
    let path = manager
        .register("camera", camera.into_wire())
        .await
        .unwrap();
    let camera = Agent::connect(&home.runtime_dir(), Some("camera")).unwrap();
    let want = camera.ask(12 * MIB);
    let budget = wait_for("the camera's budget", || {
        program.step();
        camera.answered(want)
    });
    assert_eq!(budget, 12 * MIB);
    camera.allocate(12 * MIB);
    wait_best_effort(&bus, &home, "swapped out", |task| {
        task.swapped_bytes > 0 && task.phase == "idle" && task.waits.is_empty()
    })
    .await;

    let job = program.request(JobKind::Implicit);
    let why = "the plan of camera leaves 4.0 MiB, and it needs 8.0 MiB";
    wait_best_effort(&bus, &home, "waiting", |task| {
        task.phase == "waiting" && task.waits == why
    })
    .await;
    let line = format!("waits: {why}");
    wait_for("the log's line", || {
        home.log().contains(&line).then_some(())
    });
    assert!(!program.is_granted(job));

    // The process lives on, so its memory has to be free before the plan that promises it ends.
    let usage = &camera.block().agent;
    usage.set_arena(0, 0);
    usage.give_back(12 * MIB);
    camera.tell();
    camera.ask(0);
    manager.unregister(&path.as_ref()).await.unwrap();
    program.wait_granted(job);
    wait_best_effort(&bus, &home, "running", |task| {
        task.phase == "running" && task.waits.is_empty()
    })
    .await;
}
