//! Bad input: a clear error, and nothing left behind.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::common::agent::{self, Agent};
use crate::common::{BOUND, Home, MIB, ONE_GPU, UUID, realtime, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{BUS_NAME, Error, MANAGER, Manager1Proxy, Options, ROOT_PATH, Size};
use zbus::Variant;

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon();
    let (code, text) = home.refused();
    let pid = fs::read_to_string(home.runtime_dir().join("lock")).unwrap();
    assert_eq!(code, 1);
    assert_eq!(
        text,
        format!(
            "rtswapd: another rtswapd (pid {}) serves {} already; stop it, or name another folder \
             with --runtime-dir",
            pid.trim(),
            home.runtime_dir().display()
        )
    );
    assert!(home.runtime_dir().join("agent.sock").exists());
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn a_dead_daemons_sockets_are_replaced() {
    let home = Home::new(ONE_GPU);
    home.daemon().kill();
    assert!(home.runtime_dir().join("agent.sock").exists());
    assert_eq!(home.daemon().terminate(), Some(0));
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let home = Home::new(ONE_GPU);
    fs::write(home.runtime_dir(), "a file").unwrap();
    let (code, text) = home.refused();
    assert_eq!(code, 1);
    let folder = home.runtime_dir();
    assert_eq!(
        text,
        format!(
            "rtswapd: cannot make {}: File exists (os error 17); name another folder with \
             --runtime-dir",
            folder.display()
        )
    );
}

#[test]
fn a_socket_path_that_is_too_long_is_named() {
    let home = Home::new(ONE_GPU);
    let long = home.path().join("d".repeat(120));
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_rtswapd"))
        .arg("--config")
        .arg(home.config())
        .arg("--runtime-dir")
        .arg(&long)
        .output()
        .unwrap();
    let text = String::from_utf8(command.stderr).unwrap();
    let expected = format!("rtswapd: cannot listen on {}/agent.sock: ", long.display());
    assert!(text.starts_with(&expected), "{text}");
    assert!(
        text.contains("name another folder with --runtime-dir"),
        "{text}"
    );
}

#[test]
fn a_malformed_config_is_shown_where_it_is_wrong() {
    let home = Home::new("version = 1\n[scheduler]\nover_run = \"demote\"\n");
    let (code, text) = home.refused();
    assert_eq!(code, 2);
    assert_eq!(
        text,
        format!(
            "rtswapd: {}:3:1: unknown key `over_run`; did you mean `overrun`?",
            home.config().display()
        )
    );
    assert!(!home.runtime_dir().exists(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_that_cannot_be_are_refused_and_leave_nothing() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let register = |name: &'static str, options: Options| {
        let manager = &manager;
        async move {
            manager
                .register(name, options.into_wire())
                .await
                .unwrap_err()
        }
    };

    let error = register("a b", realtime()).await;
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "\"a b\" cannot name a task: a name has 1 to 63 of A-Z a-z 0-9 . _ -"
    );

    let impossible = Options {
        wcet: Some(Duration::from_millis(200)),
        ..realtime()
    };
    let error = register("x", impossible).await;
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "0 < wcet ≤ deadline ≤ period must hold, but wcet is 200.000 ms, deadline 100.000 ms, \
         period 100.000 ms"
    );

    let elsewhere = Options {
        gpu: Some("7".into()),
        ..realtime()
    };
    let error = register("x", elsewhere).await;
    assert!(matches!(error, Error::NoSuchGpu(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!("no GPU \"7\"; there are: 0 = {UUID}")
    );

    let error = register(
        "x",
        Options {
            footprint: Some(Size::Bytes(64 * MIB)),
            ..realtime()
        },
    )
    .await;
    assert!(matches!(error, Error::NotSchedulable(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("not schedulable on this GPU (16.0 MiB"),
        "{error}"
    );

    let error = register(
        "x",
        Options {
            period: Some(Duration::from_millis(1)),
            class: Some("realtime".into()),
            ..Options::default()
        },
    )
    .await;
    assert!(
        error
            .to_string()
            .contains("missing: wcet, footprint, swappable"),
        "{error}"
    );

    let task = manager
        .register("x", Options::default().into_wire())
        .await
        .unwrap();
    let error = register("x", Options::default()).await;
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    let uid = rustix::process::getuid().as_raw();
    assert_eq!(
        error.to_string(),
        format!(
            "user {uid} has a task named x already ({}); end it with Unregister or take another \
             name",
            task.as_str()
        )
    );
    manager.unregister(&task).await.unwrap();
    let error = manager.unregister(&task).await.unwrap_err();
    assert!(matches!(error, Error::NoSuchTask(_)), "{error:?}");
    assert_eq!(error.to_string(), format!("{} is not there", task.as_str()));

    let objects = list(&bus).await.unwrap();
    assert!(objects.tasks.is_empty(), "{objects:?}");
    assert_eq!(objects.gpus[0].1.used_bytes, 0);
    assert!(objects.gpus[0].1.utilization.abs() < 1e-9);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_need_an_executor_are_refused_until_there_is_one() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let marked = |mut options: HashMap<&'static str, Variant<'static>>, mark: Variant<'static>| {
        options.insert("needs_executor", mark);
        options
    };
    let yes = || Variant::Bool(true);
    let all = [
        marked(realtime().into_wire(), yes()),
        marked(Options::default().into_wire(), yes()),
        // What such a task can say: it has no WCET and no footprint.
        HashMap::from([
            ("period_us", Variant::U32(100_000)),
            ("needs_executor", yes()),
        ]),
    ];
    for options in all {
        let error = manager.register("x", options.clone()).await.unwrap_err();
        assert!(matches!(error, Error::NeedsExecutor(_)), "{error:?}");
        assert_eq!(
            error.to_string(),
            "the task x runs by a plan from its graph, and rtswapd has no executor for such plans yet; \
             on a GPU that holds its footprint, declare its wcet, footprint and swappable instead"
        );
        let leased = manager.register_with_lease("x", options).await;
        assert!(matches!(leased, Err(Error::NeedsExecutor(_))), "{leased:?}");
    }
    let wrong = marked(realtime().into_wire(), Variant::U32(1));
    let error = manager.register("x", wrong).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)), "{error:?}");
    assert_eq!(error.to_string(), "needs_executor must be true or false");
    assert!(list(&bus).await.unwrap().tasks.is_empty());

    // The name of the error, as clients without this crate see it.
    let body = ("x", marked(realtime().into_wire(), yes()));
    let reply = bus.call_method(Some(BUS_NAME), ROOT_PATH, Some(MANAGER), "Register", &body);
    let zbus::Error::MethodError(name, ..) = reply.await.unwrap_err() else {
        panic!("no error of a method");
    };
    assert_eq!(name.as_str(), "org.rtswap.Error.NeedsExecutor");

    let other = marked(realtime().into_wire(), Variant::Bool(false));
    manager.register("x", other).await.unwrap();
    assert_eq!(list(&bus).await.unwrap().tasks[0].1.class, "realtime");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_known_gpu_realtime_says_what_to_do() {
    let home = Home::new("version = 1\n");
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let error = manager
        .register("x", realtime().into_wire())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NoSuchGpu(_)), "{error:?}");
    assert!(
        error.to_string().starts_with("no GPU is known yet"),
        "{error}"
    );
    // No program can tell of one.
    let mut hello = agent::hello(None);
    hello.devices[0].memory_bytes = 1 << 30;
    assert!(Agent::with(&home.runtime_dir(), &hello, None).is_ok());
    let error = manager.register("x", realtime().into_wire()).await;
    assert!(matches!(error, Err(Error::NoSuchGpu(_))), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registration_ends_unclaimed_or_with_its_lease() {
    let home = Home::new(&ONE_GPU.replace("claim_timeout_s = 600", "claim_timeout_s = 3"));
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let start = Instant::now();
    manager
        .register("called", realtime().into_wire())
        .await
        .unwrap();
    let leased = Options::default().into_wire();
    let (_, lease) = manager.register_with_lease("leased", leased).await.unwrap();
    let names = async |bus: &zbus::Connection| -> Vec<String> {
        let tasks = list(bus).await.unwrap().tasks;
        tasks.into_iter().map(|(_, task)| task.name).collect()
    };
    assert_eq!(names(&bus).await, ["called", "leased"]);
    while names(&bus).await != ["leased"] {
        assert!(start.elapsed() < BOUND);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(start.elapsed() > Duration::from_millis(2500));
    drop(lease);
    while !names(&bus).await.is_empty() {
        assert!(start.elapsed() < BOUND);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_the_administrator_are_there_and_stay() {
    let home = Home::new(ONE_GPU);
    let folder = home.path().join("tasks.d");
    fs::create_dir(&folder).unwrap();
    let uid = rustix::process::getuid().as_raw();
    let write = |name: &str, text: String, mode: u32| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = format!(
        "version = 1\nname = \"yolo\"\nuser = {uid}\nperiod_ms = 100\nwcet_ms = 5.0\nfootprint = \"8MiB\"\n\
         swappable = 0\n"
    );
    write("yolo.toml", file.clone(), 0o644);
    write("open.toml", file.replace("yolo", "open"), 0o666);
    let planned = "graph = \"vgg.json\"\ncontext = \"300MiB\"\n";
    let planned = format!("version = 1\nname = \"vgg\"\nuser = {uid}\nperiod_ms = 100\n{planned}");
    write("vgg.toml", planned, 0o644);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let tasks = list(&bus).await.unwrap().tasks;
    assert_eq!(tasks.len(), 1, "{tasks:?}");
    assert_eq!(
        (tasks[0].1.name.as_str(), tasks[0].1.gpu.as_str()),
        ("yolo", "/org/rtswap/gpu/0")
    );
    assert_eq!(tasks[0].1.class, "realtime");
    wait_for("the refusal", || {
        home.log()
            .contains("open.toml: refused: others may write it (mode 666)")
            .then_some(())
    });
    wait_for("the other refusal", || {
        home.log()
            .contains("vgg.toml:5:9: the task vgg runs by a plan from its graph")
            .then_some(())
    });
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let error = manager.unregister(&tasks[0].0).await.unwrap_err();
    assert!(
        error.to_string().contains("comes from a file in tasks.d"),
        "{error}"
    );
    let agent = Agent::connect(&home.runtime_dir(), Some("yolo")).unwrap();
    assert_eq!(rtswap_dbus::task_path(agent.reply.registration), tasks[0].0);
}
