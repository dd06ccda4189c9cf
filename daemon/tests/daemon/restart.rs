//! The daemon ends, well or badly, and another takes over.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::agent::Agent;
use crate::common::user::block_on;
use crate::common::{Home, MIB, ONE_GPU, skipped, unjudged, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{Manager1Proxy, Options, Size};
use rtswap_wire::page::JobKind;

/// A daemon that restarts waits at least this long for those that it knows.
const GRACE: Duration = Duration::from_secs(2);
/// Runs in a row that a stalled host may keep from being judged, the last of which is a failure.
const RUNS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_daemon_is_followed_by_one_that_knows_its_agents() {
    for run in 1..=RUNS {
        let back = is_followed().await;
        if back < GRACE {
            return;
        }
        unjudged(&format!(
            "run {run} of {RUNS}: all were back only after {back:?}"
        ));
    }
    panic!("{RUNS} runs in a row outlasted the grace");
}

/// How long it took until all were back; only a time within the grace shows that the daemon waits for them.
async fn is_followed() -> Duration {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon();
    let options = Options {
        // Not to be overrun by the time that the daemon is away.
        period: Some(Duration::from_secs(20)),
        wcet: Some(Duration::from_secs(8)),
        footprint: Some(Size::Text("8MiB".into())),
        swappable: Some(Size::Text("6MiB".into())),
        ..Options::default()
    };
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager.register("yolo", options.into_wire()).await.unwrap();
    let mut yolo = Agent::connect(&home.runtime_dir(), Some("yolo")).unwrap();
    let mut other = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(yolo.want(6 * MIB), 6 * MIB);
    yolo.allocate(6 * MIB);
    assert_eq!(other.want(4 * MIB), 4 * MIB);
    other.allocate(4 * MIB);
    let job = yolo.request(JobKind::Declared);
    yolo.wait_granted(job);
    daemon.kill();
    wait_for("the loss", || {
        (yolo.is_lost() && other.is_lost()).then_some(())
    });

    let restarted = Instant::now();
    let _daemon = home.daemon();
    let yolo = yolo.reconnect(&home.runtime_dir()).unwrap();
    assert!(yolo.is_granted(job), "a running job goes on");
    yolo.complete(job);
    let want = yolo.ask(8 * MIB);
    std::thread::sleep(Duration::from_millis(300));
    let early = yolo.answered(want);
    let other = other.reconnect(&home.runtime_dir()).unwrap();
    let back = restarted.elapsed();
    assert_eq!(wait_for("an answer", || yolo.answered(want)), 8 * MIB);
    let log = home.log();
    assert!(
        back >= GRACE || early.is_none() && !log.contains("going on without"),
        "given before all are back, or by the grace alone: {log}"
    );

    let objects = list(&home.bus().await).await.unwrap();
    let tasks: Vec<_> = objects.tasks.iter().map(|(_, task)| task).collect();
    assert_eq!(tasks.len(), 2, "{tasks:?}");
    assert_eq!(
        (tasks[0].name.as_str(), tasks[0].class.as_str()),
        ("yolo", "realtime")
    );
    assert_eq!(tasks[1].resident_bytes, 4 * MIB);
    assert!(
        tasks.iter().all(|task| task.violations == 0),
        "{tasks:?}\n{}",
        home.log()
    );
    drop(other);

    let manager = home.bus().await;
    let manager = Manager1Proxy::new(&manager).await.unwrap();
    let next = manager
        .register("next", Options::default().into_wire())
        .await
        .unwrap();
    assert_eq!(
        next.as_str(),
        "/org/rtswap/task/3",
        "numbers are not used again"
    );
    back
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stays_silent_is_not_waited_for_longer_than_the_grace() {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon();
    let mut one = Agent::connect(&home.runtime_dir(), None).unwrap();
    let _silent = Agent::connect(&home.runtime_dir(), None).unwrap();
    one.want(2 * MIB);
    one.allocate(2 * MIB);
    daemon.kill();
    let start = Instant::now();
    let _daemon = home.daemon();
    let one = one.reconnect(&home.runtime_dir()).unwrap();
    let want = one.ask(4 * MIB);
    assert_eq!(wait_for("the grace", || one.answered(want)), 4 * MIB);
    assert!(
        start.elapsed() > Duration::from_millis(1500),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn sigterm_ends_it_cleanly() {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon();
    let agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(daemon.terminate(), Some(0));
    for socket in ["agent.sock", "control.sock"] {
        assert!(!home.runtime_dir().join(socket).exists(), "{socket}");
    }
    assert!(agent.is_lost());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_process_may_claim_no_other_may_not_even_of_the_next_daemon() {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let mut sleeper = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let open = |pid: rustix::process::Pid| {
        let flags = rustix::process::PidfdFlags::empty();
        rustix::process::pidfd_open(pid, flags).unwrap()
    };
    for (name, pid) in [
        ("own", rustix::process::getpid()),
        ("other", rustix::process::Pid::from_child(&sleeper)),
    ] {
        let options = Options {
            pidfd: Some(open(pid)),
            ..Options::default()
        };
        manager.register(name, options.into_wire()).await.unwrap();
    }
    let refused = || {
        let refusal = Agent::connect(&home.runtime_dir(), Some("other"));
        let refusal = format!("{:?}", refusal.err().unwrap());
        assert!(refusal.contains("for another process"), "{refusal}");
    };
    refused();
    daemon.kill();
    daemon = home.daemon();
    refused();
    drop(Agent::connect(&home.runtime_dir(), Some("own")).unwrap());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    daemon.kill();
    let _daemon = home.daemon();
    let tasks = list(&home.bus().await).await.unwrap().tasks;
    let names: Vec<_> = tasks.iter().map(|(_, task)| task.name.as_str()).collect();
    assert_eq!(names, ["own"], "nobody could ever claim the other");
}

/// `rtswapctl run` starts its program once the daemon is back. The counts begin anew, and status says so.
#[test]
fn a_program_that_meets_a_restart_starts_after_it() {
    let beside = Path::new(env!("CARGO_BIN_EXE_rtswapd")).with_file_name("rtswapctl");
    if !beside.exists() || !beside.with_file_name("librtswap_cuda.so").exists() {
        skipped("rtswapctl and the agent are not built");
        return;
    }
    let home = Home::new(ONE_GPU);
    let since = || {
        let tasks = block_on(async { list(&home.bus().await).await.unwrap().tasks });
        let task = tasks.into_iter().find(|(_, task)| task.name == "kept");
        task.unwrap().1.counting_since_usec
    };
    let mut daemon = home.daemon();
    block_on(async {
        let manager = home.bus().await;
        let manager = Manager1Proxy::new(&manager).await.unwrap();
        let options = Options::default().into_wire();
        manager.register("kept", options).await.unwrap();
    });
    let before = since();
    daemon.kill();
    let mut command = Command::new(beside);
    command.arg("--runtime-dir").arg(home.runtime_dir());
    command.args(["run", "--name", "late", "--", "/bin/echo", "started"]);
    let program = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = program.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let _daemon = home.daemon();
    let output = program.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(output.stdout, b"started\n");
    assert!(said.contains("rtswapd may be restarting"), "{said}");
    assert!(
        since() > before + 600_000,
        "counts began anew with the daemon"
    );
}
