//! Agents and the daemon over real sockets, pages and signals.

use std::process::{Command, Stdio};

use crate::common::agent::{Agent, BellThread, hello, say};
use crate::common::{BOUND, Daemon, Home, MIB, ONE_GPU, wait_for};
use rtswap_dbus::objects::{Objects, list};
use rtswap_dbus::{Manager1Proxy, Options, Size, TaskProperties};
use rtswap_wire::hello::{Hello, ReplyCode};
use rtswap_wire::page::{Direction, JobKind};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

fn start() -> (Home, Daemon) {
    let home = Home::new(ONE_GPU);
    let daemon = home.daemon();
    (home, daemon)
}

async fn objects(home: &Home) -> Objects {
    list(&home.bus().await).await.unwrap()
}

/// Waits until the one task is as `is` says.
async fn wait_task(home: &Home, what: &str, is: impl Fn(&TaskProperties) -> bool) {
    let bus = home.bus().await;
    let start = Instant::now();
    loop {
        let tasks = list(&bus).await.unwrap().tasks;
        if let [(_, task)] = &tasks[..]
            && is(task)
        {
            return;
        }
        assert!(
            start.elapsed() < BOUND,
            "not {what}: {tasks:?}\n{}",
            home.log()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn yolo() -> Options {
    Options {
        period: Some(Duration::from_secs(1)),
        // Not to be overrun where many tests share two cores.
        wcet: Some(Duration::from_millis(500)),
        footprint: Some(Size::Text("8MiB".into())),
        swappable: Some(Size::Bytes(6 * MIB)),
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_without_a_name_is_a_best_effort_task_of_its_own() {
    let (home, _daemon) = start();
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(agent.block().daemon.chunk_bytes(), 2 * MIB);
    assert_eq!(agent.block().daemon.memory_bytes(), 16 * MIB);
    assert_eq!(agent.reply.orphan_timeout_ms, 10_000);
    assert_eq!(agent.want(4 * MIB), 4 * MIB);
    agent.allocate(4 * MIB);
    let job = agent.request(JobKind::Implicit);
    agent.wait_granted(job);
    wait_task(&home, "running", |task| task.phase == "running").await;
    agent.complete(job);
    wait_task(&home, "done", |task| task.phase == "idle" && task.jobs == 1).await;
    let Objects { tasks, gpus, .. } = objects(&home).await;
    let (path, task) = &tasks[0];
    assert_eq!(path.as_str(), "/org/rtswap/task/1");
    assert!(
        task.name.ends_with(&format!("-{}", std::process::id())),
        "{}",
        task.name
    );
    assert_eq!(
        (task.class.as_str(), task.process_id),
        ("best-effort", std::process::id())
    );
    assert_eq!(
        (task.resident_bytes, task.gpu.as_str()),
        (4 * MIB, "/org/rtswap/gpu/0")
    );
    assert_eq!(
        (gpus[0].1.used_bytes, gpus[0].1.chunk_bytes),
        (4 * MIB, 2 * MIB)
    );
    let bus = home.bus().await;
    let processes = Manager1Proxy::new(&bus)
        .await
        .unwrap()
        .list_processes()
        .await
        .unwrap();
    assert_eq!(
        u32::try_from(&processes[0]["pid"]).unwrap(),
        std::process::id()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_task_is_claimed_by_name_and_its_jobs_are_granted() {
    let (home, _daemon) = start();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let path = manager.register("yolo", yolo().into_wire()).await.unwrap();
    wait_task(&home, "unclaimed", |task| task.phase == "unclaimed").await;
    let mut agent = Agent::connect(&home.runtime_dir(), Some("yolo")).unwrap();
    assert_eq!(rtswap_dbus::task_path(agent.reply.registration), path);
    let second = Agent::connect(&home.runtime_dir(), Some("yolo"))
        .err()
        .unwrap();
    let pid = std::process::id();
    assert_eq!(
        second,
        (
            Some(ReplyCode::Claim),
            format!(
                "pid {pid} has a session of task yolo already; end the process or take another name"
            )
        )
    );
    assert_eq!(agent.want(8 * MIB), 8 * MIB);
    agent.allocate(6 * MIB);
    for _ in 0..3 {
        let job = agent.request(JobKind::Declared);
        agent.wait_granted(job);
        agent.complete(job);
    }
    wait_task(&home, "three jobs", |task| task.jobs == 3).await;
    let task = objects(&home).await.tasks.remove(0).1;
    assert_eq!(
        (task.class.as_str(), task.period_usec),
        ("realtime", 1_000_000)
    );
    assert_eq!(
        (task.deadline_misses, task.violations),
        (0, 0),
        "{}",
        home.log()
    );
    assert!(task.response_p50_usec > 0 && task.response_p50_usec <= task.response_max_usec);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_swapped_out_after_a_doorbell_with_the_cookie() {
    let (home, _daemon) = start();
    let bell = BellThread::start();
    let mut holder = Agent::with(&home.runtime_dir(), &hello(None), Some(&bell)).unwrap();
    assert_eq!(holder.want(12 * MIB), 12 * MIB);
    holder.allocate(12 * MIB);
    let mut other = Agent::connect(&home.runtime_dir(), None).unwrap();
    let want = other.ask(8 * MIB);
    let cookie = holder.cookie;
    let rung = || {
        let rung = bell.next();
        assert!(cookie.rings(rung.code, rung.value), "{rung:?}");
        rung.signal
    };
    let (mut rung_out, mut out) = (false, None);
    while out.is_none() {
        // Only after a doorbell: who sleeps does not look. It may be one for the backing store, which
        // is rung again until it is heard.
        rung_out |= rung() == libc::SIGUSR1;
        out = holder.step();
    }
    assert_eq!(out, Some(Direction::Out));
    let budget = wait_for("room", || {
        holder.step();
        other.answered(want)
    });
    assert_eq!(budget, 8 * MIB);
    while !rung_out {
        rung_out = rung() == libc::SIGUSR1;
    }
    let usage = holder.block().agent.usage();
    assert_eq!(
        (usage.resident_bytes, usage.swapped_bytes),
        (8 * MIB, 4 * MIB)
    );
    other.allocate(8 * MIB);
    while !bell.is_quiet() {
        holder.step();
    }
    // And back, for a job: the other's memory leaves in its turn.
    let job = holder.request(JobKind::Implicit);
    wait_for("the grant", || {
        holder.step();
        other.step();
        holder.is_granted(job).then_some(())
    });
    assert_eq!(holder.block().agent.usage().swapped_bytes, 0);
    holder.complete(job);
    let tasks = objects(&home).await.tasks;
    assert_eq!(tasks[0].1.swap_out_bytes_total, 4 * MIB);
    // Nor was anything wrong with what it said; late it may have been.
    let log = home.log();
    assert!(!log.contains("senseless"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_doorbell_does_no_harm() {
    let (home, _daemon) = start();
    let agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    let want = agent.block().agent.want(2 * MIB);
    wait_for("the sweep", || agent.answered(want));
}

/// A process of its own that holds 4 MiB until it is killed. Does nothing unless asked to.
#[test]
fn held_by_a_child() {
    let Some(folder) = std::env::var_os("RTSWAP_TEST_CHILD") else {
        return;
    };
    let mut agent = Agent::connect(folder.as_ref(), None).unwrap();
    assert_eq!(agent.want(4 * MIB), 4 * MIB);
    agent.allocate(4 * MIB);
    println!("holding");
    std::thread::sleep(BOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_gives_its_memory_back() {
    let (home, _daemon) = start();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "agents::held_by_a_child", "--nocapture"])
        .env("RTSWAP_TEST_CHILD", home.runtime_dir())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_task(&home, "holding", |task| task.resident_bytes == 4 * MIB).await;
    assert_eq!(objects(&home).await.tasks[0].1.process_id, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    let bus = home.bus().await;
    let start = Instant::now();
    loop {
        let Objects { tasks, gpus, .. } = list(&bus).await.unwrap();
        if tasks.is_empty() && gpus[0].1.used_bytes == 0 {
            break;
        }
        assert!(start.elapsed() < BOUND, "{tasks:?} {gpus:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_keeps_its_memory_and_may_come_back() {
    let (home, _daemon) = start();
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    agent.want(4 * MIB);
    agent.allocate(4 * MIB);
    agent.hang_up();
    wait_task(&home, "lost", |task| task.phase == "lost").await;
    assert_eq!(objects(&home).await.gpus[0].1.used_bytes, 4 * MIB);
    let mut back = agent.reconnect(&home.runtime_dir()).unwrap();
    wait_task(&home, "back", |task| task.phase == "idle").await;
    assert_eq!(back.want(6 * MIB), 6 * MIB);
    let mut forged = hello(None);
    forged.registration = back.reply.registration;
    forged.cookie = back.cookie.0 ^ 1;
    let refused = Agent::with(&home.runtime_dir(), &forged, None)
        .err()
        .unwrap();
    assert_eq!(
        refused,
        (
            Some(ReplyCode::Claim),
            format!(
                "registration {} belongs to another session",
                back.reply.registration
            )
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_executes_another_program_may_claim_again() {
    let (home, _daemon) = start();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager.register("yolo", yolo().into_wire()).await.unwrap();
    let mut agent = Agent::connect(&home.runtime_dir(), Some("yolo")).unwrap();
    agent.want(4 * MIB);
    agent.hang_up();
    wait_task(&home, "lost", |task| task.phase == "lost").await;
    let mut agent = Agent::connect(&home.runtime_dir(), Some("yolo")).unwrap();
    assert_eq!(agent.want(8 * MIB), 8 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_told_what_is_wrong_and_leave_nothing() {
    let (home, _daemon) = start();
    let folder = home.runtime_dir();
    let (_socket, reply, fds) = say(&folder, b"GET / HTTP/1.1", None);
    assert_eq!(reply.code(), Some(ReplyCode::Malformed));
    assert_eq!(reply.text(), "not a hello message of rtswap");
    assert!(fds.is_empty());
    let newer = Hello {
        version: 9,
        ..hello(None)
    };
    let (_socket, reply, _) = say(&folder, newer.as_bytes(), None);
    assert_eq!(reply.code(), Some(ReplyCode::Version));
    assert_eq!(
        reply.text(),
        "wire version 9 is not spoken here (this daemon speaks 1 to 1); restart the program so \
         that it loads the installed agent"
    );
    let unknown = Agent::connect(&folder, Some("yolo")).err().unwrap();
    assert_eq!(
        unknown,
        (
            Some(ReplyCode::Claim),
            "no task named yolo is registered for user 0; register it first (rtswapctl run --name \
             yolo does both)"
                .replace(
                    "user 0",
                    &format!("user {}", rustix::process::getuid().as_raw())
                )
        )
    );
    assert!(objects(&home).await.tasks.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doorbell_never_goes_to_another_process() {
    let (home, _daemon) = start();
    // Init's pidfd in place of a thread of ours: the session stands, but it is not rung.
    let init = rustix::process::Pid::from_raw(1).unwrap();
    let flags = rustix::process::PidfdFlags::empty();
    let stranger = rustix::process::pidfd_open(init, flags).unwrap();
    let (_socket, reply, _) = say(&home.runtime_dir(), hello(None).as_bytes(), Some(&stranger));
    assert_eq!(reply.code(), Some(ReplyCode::Welcome));
    wait_for("the warning", || {
        home.log()
            .contains("its swap thread is not one of its own")
            .then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_reports_are_counted_and_hurt_nobody() {
    let (home, _daemon) = start();
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    agent.want(2 * MIB);
    let job = agent.request(JobKind::Declared);
    agent.wait_granted(job);
    agent.complete(job);
    wait_task(&home, "done", |task| task.jobs == 1).await;
    // The same number again, by way of another.
    agent.block().agent.request_job(job + 1, JobKind::Declared);
    agent.tell();
    wait_for("a grant", || agent.is_granted(job + 1).then_some(()));
    agent.block().agent.request_job(job + 7, JobKind::Declared);
    agent.tell();
    wait_task(&home, "counted", |task| task.violations > 0).await;
    wait_for("the end of the session", || agent.is_lost().then_some(()));
    wait_for("the warning", || {
        home.log().contains("senseless report").then_some(())
    });
    let mut other = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(other.want(2 * MIB), 2 * MIB);
}
