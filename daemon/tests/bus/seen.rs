//! What another user may see, as the table of docs/security.md has it: read from there, and compared with
//! what the owner of a task, another user and root get, by the control socket and by a bus.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZero;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use zbus::fdo::{ObjectManagerProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{Connection, MatchRule, Message, MessageStream, OwnedObjectPath};

use super::authority::{Authority, Manner};
use super::private::{Bus, joined};
use crate::common::agent::Agent;
use crate::common::user::{NOBODY, as_user, block_on};
use crate::common::{BOUND, Home, MIB, realtime, skipped};
use rtswap_dbus::objects::list;
use rtswap_dbus::{
    BUS_NAME, Error, GpuProperties, Manager1Proxy, Options, ROOT_PATH, Size, TaskProperties,
};
use rtswap_wire::page::JobKind;

/// The owner of a task, `daemon`, that every system has, as a bus asks. Nobody is the other user.
const OWNER: u32 = 1;

/// The rows: what, what its user sees of it, what another user.
fn table() -> Vec<[String; 3]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/security.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("## What another user may see\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        line.trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .map(str::to_owned)
            .collect()
    };
    rows.map(|line| <Vec<String>>::try_into(cells(line)).unwrap())
        .collect()
}

/// The rows of one interface: each property with whether its user and another user see it.
fn rows(interface: &str) -> BTreeMap<String, [bool; 2]> {
    let seen = |cell: &str| match cell {
        "yes" => true,
        "no" => false,
        other => panic!("{other:?} is neither yes nor no"),
    };
    let prefix = format!("`{interface}.");
    let rows = table().into_iter().filter_map(|[what, own, other]| {
        let name = what.strip_prefix(&prefix)?.strip_suffix('`')?;
        Some((name.to_owned(), [seen(&own), seen(&other)]))
    });
    rows.collect()
}

/// What a row outside the interfaces says.
fn says(what: &str) -> [String; 2] {
    let row = table().into_iter().find(|row| row[0] == what);
    let [_, own, other] = row.unwrap_or_else(|| panic!("no row {what}"));
    [own, other]
}

/// By each door.
async fn doors(home: &Home, bus: &Bus) -> [Connection; 2] {
    [home.bus().await, bus.connect().await]
}

/// What the client gets of a task: the names by `GetAll`, by `Get` of each, and by `GetManagedObjects`.
async fn got(client: &Connection, task: &OwnedObjectPath) -> [BTreeSet<String>; 3] {
    let interface = InterfaceName::from_static_str_unchecked(rtswap_dbus::TASK);
    let proxy = PropertiesProxy::new(client, BUS_NAME, task.clone())
        .await
        .unwrap();
    let all = proxy.get_all(interface.clone()).await.unwrap();
    let mut single = BTreeSet::new();
    for property in TaskProperties::list() {
        match proxy.get(interface.clone(), property.name).await {
            Ok(_) => drop(single.insert(property.name.to_owned())),
            Err(error) => {
                let denied = matches!(error, zbus::fdo::Error::AccessDenied(_));
                assert!(denied, "{}: {error:?}", property.name);
            }
        }
    }
    let manager = ObjectManagerProxy::new(client, BUS_NAME, ROOT_PATH)
        .await
        .unwrap();
    let managed = manager.get_managed_objects().await.unwrap();
    let managed = managed[task][rtswap_dbus::TASK].keys().cloned();
    [all.into_keys().collect(), single, managed.collect()]
}

#[test]
fn the_table_is_what_each_user_gets() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let table = rows("Task1");
    let names: BTreeSet<_> = TaskProperties::list()
        .into_iter()
        .map(|it| it.name.to_owned())
        .collect();
    assert_eq!(table.keys().cloned().collect::<BTreeSet<_>>(), names);
    let expected = |column: usize| -> BTreeSet<String> {
        let seen = table.iter().filter(|(_, seen)| seen[column]);
        seen.map(|(name, _)| name.clone()).collect()
    };
    let tasks: Vec<_> = [OWNER, 0]
        .into_iter()
        .map(|owner| {
            let register = || {
                block_on(async {
                    let socket = home.bus().await;
                    let manager = Manager1Proxy::new(&socket).await.unwrap();
                    let options = Options {
                        gpu: Some("0".into()),
                        ..Options::default()
                    };
                    manager
                        .register("secret", options.into_wire())
                        .await
                        .unwrap()
                })
            };
            (owner, as_user(owner, register).unwrap())
        })
        .collect();
    for viewer in [OWNER, NOBODY, 0] {
        let look = || {
            block_on(async {
                for client in doors(&home, &bus).await {
                    for (owner, task) in &tasks {
                        let column = usize::from(viewer != 0 && viewer != *owner);
                        for names in got(&client, task).await {
                            assert_eq!(names, expected(column), "user {viewer} of {owner}'s");
                        }
                    }
                    let objects = list(&client).await.unwrap();
                    let own = if viewer == 0 {
                        2
                    } else {
                        usize::from(viewer == OWNER)
                    };
                    assert_eq!((objects.tasks.len(), objects.others.len()), (own, 2 - own));
                }
            });
        };
        as_user(viewer, look).unwrap();
    }
}

/// A job of root's task runs: what others get to see of the GPU, of its processes and of its signals.
#[test]
fn what_runs_is_not_said_to_others() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let heard: Arc<Mutex<Vec<Message>>> = Arc::default();
    let secret = block_on(async {
        let root = home.bus().await;
        let manager = Manager1Proxy::new(&root).await.unwrap();
        let options = Options {
            wcet: Some(Duration::from_millis(5)),
            period: Some(Duration::from_millis(50)),
            ..realtime()
        };
        manager
            .register("secret", options.into_wire())
            .await
            .unwrap()
    });
    std::thread::scope(|scope| {
        let (over, ended) = tokio::sync::oneshot::channel::<()>();
        let (listens, ready) = std::sync::mpsc::channel();
        let (home, bus) = (&home, &bus);
        let notes = Arc::clone(&heard);
        let listener = scope.spawn(move || {
            as_user(NOBODY, || {
                block_on(listen(home, bus, notes, listens, ended));
            })
        });
        ready.recv_timeout(BOUND).unwrap();
        let mut agent = Agent::connect(&home.runtime_dir(), Some("secret")).unwrap();
        let job = agent.request(JobKind::Declared);
        agent.wait_granted(job);
        block_on(async {
            let root = bus.connect().await;
            let is_shown = async {
                while list(&root).await.unwrap().gpus[0].1.running_task.as_str() == "/" {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(BOUND, is_shown).await.unwrap();
        });
        let running = says("`Gpu1.RunningTask`");
        for (viewer, expected) in [(0, secret.as_str()), (OWNER, running[1].trim_matches('`'))] {
            let look = || block_on(look_at_gpu(home, bus, viewer, expected));
            as_user(viewer, look).unwrap();
        }
        std::thread::sleep(Duration::from_millis(120));
        agent.complete(job);
        // Longer than the daemon waits before it tells.
        std::thread::sleep(Duration::from_millis(700));
        over.send(()).unwrap();
        listener.join().unwrap().unwrap();
    });
    let heard = heard.lock().unwrap();
    let mut kinds = BTreeSet::new();
    for message in heard.iter() {
        let header = message.header();
        let member = header.member().unwrap().to_string();
        let body = message.body();
        match member.as_str() {
            "DeadlineMissed" => {
                let (task, job, late, cause): (OwnedObjectPath, u64, u64, String) =
                    body.deserialize().unwrap();
                assert_eq!((&task, job, late, &*cause), (&secret, 0, 0, ""));
            }
            "Violation" => {
                let (task, kind, detail): (OwnedObjectPath, String, String) =
                    body.deserialize().unwrap();
                assert_eq!((&task, &*kind, &*detail), (&secret, "", ""));
            }
            "PropertiesChanged" => {
                let (interface, changed, _): (
                    String,
                    BTreeMap<String, zbus::OwnedVariant>,
                    Vec<String>,
                ) = body.deserialize().unwrap();
                let is_task = interface == rtswap_dbus::TASK;
                let is_public = |name: &String| !is_task || TaskProperties::is_public(name);
                assert!(changed.keys().all(is_public), "{changed:?}");
                kinds.extend(is_task.then(|| "task changed".to_owned()));
            }
            _ => {}
        }
        kinds.insert(member);
    }
    for kind in ["DeadlineMissed", "Violation", "task changed"] {
        assert!(
            kinds.contains(kind),
            "nobody heard {kind} on the bus: {kinds:?}"
        );
    }
}

/// Notes every signal of the daemon on the bus. None may come by the socket that tells of a task.
async fn listen(
    home: &Home,
    bus: &Bus,
    notes: Arc<Mutex<Vec<Message>>>,
    listens: std::sync::mpsc::Sender<()>,
    ended: tokio::sync::oneshot::Receiver<()>,
) {
    let [socket, bus] = doors(home, bus).await;
    // From then on the objects are served on the socket.
    list(&socket).await.unwrap();
    let mut peers = MessageStream::from(&socket);
    let rule = MatchRule::builder()
        .msg_type(zbus::message::Type::Signal)
        .sender(BUS_NAME)
        .build()
        .unwrap();
    let mut signals = MessageStream::for_match_rule(rule, &bus, NonZero::new(1000))
        .await
        .unwrap();
    listens.send(()).unwrap();
    tokio::pin!(ended);
    loop {
        tokio::select! {
            signal = signals.next() => notes.lock().unwrap().push(signal.unwrap().unwrap()),
            signal = peers.next() => {
                let signal = signal.unwrap().unwrap();
                let path = signal.header().path().map(ToString::to_string).unwrap_or_default();
                let member = signal.header().member().map(ToString::to_string).unwrap_or_default();
                assert!(
                    !path.contains("/task/") && member != "DeadlineMissed" && member != "Violation",
                    "{signal:?}"
                );
            }
            _ = &mut ended => return,
        }
    }
}

async fn look_at_gpu(home: &Home, bus: &Bus, viewer: u32, expected: &str) {
    let documented: BTreeSet<_> = self::table()
        .into_iter()
        .filter_map(|[what, ..]| Some(what.strip_prefix("`Gpu1.")?.strip_suffix('`')?.to_owned()))
        .collect();
    let served: BTreeSet<_> = GpuProperties::list()
        .into_iter()
        .map(|it| it.name.to_owned())
        .collect();
    assert_eq!(documented, served);
    for client in doors(home, bus).await {
        let gpu = list(&client).await.unwrap().gpus.remove(0).1;
        assert_eq!(gpu.running_task.as_str(), expected, "user {viewer}");
        let proxy = PropertiesProxy::new(&client, BUS_NAME, rtswap_dbus::gpu_path(0))
            .await
            .unwrap();
        let interface = InterfaceName::from_static_str_unchecked(rtswap_dbus::GPU);
        let all = proxy.get_all(interface.clone()).await.unwrap();
        assert_eq!(all.keys().cloned().collect::<BTreeSet<_>>(), served);
        let running = proxy.get(interface, "RunningTask").await.unwrap();
        let running = OwnedObjectPath::try_from(running).unwrap();
        assert_eq!(running.as_str(), expected, "user {viewer}");
        let manager = Manager1Proxy::new(&client).await.unwrap();
        let processes = manager.list_processes().await.unwrap().len();
        let [own, other] = says("`ListProcesses`, a process");
        let seen = if viewer == 0 { own } else { other };
        assert_eq!(processes, usize::from(seen == "yes"), "user {viewer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_seen_as_the_table_says() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let _authority = Authority::serve(&polkit, Manner::No).await;
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    for user in [Some(OWNER), None] {
        let mut rule = HashMap::from([("max_tasks", zbus::Variant::U32(77))]);
        rule.extend(user.map(|uid| ("user", zbus::Variant::U32(uid))));
        manager.set_policy(rule).await.unwrap();
    }
    let foreign = says("`Policy`, the rules for a user and for the user's tasks");
    let common = says("`Policy`, the rules for everybody");
    for (viewer, column) in [(0, 0), (OWNER, 0), (NOBODY, 1)] {
        as_user(viewer, || {
            block_on(async {
                for client in doors(&home, &bus).await {
                    let manager = Manager1Proxy::new(&client).await.unwrap();
                    let policy = manager.policy().await.unwrap();
                    let sees = |scope: &str| {
                        let start = format!(r#"{{"scope":"{scope}""#);
                        policy
                            .split_inclusive('}')
                            .any(|rule| rule.contains(&start) && rule.contains(r#""value":77"#))
                    };
                    let seen = [foreign[column] == "yes", common[column] == "yes"];
                    assert_eq!([sees("user"), sees("everybody")], seen, "user {viewer}");
                }
            });
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_and_refusals_name_no_task_of_others() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let _authority = Authority::serve(&polkit, Manner::To("org.rtswap.register-realtime")).await;
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    manager
        .register("secret", realtime().into_wire())
        .await
        .unwrap();
    as_user(NOBODY, || {
        block_on(async {
            let [socket, bus] = doors(&home, &bus).await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            let small = Options {
                footprint: Some(Size::Bytes(2 * MIB)),
                ..realtime()
            };
            manager.register("small", small.into_wire()).await.unwrap();
            for footprint in [12 * MIB, 1 << 40] {
                let large = Options {
                    footprint: Some(Size::Bytes(footprint)),
                    ..realtime()
                };
                let refused = manager
                    .register("large", large.into_wire())
                    .await
                    .unwrap_err();
                let Error::NotSchedulable(text) = refused else {
                    panic!("{refused:?}");
                };
                assert!(!text.contains("secret"), "{text}");
            }
            for client in [socket, bus] {
                let manager = Manager1Proxy::new(&client).await.unwrap();
                let text = manager.plan().await.unwrap();
                assert!(!text.contains("secret"), "{text}");
                let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
                let gpu = &plan["gpus"][0];
                assert_eq!(gpu["tasks"].as_array().unwrap().len(), 1);
                assert_eq!(
                    (&gpu["tasks"][0]["name"], &gpu["other_tasks"]),
                    (&"small".into(), &1.into())
                );
                assert!(gpu["utilization"].as_f64().unwrap() > 0.09, "{text}");
            }
        });
    });
    let text = manager.plan().await.unwrap();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names: Vec<_> = plan["gpus"][0]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| &task["name"])
        .collect();
    assert_eq!(names, ["secret", "small@65534"]);
    assert_eq!(plan["gpus"][0]["other_tasks"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn polkit_lets_managers_see_without_a_password() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    manager
        .register("secret", Options::default().into_wire())
        .await
        .unwrap();
    for (manner, seen) in [(Manner::Yes, 1), (Manner::Challenge, 0)] {
        let polkit = bus.connect().await;
        let authority = Authority::serve(&polkit, manner).await;
        as_user(NOBODY, || {
            block_on(async {
                let client = bus.connect().await;
                assert_eq!(list(&client).await.unwrap().tasks.len(), seen);
            });
        });
        assert_eq!(
            authority.asked(),
            [("org.rtswap.manage-others".to_owned(), 0)],
            "nobody is asked for a password"
        );
        polkit.close().await.unwrap();
    }
}

#[test]
fn status_shows_the_same() {
    let Some((home, _bus, _daemon)) = joined() else {
        return;
    };
    let built = Path::new(env!("CARGO_BIN_EXE_rtswapd")).with_file_name("rtswapctl");
    if !built.exists() {
        skipped("rtswapctl is not built");
        return;
    }
    // Where every user may run it.
    let program = home.path().join("rtswapctl");
    std::fs::copy(built, &program).unwrap();
    block_on(async {
        let root = home.bus().await;
        let manager = Manager1Proxy::new(&root).await.unwrap();
        let options = Options::default().into_wire();
        manager.register("secret", options).await.unwrap();
    });
    let _agent = Agent::connect(&home.runtime_dir(), Some("secret")).unwrap();
    block_on(async {
        let root = home.bus().await;
        let manager = Manager1Proxy::new(&root).await.unwrap();
        let is_shown = async {
            while manager.list_processes().await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(BOUND, is_shown).await.unwrap();
    });
    for (column, viewer) in [0, NOBODY].into_iter().enumerate() {
        let mut command = Command::new(&program);
        command
            .arg("--runtime-dir")
            .arg(home.runtime_dir())
            .args(["status", "--json"]);
        let output = command
            .uid(viewer)
            .gid(viewer)
            .current_dir("/")
            .output()
            .unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        for (what, key) in [
            ("`rtswapctl status`, a task in `tasks`", "tasks"),
            (
                "`rtswapctl status`, a task in `other_tasks` (class, GPU, user)",
                "other_tasks",
            ),
            ("`rtswapctl status`, a process in `processes`", "processes"),
        ] {
            let listed = status[key].as_array().unwrap().len();
            let expected = usize::from(says(what)[column] == "yes");
            assert_eq!(listed, expected, "user {viewer}: {key}: {status}");
        }
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("secret"), viewer == 0, "{text}");
    }
}
