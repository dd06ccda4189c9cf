//! What follows from a violation is told on D-Bus before it is seen.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use rtswap_dbus::objects::list;
use rtswap_dbus::{Manager1Proxy, Options, Size};
use rtswap_wire::page::UsageReport;

use crate::common::agent::Agent;
use crate::common::{BOUND, Home, MIB, ONE_GPU, realtime};

/// What the daemon says of a realtime task that holds more than it may, which has the class `expected` then.
async fn over_budget(config: &str, expected: &str) -> String {
    let home = Home::new(config);
    let _daemon = home.daemon();
    let bus = home.bus().await;
    let manager = Manager1Proxy::new(&bus).await.unwrap();
    let mut violations = manager.receive_violation().await.unwrap();
    let options = Options {
        footprint: Some(Size::Bytes(4 * MIB)),
        ..realtime()
    };
    let task = manager
        .register("thief", options.into_wire())
        .await
        .unwrap();
    let mut agent = Agent::connect(&home.runtime_dir(), Some("thief")).unwrap();
    assert_eq!(agent.want(2 * MIB), 2 * MIB);
    let usage = UsageReport {
        resident_bytes: 6 * MIB,
        ..UsageReport::default()
    };
    agent.block().agent.restore(usage, 0, 0);
    agent.tell();
    let signal = tokio::time::timeout(BOUND, violations.next()).await;
    let signal = signal.unwrap().unwrap();
    let violation = signal.args().unwrap();
    assert_eq!(
        (violation.task.as_str(), violation.kind),
        (task.as_str(), "over-budget")
    );
    // What follows, follows at once; where nothing is to follow, nothing has by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    loop {
        let class = list(&bus).await.unwrap().tasks.remove(0).1.class;
        if class == expected {
            return violation.detail.to_owned();
        }
        assert!(start.elapsed() < BOUND, "{class}: {}", violation.detail);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_holds_more_than_it_may_is_warned_of_or_demoted() {
    let detail = over_budget(ONE_GPU, "realtime").await;
    assert!(detail.contains("with a budget of"), "{detail}");
    assert!(!detail.contains("from now on"), "{detail}");
    let demote = ONE_GPU.replace("[daemon]\n", "[daemon]\non_violation = \"demote\"\n");
    let detail = over_budget(&demote, "best-effort").await;
    assert!(
        detail.ends_with("; its task is best-effort from now on"),
        "{detail}"
    );
}
