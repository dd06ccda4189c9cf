//! A registration that lives as long as a lease is open, whoever has it.

use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::private::joined;
use crate::common::BOUND;
use crate::common::agent::Agent;
use rtswap_dbus::objects::list;
use rtswap_dbus::{Manager1Proxy, Options, Task1Proxy};

/// A process that does nothing but have `file`. It is ended with this, so that a test that fails leaves none.
struct Holder(Child);

impl Holder {
    fn start(file: OwnedFd) -> Self {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::from(file));
        Self(command.spawn().unwrap())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_copy_of_a_lease_ends_its_task() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let options = Options::default().into_wire();
    let (task, lease) = manager.register_with_lease("x", options).await.unwrap();
    // The command that started the process keeps no copy: this process has none any more.
    let holder = Holder::start(OwnedFd::from(lease));
    // Longer than the daemon takes for one that is closed.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let tasks = list(&bus).await.unwrap().tasks;
    assert_eq!((tasks.len(), &tasks[0].0), (1, &task));
    assert!(tasks[0].1.leased);
    drop(holder);
    let start = Instant::now();
    while !list(&bus).await.unwrap().tasks.is_empty() {
        assert!(start.elapsed() < BOUND, "the last copy is closed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_says_whether_a_lease_ends_it() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let bus = bus.connect().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let options = || Options::default().into_wire();
    let (leased, lease) = manager.register_with_lease("x", options()).await.unwrap();
    let plain = manager.register("y", options()).await.unwrap();
    let is_leased = async |path| {
        let task = Task1Proxy::builder(&bus).path(path).build().await.unwrap();
        task.leased().await.unwrap()
    };
    assert!(is_leased(&leased).await && !is_leased(&plain).await);
    let _agent = Agent::connect(&home.runtime_dir(), Some("x")).unwrap();
    drop(OwnedFd::from(lease));
    // The process goes on, and the task with it.
    let start = Instant::now();
    while is_leased(&leased).await {
        assert!(start.elapsed() < BOUND, "the lease has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
