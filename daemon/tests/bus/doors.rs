//! Getting onto a bus, and off it.

use std::fs;
use std::time::{Duration, Instant};

use super::private::{Bus, joined, on_system_bus};
use crate::common::{BOUND, Home, ONE_GPU, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{BUS_NAME, Manager1Proxy, Options};

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_taken_is_a_clear_error() {
    let Some((home, bus, mut daemon)) = joined() else {
        return;
    };
    let other = Home::new(ONE_GPU);
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_rtswapd"))
        .arg("--config")
        .arg(other.config())
        .arg("--runtime-dir")
        .arg(other.runtime_dir())
        .args(["--bus", &bus.address()])
        .output()
        .unwrap();
    let text = String::from_utf8(command.stderr).unwrap();
    let last = text.lines().last().unwrap();
    assert_eq!(command.status.code(), Some(1));
    assert_eq!(
        last,
        format!(
            "rtswapd: org.rtswap is taken on the bus at {} by process {}; end who has it, or start \
             rtswapd with --bus none",
            bus.address(),
            daemon.pid()
        )
    );
    assert!(!other.runtime_dir().join("control.sock").exists());
    list(&bus.connect().await).await.unwrap();
    assert_eq!(daemon.terminate(), Some(0));
    drop(home);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_goes_away_is_joined_again() {
    let Some((home, mut bus, mut daemon)) = joined() else {
        return;
    };
    let socket = home.bus().await;
    let manager = Manager1Proxy::new(&socket).await.unwrap();
    bus.kill();
    wait_for("the loss", || {
        home.log().contains("went away").then_some(())
    });
    let options = Options::default().into_wire();
    let task = manager.register("x", options).await.unwrap();
    bus.again();
    let client = bus.connect().await;
    let proxy = zbus::fdo::DBusProxy::new(&client).await.unwrap();
    let back = async {
        while !proxy
            .name_has_owner(BUS_NAME.try_into().unwrap())
            .await
            .unwrap()
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(BOUND, back)
        .await
        .expect("joined again");
    assert_eq!(list(&client).await.unwrap().tasks[0].0, task);
    assert_eq!(daemon.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bus_that_is_not_there_yet_is_joined_later() {
    let home = Home::new(ONE_GPU);
    let Some(mut bus) = Bus::start(&home) else {
        return;
    };
    bus.kill();
    let _daemon = on_system_bus(&home, &bus);
    assert!(list(&home.bus().await).await.unwrap().tasks.is_empty());
    wait_for("the complaint", || {
        home.log()
            .contains("cannot join the system bus")
            .then_some(())
    });
    bus.again();
    wait_for("the name", || {
        home.log().contains("as org.rtswap").then_some(())
    });
}

#[test]
fn a_bus_that_does_not_answer_holds_up_no_end() {
    let home = Home::new(ONE_GPU);
    let path = home.path().join("silent");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut daemon = home.daemon_with(|command| {
        command.args(["--bus", &format!("unix:path={}", path.display())]);
    });
    let _silent = listener.accept().unwrap();
    let start = Instant::now();
    assert_eq!(daemon.terminate(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn nonsense_is_no_bus() {
    let home = Home::new(ONE_GPU);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_rtswapd"))
        .arg("--runtime-dir")
        .arg(home.runtime_dir())
        .args(["--bus", "sytem"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("say system, session, none or an address"),
        "{text}"
    );
    assert!(
        fs::read_dir(home.path()).unwrap().count() == 1,
        "only the config"
    );
}
