//! What is told without being asked for, on the bus and on the socket alike.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use zbus::fdo::{ObjectManagerProxy, PropertiesProxy};
use zbus::names::InterfaceName;
use zbus::{Connection, OwnedObjectPath, OwnedVariant};

use super::private::{calibration, joined, joined_with};
use crate::common::agent::Agent;
use crate::common::{BOUND, MIB};
use rtswap_dbus::{BUS_NAME, Gpu1Proxy, Manager1Proxy, Options, ROOT_PATH, Size, Task1Proxy};
use rtswap_wire::page::JobKind;

/// What is told of one object, latest last.
type Heard = Arc<std::sync::Mutex<BTreeMap<String, Vec<OwnedVariant>>>>;

async fn listen(bus: &Connection, path: &OwnedObjectPath) -> Heard {
    let heard = Heard::default();
    let proxy = PropertiesProxy::new(bus, BUS_NAME, path.clone())
        .await
        .unwrap();
    let mut changes = proxy.receive_properties_changed().await.unwrap();
    let notes = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Some(signal) = changes.next().await {
            let args = signal.args().unwrap();
            let mut told = Vec::new();
            for (name, value) in &args.changed_properties {
                let value = OwnedVariant::try_from(value.try_clone().unwrap()).unwrap();
                told.push(((*name).to_owned(), value));
            }
            // On a bus the value is asked for.
            for name in args.invalidated_properties.iter() {
                let interface = InterfaceName::from_static_str_unchecked(rtswap_dbus::TASK);
                if let Ok(value) = proxy.get(interface, name).await {
                    told.push(((*name).to_owned(), value));
                }
            }
            for (name, value) in told {
                notes.lock().unwrap().entry(name).or_default().push(value);
            }
        }
    });
    heard
}

fn latest<T: TryFrom<OwnedVariant>>(heard: &Heard, name: &str) -> Option<T> {
    let heard = heard.lock().unwrap();
    let value = heard.get(name)?.last()?.try_clone().ok()?;
    T::try_from(value).ok()
}

async fn wait_heard<T: TryFrom<OwnedVariant> + PartialEq>(heard: &Heard, name: &str, value: T) {
    let told = async {
        while latest::<T>(heard, name).as_ref() != Some(&value) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(BOUND, told).await;
    assert!(told.is_ok(), "{name} is not told: {heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_told_on_the_bus_and_on_the_socket() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let (bus, socket) = (bus.connect().await, home.bus().await);
    let manager = ObjectManagerProxy::new(&bus, BUS_NAME, ROOT_PATH)
        .await
        .unwrap();
    let mut added = manager.receive_interfaces_added().await.unwrap();
    let mut removed = manager.receive_interfaces_removed().await.unwrap();
    // Registered on the socket, seen on the bus.
    let manager = Manager1Proxy::new(&socket).await.unwrap();
    let task = manager
        .register("x", Options::default().into_wire())
        .await
        .unwrap();
    let signal = tokio::time::timeout(BOUND, added.next())
        .await
        .unwrap()
        .unwrap();
    let added = signal.args().unwrap();
    assert_eq!(added.object_path.as_str(), task.as_str());
    let properties = &added.interfaces_and_properties[rtswap_dbus::TASK];
    assert_eq!(properties["Class"], zbus::Variant::from("best-effort"));
    assert!(!properties.contains_key("Name"), "everybody hears it");

    let (on_bus, on_socket) = (listen(&bus, &task).await, listen(&socket, &task).await);
    let mut agent = Agent::connect(&home.runtime_dir(), Some("x")).unwrap();
    for heard in [&on_bus, &on_socket] {
        wait_heard(heard, "Phase", "idle".to_owned()).await;
        wait_heard(heard, "ProcessId", std::process::id()).await;
    }
    agent.want(4 * MIB);
    agent.allocate(4 * MIB);
    for heard in [&on_bus, &on_socket] {
        wait_heard(heard, "BudgetBytes", 4 * MIB).await;
        wait_heard(heard, "ResidentBytes", 4 * MIB).await;
        let names = heard.lock().unwrap();
        assert!(
            !names.contains_key("Jobs") && !names.contains_key("Name"),
            "{names:?}"
        );
    }
    manager.park(&task.as_ref()).await.unwrap();
    for heard in [&on_bus, &on_socket] {
        wait_heard(heard, "Parked", true).await;
    }
    manager.resume(&task.as_ref()).await.unwrap();
    for heard in [&on_bus, &on_socket] {
        wait_heard(heard, "Parked", false).await;
    }
    let options = Options::default().into_wire();
    let other = manager.register("y", options).await.unwrap();
    manager.unregister(&other.as_ref()).await.unwrap();
    let signal = tokio::time::timeout(BOUND, removed.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(signal.args().unwrap().object_path.as_str(), other.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_calibration_is_told_on_the_bus_and_on_the_socket() {
    const GPU: &str = "GPU-01234567-89ab-cdef-0123-456789abcdef";
    let configuration = format!("[[gpu]]\nuuid = \"{GPU}\"\nmemory = \"64MiB\"\n");
    let configuration = format!("version = 1\n[daemon]\nprobes = false\n{configuration}");
    let Some((home, bus, _daemon)) = joined_with(&configuration) else {
        return;
    };
    let (bus, socket) = (bus.connect().await, home.bus().await);
    let gpu = rtswap_dbus::gpu_path(0);
    let (on_bus, on_socket) = (listen(&bus, &gpu).await, listen(&socket, &gpu).await);
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let used = manager.set_calibration(&calibration(GPU)).await.unwrap();
    assert!(used, "nobody is on the GPU");
    for heard in [&on_bus, &on_socket] {
        wait_heard(heard, "ChunkBytes", 4 * MIB).await;
        wait_heard(heard, "SwapCostSource", "calibrated".to_owned()).await;
        wait_heard(heard, "CalibratedUSec", 1_795_784_400_000_000_u64).await;
        // 800 µs and 4 MiB at 1 GiB/s, at the share that a loaded link leaves.
        wait_heard(heard, "ChunkOutUSec", 5_230_u64).await;
    }
}

/// Shares change all the time, so they are asked for.
#[tokio::test(flavor = "multi_thread")]
async fn turns_are_read_and_not_told() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let options = Options::default().into_wire();
    let path = manager.register("x", options).await.unwrap();
    let heard = listen(&bus, &path).await;
    let task = Task1Proxy::builder(&bus).path(&path).build().await.unwrap();
    assert_eq!(task.gpu_share_ppm().await.unwrap(), 0);
    let runtime_dir = home.runtime_dir();
    let worked = tokio::task::spawn_blocking(move || {
        let mut agent = Agent::connect(&runtime_dir, Some("x")).unwrap();
        let job = agent.request(JobKind::Declared);
        agent.wait_granted(job);
        std::thread::sleep(Duration::from_millis(50));
        agent.complete(job);
        agent
    });
    let _agent = worked.await.unwrap();
    let is_counted = async {
        while task.gpu_share_ppm().await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(BOUND, is_counted).await.unwrap();
    assert_eq!(task.swap_share_ppm().await.unwrap(), 0, "it is alone");
    let waited = task.longest_wait_usec().await.unwrap();
    let path = rtswap_dbus::gpu_path(0);
    let gpu = Gpu1Proxy::builder(&bus).path(&path).build().await.unwrap();
    let bound = gpu.longest_wait_usec().await.unwrap();
    assert_eq!(bound, 15_000_000, "the built-in longest_wait_s");
    assert!(waited < bound, "{waited}");
    wait_heard(&heard, "Phase", "idle".to_owned()).await;
    let names = heard.lock().unwrap();
    for name in ["GpuSharePpm", "SwapSharePpm", "LongestWaitUSec"] {
        assert!(!names.contains_key(name), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn misses_and_violations_are_told() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let (bus, socket) = (bus.connect().await, home.bus().await);
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let mut missed = manager.receive_deadline_missed().await.unwrap();
    let mut violations = manager.receive_violation().await.unwrap();
    let peer = Manager1Proxy::new(&socket).await.unwrap();
    let mut peers_missed = peer.receive_deadline_missed().await.unwrap();
    let mut peers_violations = peer.receive_violation().await.unwrap();
    let options = Options {
        period: Some(Duration::from_millis(50)),
        wcet: Some(Duration::from_millis(5)),
        footprint: Some(Size::Bytes(2 * MIB)),
        swappable: Some(Size::Bytes(0)),
        ..Options::default()
    };
    let task = manager.register("late", options.into_wire()).await.unwrap();
    let runtime_dir = home.runtime_dir();
    let worked = tokio::task::spawn_blocking(move || {
        let mut agent = Agent::connect(&runtime_dir, Some("late")).unwrap();
        let job = agent.request(JobKind::Declared);
        agent.wait_granted(job);
        std::thread::sleep(Duration::from_millis(120));
        agent.complete(job);
        agent
    });
    let _agent = worked.await.unwrap();
    let signal = tokio::time::timeout(BOUND, violations.next()).await;
    let signal = signal.expect("a Violation").unwrap();
    let violation = signal.args().unwrap();
    assert_eq!(
        (violation.task.as_str(), violation.kind, violation.detail),
        (task.as_str(), "", ""),
        "everybody hears it"
    );
    let signal = tokio::time::timeout(BOUND, peers_violations.next()).await;
    let signal = signal.expect("a Violation").unwrap();
    let violation = signal.args().unwrap();
    assert_eq!(
        (violation.task.as_str(), violation.kind),
        (task.as_str(), "overrun")
    );
    assert!(!violation.detail.is_empty());
    let signal = tokio::time::timeout(BOUND, missed.next()).await;
    let signal = signal.expect("a DeadlineMissed").unwrap();
    let miss = signal.args().unwrap();
    assert_eq!(
        (miss.task.as_str(), miss.job, miss.lateness_us, miss.cause),
        (task.as_str(), 0, 0, "")
    );
    let owner = Task1Proxy::builder(&bus).path(&task).build();
    let owner = owner.await.unwrap();
    let last = owner.last_deadline_miss().await.unwrap();
    assert!(
        last.starts_with("job 1 by ") && last.contains(", execution "),
        "{last}"
    );
    let last = owner.last_violation().await.unwrap();
    assert!(last.starts_with("overrun: "), "{last}");
    let signal = tokio::time::timeout(BOUND, peers_missed.next()).await;
    let signal = signal.expect("a DeadlineMissed").unwrap();
    let miss = signal.args().unwrap();
    assert_eq!((miss.task.as_str(), miss.job), (task.as_str(), 1));
    assert!(
        (60_000..10_000_000).contains(&miss.lateness_us),
        "{}",
        miss.lateness_us
    );
    assert!(miss.cause.contains(", execution "), "{}", miss.cause);
}
