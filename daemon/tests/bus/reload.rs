//! The administrator's files, taken again under running tasks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use futures_util::StreamExt;
use zbus::fdo::PropertiesProxy;

use crate::common::agent::Agent;
use crate::common::{BOUND, Home, MIB, ONE_GPU, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{BUS_NAME, Error, Manager1Proxy};

/// Writes one task's file.
fn write(folder: &Path, name: &str, period_ms: u32, wcet_ms: f64) {
    let uid = rustix::process::getuid().as_raw();
    let text = format!(
        "version = 1\nname = \"{name}\"\nuser = {uid}\nperiod_ms = {period_ms}\n\
         wcet_ms = {wcet_ms:?}\nfootprint = \"2MiB\"\nswappable = 0\n"
    );
    let path = folder.join(format!("{name}.toml"));
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// Name and period of every task, by name.
async fn tasks(bus: &zbus::Connection) -> Vec<(String, u64)> {
    let tasks = list(bus).await.unwrap().tasks;
    let mut tasks: Vec<_> = tasks
        .into_iter()
        .map(|(_, task)| (task.name, task.period_usec / 1000))
        .collect();
    tasks.sort();
    tasks
}

fn refusal(result: Result<(), Error>) -> String {
    match result.unwrap_err() {
        Error::InvalidArgument(text) | Error::NotSchedulable(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_come_go_and_change_and_a_bad_one_changes_nothing() {
    let home = Home::new(ONE_GPU);
    let folder = home.path().join("tasks.d");
    fs::create_dir(&folder).unwrap();
    write(&folder, "a", 100, 5.0);
    write(&folder, "b", 200, 5.0);
    let daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let a = |period| ("a".to_owned(), period);
    let b = |period| ("b".to_owned(), period);
    assert_eq!(tasks(&bus).await, [a(100), b(200)]);
    let before = list(&bus).await.unwrap().tasks;

    let changes = PropertiesProxy::new(&bus, BUS_NAME, &before[1].0).await;
    let changes = changes.unwrap().receive_properties_changed().await;
    write(&folder, "b", 300, 5.0);
    let larger = fs::read_to_string(folder.join("b.toml")).unwrap();
    let larger = larger.replace("footprint = \"2MiB\"", "footprint = \"4MiB\"");
    fs::write(folder.join("b.toml"), larger).unwrap();
    write(&folder, "c", 400, 5.0);
    manager.reload().await.unwrap();
    let signal = tokio::time::timeout(BOUND, changes.unwrap().next()).await;
    let signal = signal.unwrap().unwrap();
    let told = &signal.args().unwrap().changed_properties;
    assert_eq!(told["FootprintBytes"], zbus::Variant::U64(4 * MIB));
    assert_eq!(told["PeriodUSec"], zbus::Variant::U64(300_000));
    let c = || ("c".to_owned(), 400);
    assert_eq!(tasks(&bus).await, [a(100), b(300), c()]);
    let after = list(&bus).await.unwrap().tasks;
    assert_eq!(
        (&after[0].0, &after[1].0),
        (&before[0].0, &before[1].0),
        "the same objects"
    );

    // A bad file: nothing of all that is new.
    fs::write(
        folder.join("d.toml"),
        "version = 1\nname = \"d\"\nuser = 0\nperod_ms = 1\n",
    )
    .unwrap();
    write(&folder, "a", 500, 5.0);
    let text = refusal(manager.reload().await);
    assert!(
        text.ends_with("d.toml:4:1: unknown key `perod_ms`; did you mean `period_ms`?"),
        "{text}"
    );
    assert_eq!(tasks(&bus).await, [a(100), b(300), c()]);
    fs::remove_file(folder.join("d.toml")).unwrap();

    // What cannot be had stays as it was, the rest is taken.
    write(&folder, "b", 10, 10.0);
    let text = refusal(manager.reload().await);
    assert!(
        text.contains("these stay as they were: b: not schedulable"),
        "{text}"
    );
    assert_eq!(tasks(&bus).await, [a(500), b(300), c()]);
    write(&folder, "b", 300, 5.0);

    // Under a running process too.
    let agent = Agent::connect(&home.runtime_dir(), Some("c")).unwrap();
    write(&folder, "c", 350, 5.0);
    let text = refusal(manager.reload().await);
    assert!(text.contains("c: it runs as process"), "{text}");
    drop(agent);
    fs::remove_file(folder.join("c.toml")).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(daemon.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    wait_for("the files", || {
        home.log().contains("the files are in effect").then_some(())
    });
    // Its process lives, and goes on as best-effort.
    assert_eq!(tasks(&bus).await, [a(500), b(300), ("c".to_owned(), 0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_configuration_only_daemon_is_taken_again() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let fewer = ONE_GPU.replace("[daemon]", "[daemon]\nmax_tasks_per_user = 1");
    fs::write(home.config(), &fewer).unwrap();
    manager.reload().await.unwrap();
    let register = async |name| {
        manager
            .register(name, std::collections::HashMap::new())
            .await
    };
    register("one").await.unwrap();
    let error = register("two").await.unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");

    let other = ONE_GPU.replace("\"2MiB\"", "\"4MiB\"");
    fs::write(home.config(), other).unwrap();
    let text = refusal(manager.reload().await);
    assert!(
        text.starts_with("[[gpu]] and [scheduler] are read at the start only"),
        "{text}"
    );
    fs::write(
        home.config(),
        "version = 1\n[daemon]\nmax_task_per_user = 3\n",
    )
    .unwrap();
    let text = refusal(manager.reload().await);
    assert!(
        text.ends_with(":3:1: unknown key `max_task_per_user`; did you mean `max_tasks_per_user`?"),
        "{text}"
    );
    assert!(register("two").await.is_err(), "as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_back_from_before_the_restart_runs_all_the_same() {
    let home = Home::new(ONE_GPU);
    let folder = home.path().join("tasks.d");
    fs::create_dir(&folder).unwrap();
    write(&folder, "a", 100, 5.0);
    write(&folder, "b", 200, 5.0);
    let mut daemon = home.daemon();
    let a = Agent::connect(&home.runtime_dir(), Some("a")).unwrap();
    let b = Agent::connect(&home.runtime_dir(), Some("b")).unwrap();
    // The journal first: its records move on into the state.
    let files = ["state.journal", "state"].map(|name| home.runtime_dir().join(name));
    let kept = files.map(|path| fs::read_to_string(path).unwrap_or_default());
    let sessions = kept.concat().matches("\"cookie\"").count();
    assert!(sessions >= 2, "kept before they are welcomed: {kept:?}");
    daemon.kill();
    let _daemon = home.daemon();
    let bus = home.bus().await;
    write(&folder, "a", 500, 5.0);
    fs::remove_file(folder.join("b.toml")).unwrap();
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let text = refusal(manager.reload().await);
    assert!(text.contains("a: it runs as process"), "{text}");
    let _a = a.reconnect(&home.runtime_dir()).unwrap();
    let mut b = b.reconnect(&home.runtime_dir()).unwrap();
    assert_eq!(b.want(2 * MIB), 2 * MIB, "as best-effort");
    let now = tasks(&bus).await;
    assert_eq!(now, [("a".to_owned(), 100), ("b".to_owned(), 0)]);
}
