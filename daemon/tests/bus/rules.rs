//! What the policy says, as tasks and signals tell of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use zbus::{Connection, OwnedObjectPath, Variant};

use super::private::{Bus, joined};
use crate::common::user::{NOBODY, as_user, block_on};
use crate::common::{BOUND, Home, MIB, realtime};
use rtswap_dbus::objects::{NO_LIMIT, list};
use rtswap_dbus::{Error, Manager1Proxy, Task1Proxy, TaskProperties};

/// Longer than the daemon waits before it tells.
const QUIET: Duration = Duration::from_millis(700);

/// The number of `PolicyChanged` that a client has heard.
#[derive(Clone, Default)]
struct Heard(Arc<AtomicUsize>);

impl Heard {
    async fn listen(client: &Connection) -> Self {
        let heard = Self::default();
        let manager = Manager1Proxy::new(client).await.unwrap();
        let mut changes = manager.receive_policy_changed().await.unwrap();
        let count = Arc::clone(&heard.0);
        tokio::spawn(async move {
            while changes.next().await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        heard
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn wait(&self, least: usize) {
        let start = Instant::now();
        while self.count() < least {
            assert!(start.elapsed() < BOUND, "PolicyChanged is not told");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_the_policy_is_told_once_and_a_refused_one_never() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let (bus, socket) = (bus.connect().await, home.bus().await);
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    manager
        .register("rt", realtime().into_wire())
        .await
        .unwrap();
    let clients = [Heard::listen(&bus).await, Heard::listen(&socket).await];
    let are_told = async |count, why| {
        for client in &clients {
            client.wait(count).await;
        }
        tokio::time::sleep(QUIET).await;
        assert_eq!(clients.each_ref().map(Heard::count), [count; 2], "{why}");
    };
    are_told(0, "a new task is no change of it").await;
    let everybody = [("max_tasks", Variant::U8(9))];
    set(&manager, &everybody).await.unwrap();
    are_told(1, "once").await;
    set(&manager, &everybody).await.unwrap();
    are_told(1, "as it was").await;

    let wrong = set(&manager, &[("idle_after_us", Variant::U8(1))]).await;
    assert!(matches!(wrong, Err(Error::InvalidArgument(_))), "{wrong:?}");
    // Below its WCET.
    let name = ("task", Variant::from("rt"));
    let refused = set(&manager, &[name, ("deadline_us", Variant::U8(1))]).await;
    let Err(Error::NotSchedulable(text)) = refused else {
        panic!("{refused:?}");
    };
    assert!(text.starts_with("nothing has changed"), "{text}");
    are_told(1, "refused").await;

    manager.reload().await.unwrap();
    are_told(2, "it takes back what was set").await;
    manager.reload().await.unwrap();
    are_told(2, "the files say what they said").await;
}

#[test]
fn rules_for_others_are_told_on_a_bus_alone() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let (listens, ready) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (home, bus) = (&home, &bus);
        let listener = scope.spawn(move || {
            as_user(NOBODY, || {
                block_on(async {
                    let clients = doors(home, bus).await;
                    let [on_socket, on_bus] = &clients;
                    let heard = [Heard::listen(on_socket).await, Heard::listen(on_bus).await];
                    listens.send(()).unwrap();
                    heard[1].wait(2).await;
                    tokio::time::sleep(QUIET).await;
                    heard.map(|heard| heard.count())
                })
            })
        });
        // No sender is left where nobody else can be had.
        if ready.recv_timeout(BOUND).is_ok() {
            block_on(async {
                let root = bus.connect().await;
                let manager = Manager1Proxy::new(&root).await.unwrap();
                let heard = Heard::listen(&root).await;
                for (user, count) in [(0, 1), (NOBODY, 2)] {
                    let rule = [("user", Variant::U32(user)), ("max_tasks", Variant::U8(9))];
                    set(&manager, &rule).await.unwrap();
                    heard.wait(count).await;
                }
            });
        }
        let heard = listener.join().unwrap();
        assert!(heard.is_none_or(|heard| heard == [1, 2]), "{heard:?}");
    });
}

async fn doors(home: &Home, bus: &Bus) -> [Connection; 2] {
    [home.bus().await, bus.connect().await]
}

async fn properties(bus: &Connection, path: &OwnedObjectPath) -> TaskProperties {
    let tasks = list(bus).await.unwrap().tasks;
    tasks.into_iter().find(|(at, _)| at == path).unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_what_the_policy_lets_it_have() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let (bus, socket) = (bus.connect().await, home.bus().await);
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let path = manager.register("a", HashMap::new()).await.unwrap();
    let other = manager.register("b", HashMap::new()).await.unwrap();
    let limits = async |path| {
        let task = properties(&bus, path).await;
        assert_eq!(task, properties(&socket, path).await);
        (
            task.gpu_memory_limit_bytes / MIB,
            task.pinned_memory_limit_bytes / MIB,
            task.on_violation,
        )
    };
    let none = NO_LIMIT / MIB;
    let warn = "warn".to_owned();
    assert_eq!(limits(&path).await, (none, none, warn.clone()));
    let name = || ("task", Variant::from("a"));
    let watched = Task1Proxy::builder(&bus).path(&path).build().await.unwrap();
    let mut changes = watched.receive_gpu_memory_limit_bytes_changed().await;
    let rules = [
        name(),
        ("gpu_memory", Variant::from("8MiB")),
        ("pinned_memory", Variant::U8(0)),
        ("on_violation", Variant::from("kill")),
    ];
    set(&manager, &rules).await.unwrap();
    assert_eq!(limits(&path).await, (8, 0, "kill".to_owned()));
    assert_eq!(limits(&other).await, (none, none, warn.clone()));
    let start = Instant::now();
    loop {
        let change = tokio::time::timeout(BOUND, changes.next()).await;
        let now = change.expect("a change").unwrap().get().await.unwrap();
        if now == 8 * MIB {
            break;
        }
        assert!(start.elapsed() < BOUND, "{now}");
    }
    // The cap of all tasks of its user holds beside its own.
    set(&manager, &[("gpu_memory", Variant::from("5MiB"))])
        .await
        .unwrap();
    assert_eq!(limits(&path).await, (5, 0, "kill".to_owned()));
    assert_eq!(limits(&other).await, (5, none, warn));
    manager.reload().await.unwrap();
    assert_eq!(limits(&path).await.0, none);
}

#[tokio::test(flavor = "multi_thread")]
async fn never_frees_a_user_of_everybodys_idle_time() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let declared = HashMap::from([("idle_after_us", Variant::U32(9_000_000))]);
    let paths = [
        manager.register("a", HashMap::new()).await.unwrap(),
        manager.register("b", declared).await.unwrap(),
    ];
    let idle_times = async |bus: &Connection| {
        let mut times = Vec::new();
        for path in &paths {
            times.push(properties(bus, path).await.idle_after_usec);
        }
        times
    };
    set(&manager, &[("idle_after_us", Variant::U32(5_000_000))])
        .await
        .unwrap();
    assert_eq!(idle_times(&bus).await, [5_000_000, 5_000_000]);
    let own = rustix::process::getuid().as_raw();
    let never = [
        ("user", Variant::U32(own)),
        ("idle_after_us", Variant::from("never")),
    ];
    set(&manager, &never).await.unwrap();
    assert_eq!(idle_times(&bus).await, [0, 9_000_000], "as they declare");
    let policy = manager.policy().await.unwrap();
    let policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
    let rules = policy["rules"].as_array().unwrap().iter();
    let is_never =
        |rule: &&serde_json::Value| rule["key"] == "idle_after_us" && rule["value"] == "never";
    assert_eq!(rules.filter(is_never).count(), 1, "{policy}");
    let kept = home.runtime_dir().join("policy.toml");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(kept.contains("idle_after_ms = \"never\"\n"), "{kept}");
    let back = [
        ("user", Variant::U32(own)),
        ("idle_after_us", Variant::from("")),
    ];
    set(&manager, &back).await.unwrap();
    assert_eq!(idle_times(&bus).await, [5_000_000, 5_000_000]);
}
