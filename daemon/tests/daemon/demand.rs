//! Objects on the control socket are for who asks for them: many programs register and look at none.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use rtswap_dbus::{Manager1Proxy, Options, TASK};
use tokio::time::timeout;
use zbus::fdo::PropertiesProxy;
use zbus::message::Type;
use zbus::names::InterfaceName;
use zbus::{Connection, MessageStream, OwnedVariant};

use crate::common::{BOUND, Home, ONE_GPU};

/// What an object has, as a signal tells it.
type Interfaces = HashMap<String, HashMap<String, OwnedVariant>>;

async fn register(bus: &Connection, name: &str) -> zbus::OwnedObjectPath {
    let manager = Manager1Proxy::new(bus).await.unwrap();
    manager
        .register(name, Options::default().into_wire())
        .await
        .unwrap()
}

/// The name of a task, by its object.
async fn name(bus: &Connection, path: &zbus::OwnedObjectPath) -> String {
    let proxy = PropertiesProxy::new(bus, rtswap_dbus::BUS_NAME, path.clone())
        .await
        .unwrap();
    let task = InterfaceName::from_static_str_unchecked(TASK);
    let name = proxy.get(task, "Name").await.unwrap();
    String::try_from(name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_registers_is_served_no_objects() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    let (one, other) = (home.bus().await, home.bus().await);
    let mut heard = MessageStream::from(&one);
    let first = register(&one, "first").await;
    let second = register(&other, "second").await;
    // The daemon would have told of it by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let manager = Manager1Proxy::new(&one).await.unwrap();
    manager.plan().await.unwrap();
    while let Some(message) = heard.next().now_or_never().flatten() {
        assert_ne!(message.unwrap().message_type(), Type::Signal);
    }
    // The first question finds its object, and that of others.
    assert_eq!(name(&one, &second).await, "second");
    assert_eq!(name(&one, &first).await, "first");
    // From then on all is told.
    let third = register(&other, "third").await;
    let told = async {
        loop {
            let message = heard.next().await.unwrap().unwrap();
            let header = message.header();
            if header.member().is_some_and(|it| *it == "InterfacesAdded") {
                let body = message.body();
                let (path, _): (zbus::OwnedObjectPath, Interfaces) = body.deserialize().unwrap();
                if path == third {
                    return;
                }
            }
        }
    };
    timeout(BOUND, told).await.unwrap();
}
