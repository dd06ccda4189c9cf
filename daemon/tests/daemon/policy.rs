//! The administrator's policy: set, shown, kept over a restart, and taken back.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use zbus::Variant;

use crate::common::agent::Agent;
use crate::common::user::{NOBODY, as_nobody, block_on};
use crate::common::{Home, MIB, ONE_GPU, realtime, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{Error, Manager1Proxy, Options, TaskProperties};

/// A daemon's folder where policy.toml says this and everybody may come in.
fn home(policy: &str) -> Home {
    let home = Home::new(ONE_GPU);
    write(&home, policy);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    home
}

fn write(home: &Home, policy: &str) {
    let path = home.path().join("policy.toml");
    fs::write(&path, policy).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
}

/// The user that the tests run as.
fn own() -> u32 {
    rustix::process::getuid().as_raw()
}

async fn set(
    manager: &Manager1Proxy<'_>,
    options: &[(&'static str, Variant<'_>)],
) -> Result<(), Error> {
    let options = options
        .iter()
        .map(|(key, value)| (*key, value.try_clone().unwrap()));
    manager.set_policy(options.collect()).await
}

/// The rules that `manager` shows of a key: for whom, value, source, and whether it holds.
async fn rules(manager: &Manager1Proxy<'_>, key: &str) -> Vec<(String, Value, String, bool)> {
    let text = manager.policy().await.unwrap();
    let policy: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(policy["version"], 1);
    let rules = policy["rules"].as_array().unwrap().iter();
    let rules = rules.filter(|rule| rule["key"] == key).map(|rule| {
        let scope = match (&rule["user"], &rule["task"]) {
            (Value::Null, Value::Null) => "everybody".to_owned(),
            (user, Value::Null) => user.to_string(),
            (user, task) => format!("{user}/{}", task.as_str().unwrap()),
        };
        let source = rule["source"].as_str().unwrap().to_owned();
        let holds = rule["holds"].as_bool().unwrap();
        (scope, rule["value"].clone(), source, holds)
    });
    rules.collect()
}

fn row(scope: &str, value: Value, source: &str, holds: bool) -> (String, Value, String, bool) {
    (scope.to_owned(), value, source.to_owned(), holds)
}

async fn task(bus: &zbus::Connection, name: &str) -> TaskProperties {
    let tasks = list(bus).await.unwrap().tasks;
    let found = tasks.into_iter().find(|(_, task)| task.name == name);
    found.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_root_sets_holds_until_the_files_are_read_again() {
    let uid = own();
    let home = home(&format!(
        "version = 1\n[everybody]\nmax_tasks = 9\n[[task]]\nuser = {uid}\nname = \"a\"\ndeadline_ms = 90\n"
    ));
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager.register("a", realtime().into_wire()).await.unwrap();
    manager
        .register("b", Options::default().into_wire())
        .await
        .unwrap();
    assert_eq!(task(&bus, "a").await.deadline_usec, 90_000, "by the file");
    let a = format!("{uid}/a");
    assert_eq!(
        rules(&manager, "deadline_us").await,
        [row(&a, json!(90_000), "policy.toml", true)]
    );
    let most = [
        row("everybody", json!(9), "policy.toml", true),
        // What is built in does not show where something is said.
    ];
    assert_eq!(rules(&manager, "max_tasks").await, most);

    let name = || ("task", Variant::from("a"));
    set(&manager, &[name(), ("deadline_us", Variant::I64(60_000))])
        .await
        .unwrap();
    set(
        &manager,
        &[
            ("task", Variant::from("b")),
            ("user", Variant::U64(uid.into())),
            ("weight", Variant::U8(7)),
        ],
    )
    .await
    .unwrap();
    set(&manager, &[("max_tasks", Variant::U8(2))])
        .await
        .unwrap();
    let shows_what_is_set = async |bus: &zbus::Connection| {
        let manager = Manager1Proxy::new(bus).await.unwrap();
        assert_eq!(task(bus, "a").await.deadline_usec, 60_000);
        assert_eq!(task(bus, "b").await.weight, 7);
        assert_eq!(
            rules(&manager, "deadline_us").await,
            [
                row(&a, json!(60_000), "run-time", true),
                row(&a, json!(90_000), "policy.toml", false),
            ]
        );
        let third = manager.register("c", HashMap::new()).await.unwrap_err();
        assert!(matches!(third, Error::Busy(_)), "{third:?}");
    };
    shows_what_is_set(&bus).await;

    // A daemon that is started again goes on with it, also where the one before was killed.
    daemon.kill();
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    shows_what_is_set(&bus).await;
    let kept = home.runtime_dir().join("policy.toml");
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "not for others");

    // An empty text takes back one rule, a reload all of them.
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    set(&manager, &[name(), ("deadline_us", Variant::from(""))])
        .await
        .unwrap();
    assert_eq!(task(&bus, "a").await.deadline_usec, 90_000);
    assert_eq!(task(&bus, "b").await.weight, 7, "the others stay");
    manager.reload().await.unwrap();
    assert_eq!(task(&bus, "b").await.weight, 100);
    assert_eq!(rules(&manager, "max_tasks").await, most);
    manager.register("c", HashMap::new()).await.unwrap();
    assert!(!kept.exists(), "there is nothing to keep");
    assert_eq!(daemon.terminate(), Some(0));
    let _daemon = home.daemon();
    assert_eq!(task(&home.bus().await, "b").await.weight, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_and_classes_are_enforced() {
    let home = home("version = 1\n");
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager.register("a", HashMap::new()).await.unwrap();
    let runtime_dir = home.runtime_dir();
    let mut agent = Agent::connect(&runtime_dir, Some("a")).unwrap();
    assert_eq!(agent.want(4 * MIB), 4 * MIB);
    agent.allocate(4 * MIB);
    let user = || ("user", Variant::U32(own()));
    set(&manager, &[user(), ("gpu_memory", Variant::from("5MiB"))])
        .await
        .unwrap();
    assert_eq!(
        agent.want(6 * MIB),
        4 * MIB,
        "no more, and nothing is taken"
    );
    set(&manager, &[user(), ("gpu_memory", Variant::from("6MiB"))])
        .await
        .unwrap();
    assert_eq!(agent.want(6 * MIB), 6 * MIB);

    set(&manager, &[("class", Variant::from("best-effort"))])
        .await
        .unwrap();
    let refused = manager.register("rt", realtime().into_wire()).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("the policy makes rt best-effort"), "{text}");
    set(
        &manager,
        &[
            ("task", Variant::from("rt")),
            ("class", Variant::from("declared")),
            ("gpu_memory", Variant::from("10MiB")),
        ],
    )
    .await
    .unwrap();
    // The user's own cap stands in its way: root lifts it for everybody of that user.
    set(&manager, &[user(), ("gpu_memory", Variant::from(""))])
        .await
        .unwrap();
    manager
        .register("rt", realtime().into_wire())
        .await
        .unwrap();
    assert_eq!(task(&bus, "rt").await.class, "realtime");
}

/// A task that a rule makes best-effort stays so under the next daemon, and comes back with what it declared.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_outlives_the_daemon_and_what_a_task_declares_outlives_the_class() {
    let home = home("version = 1\n");
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager
        .register("rt", realtime().into_wire())
        .await
        .unwrap();
    let agent = Agent::connect(&home.runtime_dir(), Some("rt")).unwrap();
    let name = || ("task", Variant::from("rt"));
    set(&manager, &[name(), ("class", Variant::from("best-effort"))])
        .await
        .unwrap();
    assert_eq!(task(&bus, "rt").await.class, "best-effort");
    daemon.kill();
    let _daemon = home.daemon();
    let _agent = agent.reconnect(&home.runtime_dir()).unwrap();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    assert_eq!(task(&bus, "rt").await.class, "best-effort");
    set(&manager, &[name(), ("class", Variant::from(""))])
        .await
        .unwrap();
    let back = task(&bus, "rt").await;
    assert_eq!(
        (back.class.as_str(), back.deadline_usec),
        ("realtime", 100_000)
    );
    let deadline = async |micros| set(&manager, &[name(), ("deadline_us", micros)]).await;
    deadline(Variant::U32(50_000)).await.unwrap();
    assert_eq!(task(&bus, "rt").await.deadline_usec, 50_000);
    deadline(Variant::from("")).await.unwrap();
    assert_eq!(task(&bus, "rt").await.deadline_usec, 100_000);
}

/// A rule is for those that come: it ends none that are there, not in the next daemon either.
#[tokio::test(flavor = "multi_thread")]
async fn fewer_tasks_than_there_are_end_none() {
    let home = home("version = 1\n");
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    for name in ["a", "b"] {
        manager.register(name, HashMap::new()).await.unwrap();
    }
    set(&manager, &[("max_tasks", Variant::U8(0))])
        .await
        .unwrap();
    daemon.kill();
    let _daemon = home.daemon();
    let bus = home.bus().await;
    for name in ["a", "b"] {
        assert_eq!(task(&bus, name).await.class, "best-effort");
    }
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let refused = manager.register("c", HashMap::new()).await.unwrap_err();
    assert!(matches!(refused, Error::Busy(_)), "{refused:?}");
}

/// Where others were admitted meanwhile, a task that may have its deadline again has none, in the next daemon too.
#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_is_given_back_too_late_takes_nobodys_place() {
    let home = home("version = 1\n");
    let mut daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let register = async |name| manager.register(name, realtime().into_wire()).await;
    register("first").await.unwrap();
    let rule = [
        ("task", Variant::from("first")),
        ("class", Variant::from("best-effort")),
    ];
    set(&manager, &rule).await.unwrap();
    for name in ["second", "third"] {
        register(name).await.unwrap();
    }
    // It takes the rule back, and there is room for two.
    let told = manager.reload().await.unwrap_err().to_string();
    assert!(told.contains("first: not schedulable"), "{told}");
    let classes = async |bus: &_| {
        let mut classes = Vec::new();
        for name in ["first", "second", "third"] {
            classes.push(task(bus, name).await.class);
        }
        classes
    };
    let expected = ["best-effort", "realtime", "realtime"];
    assert_eq!(classes(&bus).await, expected);
    daemon.kill();
    let _daemon = home.daemon();
    assert_eq!(classes(&home.bus().await).await, expected);
}

#[test]
fn another_user_sets_nothing_and_sees_its_own() {
    let roots = own();
    let home = home(&format!(
        "version = 1\n[everybody]\nmax_tasks = 9\n[[user]]\nuser = {NOBODY}\ngpu_memory = 5\n\
         [[task]]\nuser = {NOBODY}\nname = \"a\"\nweight = 3\n[[user]]\nuser = {roots}\ngpu_memory = 7\n\
         [[task]]\nuser = {roots}\nname = \"secret\"\nweight = 3\n"
    ));
    let _daemon = home.daemon();
    let before = block_on(async {
        let bus = home.bus().await;
        let manager = Manager1Proxy::new(&bus).await.unwrap();
        assert_eq!(
            rules(&manager, "gpu_memory").await.len(),
            2,
            "root sees all"
        );
        manager.policy().await.unwrap()
    });
    as_nobody(|| {
        block_on(async {
            let bus = home.bus().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            for options in [
                vec![("max_tasks", Variant::U8(99))],
                vec![
                    ("user", Variant::U32(NOBODY)),
                    ("gpu_memory", Variant::from("")),
                ],
                vec![("task", Variant::from("a")), ("weight", Variant::U16(900))],
            ] {
                let denied = set(&manager, &options).await.unwrap_err();
                assert!(matches!(denied, Error::AccessDenied(_)), "{denied:?}");
                assert_eq!(
                    denied.to_string(),
                    "user 65534 may not set the policy; root may"
                );
            }
            let wrong = set(&manager, &[("max_task", Variant::U8(99))]).await;
            assert!(matches!(wrong, Err(Error::InvalidArgument(_))), "{wrong:?}");
            let nobody = NOBODY.to_string();
            assert_eq!(
                rules(&manager, "gpu_memory").await,
                [row(&nobody, json!(5), "policy.toml", true)]
            );
            let a = format!("{NOBODY}/a");
            assert_eq!(
                rules(&manager, "weight").await,
                [row(&a, json!(3), "policy.toml", true)]
            );
            assert_eq!(rules(&manager, "max_tasks").await.len(), 1);
            assert!(!manager.policy().await.unwrap().contains("secret"));
        });
        assert!(fs::read(home.runtime_dir().join("policy.toml")).is_err());
    });
    let after = block_on(async {
        let bus = home.bus().await;
        let manager = Manager1Proxy::new(&bus).await.unwrap();
        manager.policy().await.unwrap()
    });
    assert_eq!(before, after);
}

/// Where a file of the policy is wrong, a daemon does not start without it, and one that runs goes on as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_changes_nothing_and_a_wrong_file_of_its_own_counts_for_nothing() {
    let home = home("version = 1\n[everybody]\nmax_taks = 3\n");
    let (code, text) = home.refused();
    assert_eq!(code, 2);
    assert!(
        text.ends_with("policy.toml:3:1: unknown key `max_taks`; did you mean `max_tasks`?"),
        "{text}"
    );
    write(&home, "version = 1\n[everybody]\nmax_tasks = 3\n");
    fs::create_dir_all(home.runtime_dir()).unwrap();
    let spoilt = home.runtime_dir().join("policy.toml");
    fs::write(&spoilt, "version = 1\n[everybody]\nmax_tasks = \"no\"\n").unwrap();
    let _daemon = home.daemon();
    wait_for("what is wrong", || {
        let log = home.log();
        let told = "what was set of the policy at run time does not count";
        (log.contains("policy.toml:3:13: ") && log.contains(told)).then_some(())
    });
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let most = [row("everybody", json!(3), "policy.toml", true)];
    assert_eq!(rules(&manager, "max_tasks").await, most);
    write(&home, "version = 1\n[everybody]\nmax_tasks = -3\n");
    let error = manager.reload().await.unwrap_err();
    assert!(
        matches!(&error, Error::InvalidArgument(text) if text.contains("policy.toml:3:13: ")),
        "{error:?}"
    );
    assert_eq!(rules(&manager, "max_tasks").await, most);
    set(&manager, &[("max_tasks", Variant::U8(4))])
        .await
        .unwrap();
    let kept = fs::read_to_string(&spoilt).unwrap();
    assert!(kept.contains("max_tasks = 4\n"), "{kept}");
}
