//! Realtime and others' tasks for ordinary users: by polkit's leave, and never at others' cost.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use zbus::{Connection, fdo};

use super::authority::{Authority, Manner};
use super::private::{Bus, calibration, joined};
use crate::common::agent::Agent;
use crate::common::user::{as_nobody, block_on};
use crate::common::{BOUND, Home, MIB, ONE_GPU, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{Error, Manager1Proxy, Options, Size};

const REALTIME: &str = "org.rtswap.register-realtime";
const OTHERS: &str = "org.rtswap.manage-others";

fn realtime() -> Options {
    Options {
        period: Some(Duration::from_millis(100)),
        wcet: Some(Duration::from_millis(1)),
        footprint: Some(Size::Bytes(MIB)),
        swappable: Some(Size::Bytes(0)),
        ..Options::default()
    }
}

/// Registers a realtime task as nobody.
fn try_realtime(bus: &Bus) -> Result<zbus::OwnedObjectPath, Error> {
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            manager.register("rt", realtime().into_wire()).await
        })
    })
    .expect("a bus of its own needs root already")
}

fn denial(result: Result<zbus::OwnedObjectPath, Error>) -> String {
    match result.unwrap_err() {
        Error::AccessDenied(text) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn polkit_decides_for_ordinary_users() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let text = denial(try_realtime(&bus));
    assert!(
        text.starts_with(
            "user 65534 may not register realtime tasks: polkit, which decides over \
                          org.rtswap.register-realtime, does not answer"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("install polkitd, or do it as root"),
        "{text}"
    );

    for (manner, part) in [
        (Manner::No, "polkit says no to org.rtswap.register-realtime"),
        (
            Manner::Challenge,
            "polkit says no to org.rtswap.register-realtime",
        ),
    ] {
        let polkit = bus.connect().await;
        let authority = Authority::serve(&polkit, manner).await;
        let text = denial(try_realtime(&bus));
        assert!(text.contains(part), "{text}");
        assert_eq!(
            authority.asked(),
            [(REALTIME.to_owned(), 1)],
            "the flag is passed on"
        );
        polkit.close().await.unwrap();
    }

    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Challenge).await;
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let (name, root) = (Some(rtswap_dbus::BUS_NAME), rtswap_dbus::ROOT_PATH);
            let body = ("rt", realtime().into_wire());
            let call = bus.call_method(name, root, Some(rtswap_dbus::MANAGER), "Register", &body);
            let text = call.await.unwrap_err().to_string();
            assert!(
                text.contains("org.rtswap.register-realtime needs a password"),
                "{text}"
            );
            assert!(
                text.contains("org.freedesktop.DBus.Error.AccessDenied"),
                "{text}"
            );
        });
    });
    assert_eq!(authority.asked(), [(REALTIME.to_owned(), 0)]);
    polkit.close().await.unwrap();

    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Yes).await;
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    let roots = manager
        .register("roots", realtime().into_wire())
        .await
        .unwrap();
    assert_eq!(authority.asked(), [], "root needs nobody's leave");
    let task = try_realtime(&bus).unwrap();
    let tasks = list(&root).await.unwrap().tasks;
    let own = tasks.iter().find(|(path, _)| *path == task).unwrap();
    assert_eq!((own.1.user_id, own.1.class.as_str()), (65534, "realtime"));
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            manager.park(&task.as_ref()).await.unwrap();
            manager.resume(&task.as_ref()).await.unwrap();
            manager.unregister(&task.as_ref()).await.unwrap();
            manager.park(&roots.as_ref()).await.unwrap();
            manager.resume(&roots.as_ref()).await.unwrap();
            manager.unregister(&roots.as_ref()).await.unwrap();
            let reload = manager.reload().await.unwrap_err();
            assert!(matches!(reload, Error::AccessDenied(_)), "{reload:?}");
        });
    });
    let asked: Vec<_> = authority
        .asked()
        .into_iter()
        .map(|(action, _)| action)
        .collect();
    assert_eq!(
        asked,
        [REALTIME, OTHERS, OTHERS, OTHERS],
        "its own task needs no leave"
    );
    assert!(list(&root).await.unwrap().tasks.is_empty());
}

/// A large weight takes from other users as a deadline does.
#[tokio::test(flavor = "multi_thread")]
async fn a_weight_above_the_default_needs_the_same_leave() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::No).await;
    let weighing = |name, weight| {
        let options = Options {
            weight: Some(weight),
            ..Options::default()
        };
        as_nobody(|| {
            block_on(async {
                let bus = bus.connect().await;
                let manager = Manager1Proxy::new(&bus).await.unwrap();
                manager.register(name, options.into_wire()).await
            })
        })
        .unwrap()
    };
    weighing("light", 1).unwrap();
    weighing("usual", 100).unwrap();
    assert_eq!(authority.asked(), [], "up to the default it needs no leave");
    assert_eq!(
        denial(weighing("heavy", 101)),
        "user 65534 may not register tasks with a weight above 100: polkit says no to \
         org.rtswap.register-realtime; ask the administrator for a rule, or do it as root"
    );
    assert_eq!(authority.asked(), [(REALTIME.to_owned(), 1)]);
    polkit.close().await.unwrap();

    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Yes).await;
    let task = weighing("heavy", 10_000).unwrap();
    assert_eq!(authority.asked(), [(REALTIME.to_owned(), 1)]);
    let tasks = list(&bus.connect().await).await.unwrap().tasks;
    let weights = tasks.iter().map(|(_, task)| (&*task.name, task.weight));
    assert_eq!(
        weights.collect::<Vec<_>>(),
        [("light", 1), ("usual", 100), ("heavy", 10_000)]
    );
    assert_eq!(tasks[2].0, task);
}

/// Changes the policy as nobody.
fn try_policy(bus: &Bus, key: &'static str, value: &str) -> Result<(), Error> {
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            let options = HashMap::from([(key, zbus::Variant::from(value))]);
            manager.set_policy(options).await
        })
    })
    .expect("a bus of its own needs root already")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_is_set_by_polkits_leave_which_is_asked_for_last() {
    const POLICY: &str = "org.rtswap.set-policy";
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::No).await;
    for (key, value) in [("colour", "red"), ("class", "red"), ("weight", "3")] {
        let wrong = try_policy(&bus, key, value).unwrap_err();
        assert!(matches!(wrong, Error::InvalidArgument(_)), "{wrong:?}");
    }
    assert_eq!(authority.asked(), [], "it is wrong anyway");
    let text = try_policy(&bus, "gpu_memory", "5MiB").unwrap_err();
    assert_eq!(
        text.to_string(),
        "user 65534 may not set the policy: polkit says no to org.rtswap.set-policy; ask the administrator for a \
         rule, or do it as root"
    );
    assert_eq!(authority.asked(), [(POLICY.to_owned(), 1)]);
    polkit.close().await.unwrap();

    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Yes).await;
    try_policy(&bus, "gpu_memory", "5MiB").unwrap();
    assert_eq!(authority.asked(), [(POLICY.to_owned(), 1)]);
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    let said = r#""key":"gpu_memory","value":5242880,"source":"run-time","holds":true"#;
    let policy = manager.policy().await.unwrap();
    assert!(policy.contains(said), "{policy}");
    let nothing = HashMap::from([("gpu_memory", zbus::Variant::from(""))]);
    manager.set_policy(nothing).await.unwrap();
    assert_eq!(authority.asked().len(), 1, "root needs nobody's leave");
    assert!(!manager.policy().await.unwrap().contains("gpu_memory"));
}

/// Calibrates as nobody.
fn try_calibration(bus: &Bus, text: &str) -> Result<bool, Error> {
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            manager.set_calibration(text).await
        })
    })
    .expect("a bus of its own needs root already")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_is_calibrated_by_polkits_leave_which_is_asked_for_last() {
    const CALIBRATE: &str = "org.rtswap.calibrate";
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let own = calibration("GPU-01234567-89ab-cdef-0123-456789abcdef");
    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::No).await;
    let wrong = try_calibration(&bus, "version = 1").unwrap_err();
    assert!(matches!(wrong, Error::InvalidArgument(_)), "{wrong:?}");
    let elsewhere = calibration("GPU-00000000-89ab-cdef-0123-456789abcdef");
    let wrong = try_calibration(&bus, &elsewhere).unwrap_err();
    assert!(matches!(wrong, Error::NoSuchGpu(_)), "{wrong:?}");
    assert_eq!(authority.asked(), [], "it is wrong anyway");
    let text = try_calibration(&bus, &own).unwrap_err();
    assert_eq!(
        text.to_string(),
        "user 65534 may not calibrate GPUs: polkit says no to org.rtswap.calibrate; ask the administrator for a rule, \
         or do it as root"
    );
    assert_eq!(authority.asked(), [(CALIBRATE.to_owned(), 1)]);
    polkit.close().await.unwrap();

    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Yes).await;
    try_calibration(&bus, &own).unwrap();
    assert_eq!(authority.asked(), [(CALIBRATE.to_owned(), 1)]);
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    manager.set_calibration(&own).await.unwrap();
    assert_eq!(authority.asked().len(), 1, "root needs nobody's leave");
}

#[tokio::test(flavor = "multi_thread")]
async fn nonsense_is_refused_before_anybody_is_asked() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Yes).await;
    // A process's own task, which nobody can end.
    let _agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    let root = bus.connect().await;
    let own = wait_for("the process's task", || {
        let tasks = std::thread::scope(|scope| scope.spawn(|| block_on(list(&root))).join());
        let tasks = tasks.unwrap().unwrap().tasks;
        tasks.into_iter().next().map(|(path, _)| path)
    });
    as_nobody(|| {
        block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            let error = manager.unregister(&own.as_ref()).await.unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
            let nothing = rtswap_dbus::task_path(99);
            let error = manager.unregister(&nothing.as_ref()).await.unwrap_err();
            assert!(matches!(error, Error::NoSuchTask(_)), "{error:?}");
            let elsewhere = Options {
                gpu: Some("7".into()),
                ..realtime()
            };
            let error = manager.register("x", elsewhere.into_wire()).await;
            assert!(matches!(error, Err(Error::NoSuchGpu(_))), "{error:?}");
            let options = Options {
                wcet: Some(Duration::from_secs(1)),
                ..realtime()
            };
            let error = manager
                .register("x", options.into_wire())
                .await
                .unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
        });
    });
    assert_eq!(authority.asked(), []);
}

/// The median time of a question to the daemon.
async fn median(bus: &Connection) -> Duration {
    let mut times = Vec::new();
    for _ in 0..21 {
        let start = Instant::now();
        list(bus).await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

/// Tries to set a property to a text.
async fn set(bus: &Connection, path: &str, interface: &str, name: &str) -> fdo::Result<()> {
    let properties = fdo::PropertiesProxy::builder(bus)
        .destination(rtswap_dbus::BUS_NAME)
        .path(path)
        .build()
        .await?;
    let value = zbus::Variant::from("x");
    let set = properties.set(interface.try_into()?, name, &value);
    let bounded = tokio::time::timeout(Duration::from_secs(5), set).await;
    bounded.map_err(|_| fdo::Error::Timeout(name.to_owned()))?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_authorization_blocks_nobody_and_leaves_with_its_caller() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let polkit = bus.connect().await;
    let authority = Authority::serve(&polkit, Manner::Wait).await;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| try_realtime(&bus));
        wait_for("the question", || {
            (authority.asked().len() == 1).then_some(())
        });
        as_nobody(|| {
            block_on(async {
                let other = bus.connect().await;
                let took = median(&other).await;
                println!("meanwhile, on the bus: {took:?}");
                assert!(took < Duration::from_secs(1), "{took:?}");
                let took = median(&home.bus().await).await;
                println!("meanwhile, on the socket: {took:?}");
                assert!(took < Duration::from_secs(1), "{took:?}");
                // The same user as who waits.
                let start = Instant::now();
                let manager = Manager1Proxy::new(&other).await.unwrap();
                let options = Options::default().into_wire();
                manager.register("quick", options).await.unwrap();
                assert!(start.elapsed() < Duration::from_secs(10));
                // To set a property takes no lock that the question holds, and leaves none for its answer.
                let task = manager.register("set", Options::default().into_wire());
                let task = task.await.unwrap();
                for (path, interface, name) in [
                    (rtswap_dbus::ROOT_PATH, rtswap_dbus::MANAGER, "Version"),
                    (rtswap_dbus::ROOT_PATH, rtswap_dbus::MANAGER, "Nothing"),
                    (task.as_str(), rtswap_dbus::TASK, "Weight"),
                    ("/org/rtswap/gpu/0", rtswap_dbus::GPU, "Name"),
                ] {
                    let refused = set(&other, path, interface, name).await;
                    assert!(
                        matches!(refused, Err(fdo::Error::PropertyReadOnly(_))),
                        "{name}: {refused:?}"
                    );
                }
                manager.unregister(&task).await.unwrap();
                assert!(start.elapsed() < Duration::from_secs(20));
                // No more than a few questions of one user wait.
                let names: Vec<_> = (0..12).map(|at| format!("w{at}")).collect();
                let asked = names.iter().map(|name| {
                    let asked = manager.register(name, realtime().into_wire());
                    tokio::time::timeout(Duration::from_secs(5), asked)
                });
                let answers = join_all(asked).await;
                let refused = answers.iter().flatten().filter(|answer| {
                    matches!(answer, Err(Error::Busy(text)) if text.contains("several auth"))
                });
                assert_eq!(refused.count(), 5, "{answers:?}");
                assert_eq!(authority.asked().len(), 8);
            });
        });
        // That client is gone, and its seven questions with it.
        wait_for("the end of its questions", || {
            (authority.cancelled().len() == 7).then_some(())
        });
        authority.answer_now.notify_one();
        // The fake answers those that were taken back, too.
        while !waiting.is_finished() {
            authority.answer_now.notify_one();
            std::thread::sleep(Duration::from_millis(5));
        }
        waiting.join().unwrap().expect("granted at last");
    });
    let tasks = list(&bus.connect().await).await.unwrap().tasks;
    let mut names: Vec<_> = tasks.iter().map(|(_, task)| task.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        ["quick", "rt"],
        "who went away has registered nothing"
    );
}

#[test]
fn elsewhere_than_on_the_system_bus_polkit_is_not_asked() {
    let home = Home::new(ONE_GPU);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(), open).unwrap();
    let Some(bus) = Bus::start(&home) else {
        return;
    };
    let address = bus.address();
    let _daemon = home.daemon_with(|command| {
        command.args(["--bus", &address]);
    });
    wait_for("the name", || {
        home.log().contains("as org.rtswap").then_some(())
    });
    let start = Instant::now();
    let text = denial(try_realtime(&bus));
    assert!(
        text.starts_with("user 65534 may not register realtime tasks: root may"),
        "{text}"
    );
    assert!(start.elapsed() < BOUND);
}
