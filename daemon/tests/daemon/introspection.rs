//! What is served is what `dbus-api/xml` says. `RTSWAP_BLESS=1 cargo test` writes the files anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::{Home, ONE_GPU};
use rtswap_dbus::objects::Property;
use rtswap_dbus::{GpuProperties, Manager1Proxy, Options, TaskProperties};
use zbus::Connection;
use zbus::fdo::IntrospectableProxy;

const HEAD: &str = "<!DOCTYPE node PUBLIC \"-//freedesktop//DTD D-BUS Object Introspection 1.0//EN\"\n \
     \"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd\">\n<node>\n";

/// The part of an introspection that is one interface, as a file of its own.
fn interface(xml: &str, name: &str) -> String {
    let start = xml.find(&format!("  <interface name=\"{name}\">")).unwrap();
    let end = start + xml[start..].find("  </interface>\n").unwrap() + "  </interface>\n".len();
    format!("{HEAD}{}</node>\n", &xml[start..end])
}

#[tokio::test(flavor = "multi_thread")]
async fn introspection_equals_the_files() {
    let home = Home::new(ONE_GPU);
    let _daemon = home.daemon();
    equals_the_files(&home.bus().await).await;
}

/// Whoever serves on `bus` has one GPU.
pub(crate) async fn equals_the_files(bus: &Connection) {
    let manager = Manager1Proxy::new(bus).await.unwrap();
    let task = manager
        .register("x", Options::default().into_wire())
        .await
        .unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dbus-api/xml");
    let paths = [
        ("/org/rtswap", rtswap_dbus::MANAGER),
        (task.as_str(), rtswap_dbus::TASK),
        ("/org/rtswap/gpu/0", rtswap_dbus::GPU),
    ];
    for (path, name) in paths {
        let proxy = IntrospectableProxy::builder(bus)
            .destination(rtswap_dbus::BUS_NAME)
            .path(path)
            .build()
            .await
            .unwrap();
        let served = interface(&proxy.introspect().await.unwrap(), name);
        let file = folder.join(format!("{name}.xml"));
        if std::env::var_os("RTSWAP_BLESS").is_some() {
            fs::write(&file, &served).unwrap();
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(served, written, "{}", file.display());
    }
}

/// The properties of a file without an annotation: those that a client may cache until it is told.
fn cached(name: &str) -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dbus-api/xml");
    let text = fs::read_to_string(folder.join(format!("{name}.xml"))).unwrap();
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| line.starts_with("<property") && line.ends_with("/>"))
        .map(|line| line.split('"').nth(1).unwrap().to_owned())
        .collect()
}

#[test]
fn what_is_announced_is_what_may_be_cached() {
    let announced = |list: Vec<Property>| -> BTreeSet<_> {
        let announced = list.into_iter().filter(|property| property.emits == "true");
        announced.map(|property| property.name.to_owned()).collect()
    };
    assert_eq!(announced(TaskProperties::list()), cached(rtswap_dbus::TASK));
    assert_eq!(announced(GpuProperties::list()), cached(rtswap_dbus::GPU));
}
