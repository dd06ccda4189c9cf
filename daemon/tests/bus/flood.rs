//! One user who wants too much: a thousand registrations, hundreds of long answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use zbus::Message;
use zbus::message::Flags;

use super::private::joined;
use crate::common::agent::Agent;
use crate::common::user::{as_nobody, block_on};
use crate::common::{BOUND, MIB, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{BUS_NAME, Error, MANAGER, Manager1Proxy, Options, ROOT_PATH};

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_registrations_is_refused_and_disturbs_nobody() {
    let Some((home, bus, _daemon)) = joined() else {
        return;
    };
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    let root = bus.connect().await;
    let ((taken, took), worst) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            as_nobody(|| {
                block_on(async {
                    let bus = bus.connect().await;
                    let manager = Manager1Proxy::new(&bus).await.unwrap();
                    let names: Vec<_> = (0..1000).map(|at| format!("t{at}")).collect();
                    let start = Instant::now();
                    let calls = names
                        .iter()
                        .map(|name| manager.register(name, Options::default().into_wire()));
                    let answers = join_all(calls).await;
                    let took = start.elapsed();
                    for answer in &answers {
                        let sound = matches!(answer, Ok(_) | Err(Error::Busy(_)));
                        assert!(sound, "{answer:?}");
                    }
                    let taken = answers.iter().filter(|answer| answer.is_ok());
                    (taken.count(), took)
                })
            })
        });
        let mut worst = Duration::ZERO;
        let mut asked = 0;
        while !flood.is_finished() || asked < 10 {
            let start = Instant::now();
            asked += 1;
            agent.want(asked % 8 * MIB);
            worst = worst.max(start.elapsed());
        }
        (flood.join().unwrap().unwrap(), worst)
    });
    println!("{taken} of 1000 taken in {took:?}; an agent waited {worst:?} at most");
    // A burst of 64, and one more each 20 ms.
    let most = 65 + took.as_millis() as usize / 20;
    assert!((64..=most).contains(&taken), "{taken} in {took:?}");
    assert!(worst < Duration::from_secs(3), "{worst:?}");
    let tasks = list(&root).await.unwrap().tasks;
    let nobodys = tasks.iter().filter(|(_, task)| task.user_id == 65534);
    assert_eq!(nobodys.count(), taken);
    // Another user is let in at once, and so is that one after a while.
    let manager = Manager1Proxy::new(&root).await.unwrap();
    manager
        .register("roots", Options::default().into_wire())
        .await
        .unwrap();
    wait_for("its next turn", || {
        as_nobody(|| {
            block_on(async {
                let bus = bus.connect().await;
                let manager = Manager1Proxy::new(&bus).await.unwrap();
                let task = tasks
                    .iter()
                    .find(|(_, task)| task.user_id == 65534)
                    .unwrap();
                manager.unregister(&task.0.as_ref()).await.ok()
            })
        })
        .unwrap()
    });
}

#[test]
fn a_flood_of_questions_holds_nobody_up() {
    let Some((_home, bus, _daemon)) = joined() else {
        return;
    };
    let over = AtomicBool::new(false);
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        block_on(async {
            let root = bus.connect().await;
            let manager = Manager1Proxy::new(&root).await.unwrap();
            for at in 0..100 {
                let options = Options::default().into_wire();
                manager.register(&format!("t{at}"), options).await.unwrap();
            }
            let flood = scope.spawn(|| {
                as_nobody(|| {
                    block_on(async {
                        let buses = join_all((0..4).map(|_| bus.connect())).await;
                        let start = Instant::now();
                        while !over.load(Ordering::Relaxed) && start.elapsed() < BOUND {
                            let asked = buses.iter().cycle().take(40).map(list);
                            for answer in join_all(asked).await {
                                assert_eq!(answer.unwrap().others.len(), 100);
                            }
                        }
                    });
                })
            });
            for _ in 0..51 {
                let start = Instant::now();
                manager.list_processes().await.unwrap();
                times.push(start.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            over.store(true, Ordering::Relaxed);
            flood.join().unwrap();
        });
    });
    times.sort();
    println!("meanwhile: {:?}, at worst {:?}", times[25], times[50]);
    assert!(times[25] < Duration::from_millis(500), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_want_no_answer_are_not_taken() {
    let Some((_home, bus, daemon)) = joined() else {
        return;
    };
    let client = bus.connect().await;
    list(&client).await.unwrap();
    let before = daemon.memory();
    let call = |interface, member| {
        Message::method_call(ROOT_PATH, member)
            .destination(BUS_NAME)
            .interface(interface)
            .with_flags(Flags::NO_REPLY_EXPECTED)
    };
    let none: HashMap<&str, zbus::Variant<'_>> = HashMap::new();
    let register = call(MANAGER, "Register").build(&("x", none)).unwrap();
    client.send(&register).await.unwrap();
    for _ in 0..20_000 {
        let list = call("org.freedesktop.DBus.ObjectManager", "GetManagedObjects");
        client.send(&list.build(&()).unwrap()).await.unwrap();
    }
    assert!(list(&client).await.unwrap().tasks.is_empty());
    let more = daemon.memory().saturating_sub(before);
    assert!(more < 64 * MIB, "{more}");
}
