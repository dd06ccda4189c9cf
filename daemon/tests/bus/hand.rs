//! What people and programs of any language do by hand.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use zbus::{Connection, OwnedObjectPath, OwnedVariant, Variant};

use super::private::joined;
use crate::common::{BOUND, MIB, skipped};
use crate::introspection;
use rtswap_dbus::objects::list;
use rtswap_dbus::{BUS_NAME, Error, MANAGER, Manager1Proxy, Options, ROOT_PATH};

type Given<'a> = HashMap<&'a str, Variant<'a>>;

async fn register(bus: &Connection, name: &str, options: Given<'_>) -> Result<String, Error> {
    let reply = bus
        .call_method(
            Some(BUS_NAME),
            ROOT_PATH,
            Some(MANAGER),
            "Register",
            &(name, options),
        )
        .await?;
    let path: OwnedObjectPath = reply.body().deserialize()?;
    Ok(path.as_str().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_integer_type_registers_and_the_objects_say_the_same() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let realtime = |period: Variant<'static>, wcet: Variant<'static>| {
        HashMap::from([
            ("period_us", period),
            ("wcet_us", wcet),
            ("footprint", Variant::from("1MiB")),
            ("swappable", Variant::I16(0)),
        ])
    };
    let types = [
        (Variant::U64(100_000), Variant::U8(200)),
        (Variant::I64(100_000), Variant::I16(200)),
        (Variant::U32(100_000), Variant::U16(200)),
        (Variant::I32(100_000), Variant::I32(200)),
    ];
    let mut paths = BTreeSet::new();
    for (at, (period, wcet)) in types.into_iter().enumerate() {
        let name = format!("t{at}");
        paths.insert(register(&bus, &name, realtime(period, wcet)).await.unwrap());
    }
    let error = register(&bus, "n", realtime(Variant::I32(-1), Variant::U8(1))).await;
    assert!(matches!(error, Err(Error::InvalidArgument(_))), "{error:?}");

    let manager = zbus::fdo::ObjectManagerProxy::new(&bus, BUS_NAME, ROOT_PATH);
    let managed = manager.await.unwrap().get_managed_objects().await.unwrap();
    let served: BTreeSet<_> = managed
        .keys()
        .map(|path| path.as_str().to_owned())
        .collect();
    let mut expected = paths.clone();
    expected.insert("/org/rtswap/gpu/0".into());
    assert_eq!(served, expected, "no empty parents");
    // The objects themselves say what the manager says of them.
    for (path, interfaces) in &managed {
        for (interface, properties) in interfaces {
            let proxy = zbus::fdo::PropertiesProxy::new(&bus, BUS_NAME, path).await;
            let own = proxy.unwrap().get_all(interface.as_ref()).await.unwrap();
            assert_eq!(&own, properties, "{path:?}");
        }
    }
    let objects = list(&bus).await.unwrap();
    for (_, task) in &objects.tasks {
        assert_eq!((task.period_usec, task.wcet_usec), (100_000, 200));
        assert_eq!(
            (task.class.as_str(), task.gpu.as_str()),
            ("realtime", "/org/rtswap/gpu/0")
        );
        assert_eq!(task.footprint_bytes, MIB);
    }
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let plan: serde_json::Value = serde_json::from_str(&manager.plan().await.unwrap()).unwrap();
    assert_eq!(plan["version"], 1);
    let gpu = &plan["gpus"][0];
    assert_eq!(
        (&gpu["schedulable"], &gpu["test"]),
        (&true.into(), &"demand".into())
    );
    assert_eq!(gpu["tasks"].as_array().unwrap().len(), 4);
    let (utilization, bound) = (gpu["utilization"].as_f64(), gpu["bound"].as_f64());
    assert!(utilization > Some(0.0) && utilization < bound, "{gpu}");
    assert_eq!(gpu["tasks"][0]["period_ns"], 100_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_on_a_bus_equals_the_files() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    introspection::equals_the_files(&bus.connect().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_over_the_bus_ends_its_task() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let options = Options::default().into_wire();
    let (task, lease) = manager.register_with_lease("x", options).await.unwrap();
    assert_eq!(list(&bus).await.unwrap().tasks[0].0, task);
    drop(OwnedFd::from(lease));
    let start = Instant::now();
    while !list(&bus).await.unwrap().tasks.is_empty() {
        assert!(start.elapsed() < BOUND);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let gone = manager.unregister(&task.as_ref()).await.unwrap_err();
    assert!(matches!(gone, Error::NoSuchTask(_)), "{gone:?}");
}

#[test]
fn busctl_does_as_the_manual_says() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let busctl = |arguments: &[&str]| {
        let mut command = Command::new("busctl");
        command.arg(format!("--address={}", bus.address()));
        command.args(arguments).output()
    };
    let register = "call org.rtswap /org/rtswap org.rtswap.Manager1 Register sa{sv} yolo 5 \
        period_us t 33000 wcet_us t 100 class s realtime footprint t 6657199 swappable s 2MiB";
    let register: Vec<_> = register.split_whitespace().collect();
    let Ok(done) = busctl(&register) else {
        skipped("there is no busctl (apt install systemd)");
        return;
    };
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(
        text(done.stdout),
        "o \"/org/rtswap/task/1\"\n",
        "{}",
        text(done.stderr)
    );
    let again = text(busctl(&register).unwrap().stderr);
    assert!(again.contains("has a task named yolo already"), "{again}");
    let shown = busctl(&["introspect", "org.rtswap", "/org/rtswap/task/1"]).unwrap();
    let shown = text(shown.stdout);
    let shown_values = [
        ("PeriodUSec", "33000"),
        ("Class", "\"realtime\""),
        ("Leased", "false"),
        ("OnViolation", "\"warn\""),
        ("GpuMemoryLimitBytes", "18446744073709551615"),
    ];
    for (property, value) in shown_values {
        let line = shown
            .lines()
            .find(|line| line.starts_with(&format!(".{property} ")));
        let line = line.unwrap_or_else(|| panic!("{property}: {shown}"));
        assert!(line.contains(value), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sees_its_own_processes() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let _agent = crate::common::agent::Agent::connect(&home.runtime_dir(), None).unwrap();
    let root = bus.connect().await;
    let manager = Manager1Proxy::new(&root).await.unwrap();
    let start = Instant::now();
    let roots: Vec<HashMap<String, OwnedVariant>> = loop {
        let processes = manager.list_processes().await.unwrap();
        if !processes.is_empty() {
            break processes;
        }
        assert!(start.elapsed() < BOUND);
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(roots.len(), 1);
    let pid = u32::try_from(roots[0]["pid"].try_clone().unwrap()).unwrap();
    assert_eq!(pid, std::process::id());
    crate::common::user::as_nobody(|| {
        crate::common::user::block_on(async {
            let bus = bus.connect().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            assert_eq!(manager.list_processes().await.unwrap(), []);
        });
    });
}
