//! Other users, and those who want too much: each is told no, and nobody else is disturbed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::agent::{Agent, hello};
use crate::common::user::{as_nobody, block_on};
use crate::common::{Daemon, Home, MIB, ONE_GPU, realtime, wait_for};
use rtswap_dbus::objects::list;
use rtswap_dbus::{Error, Manager1Proxy, Options};
use rtswap_wire::hello::ReplyCode;
use rtswap_wire::page::JobKind;

/// A daemon that everybody can reach.
fn open_to_all() -> (Home, Daemon) {
    let home = Home::new(ONE_GPU);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = home.daemon();
    (home, daemon)
}

#[test]
fn another_user_may_do_what_is_its_own_and_nothing_else() {
    let (home, _daemon) = open_to_all();
    let roots = block_on(async {
        let bus = home.bus().await;
        let manager = Manager1Proxy::new(&bus).await.unwrap();
        manager.register("roots", realtime().into_wire()).await
    });
    let roots = roots.unwrap();
    let agent = Agent::connect(&home.runtime_dir(), Some("roots")).unwrap();
    let done = as_nobody(|| {
        block_on(async {
            let bus = home.bus().await;
            let manager = Manager1Proxy::new(&bus).await.unwrap();
            let denied = manager.register("x", realtime().into_wire()).await;
            let denied = denied.unwrap_err();
            assert!(matches!(denied, Error::AccessDenied(_)), "{denied:?}");
            let text = denied.to_string();
            assert!(
                text.starts_with("user 65534 may not register realtime tasks"),
                "{text}"
            );
            let denied = manager.unregister(&roots.as_ref()).await.unwrap_err();
            assert!(matches!(denied, Error::AccessDenied(_)), "{denied:?}");
            for denied in [
                manager.park(&roots.as_ref()).await,
                manager.resume(&roots.as_ref()).await,
            ] {
                let denied = denied.unwrap_err();
                assert!(matches!(denied, Error::AccessDenied(_)), "{denied:?}");
            }
            let own = manager
                .register("roots", Options::default().into_wire())
                .await;
            let own = own.expect("a name of its own");
            assert_ne!(own, roots);
            assert_eq!(manager.list_processes().await.unwrap(), []);
            manager.unregister(&own.as_ref()).await.unwrap();
        });
        let named = Agent::connect(&home.runtime_dir(), Some("roots"));
        let (code, text) = named.err().expect("root's task is not nobody's");
        assert_eq!(code, Some(ReplyCode::Claim));
        assert!(
            text.starts_with("no task named roots is registered for user 65534"),
            "{text}"
        );
        // Even with the number and the cookie.
        let mut stolen = hello(Some("roots"));
        stolen.registration = agent.reply.registration;
        stolen.cookie = agent.cookie.0;
        let (code, _) = Agent::with(&home.runtime_dir(), &stolen, None)
            .err()
            .unwrap();
        assert_eq!(code, Some(ReplyCode::Claim));
        for private in ["state", "lock"] {
            let file = home.runtime_dir().join(private);
            assert!(
                fs::OpenOptions::new().append(true).open(&file).is_err(),
                "{private}"
            );
        }
        assert!(fs::read(home.runtime_dir().join("state")).is_err());
    });
    if done.is_some() {
        assert!(!agent.is_lost());
        let tasks = block_on(async { list(&home.bus().await).await.unwrap().tasks });
        assert_eq!(tasks.len(), 1, "{tasks:?}");
    }
}

#[test]
fn one_users_connections_do_not_shut_out_the_others() {
    let (home, _daemon) = open_to_all();
    let control = home.runtime_dir().join("control.sock");
    let agents = home.runtime_dir();
    let held = as_nobody(|| {
        let silent: Vec<_> = (0..300)
            .map_while(|_| std::os::unix::net::UnixStream::connect(&control).ok())
            .collect();
        block_on(async {
            // Those that were hung up on leave room for none.
            tokio::time::sleep(Duration::from_millis(200)).await;
        });
        let refused = (0..300).filter(|_| Agent::connect(&agents, Some("nobodys")).is_err());
        assert_eq!(refused.count(), 300);
        silent
    });
    if held.is_none() {
        return;
    }
    let start = Instant::now();
    let tasks = block_on(async { list(&home.bus().await).await.unwrap().tasks });
    assert!(tasks.is_empty());
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
    drop(held);
}

/// The longest of many round trips while others make `noise`.
fn worst_answer(agent: &mut Agent, noise: impl Fn() + Sync) -> Duration {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    noise();
                }
            });
        }
        let start = Instant::now();
        let mut worst = Duration::ZERO;
        let mut mebibytes = 0;
        while start.elapsed() < Duration::from_secs(1) {
            let asked = Instant::now();
            mebibytes = (mebibytes + 1) % 8;
            agent.want(mebibytes * MIB);
            worst = worst.max(asked.elapsed());
        }
        over.store(true, Ordering::Relaxed);
        worst
    })
}

#[test]
fn a_flood_of_connections_does_not_hold_up_an_agent() {
    let (home, _daemon) = open_to_all();
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    let socket = home.runtime_dir();
    let worst = worst_answer(&mut agent, || {
        // Refused, since nobody has registered that. Lines about root are all written.
        let refused = as_nobody(|| {
            for _ in 0..50 {
                let refused = Agent::connect(&socket, Some("not-there"));
                assert!(refused.is_err());
            }
        });
        if refused.is_none() {
            let refused = Agent::connect(&socket, Some("not-there"));
            assert!(refused.is_err());
        }
    });
    println!("flood of Hellos: {worst:?}");
    assert!(worst < Duration::from_secs(3), "{worst:?}");
    let path = socket.join("agent.sock");
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let worst = worst_answer(&mut agent, || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType};
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let silent = rustix::net::socket_with(unix, kind, flags, None).unwrap();
        // A full backlog is as good.
        let _ = rustix::net::connect(&silent, &address);
    });
    println!("flood of connections: {worst:?}");
    assert!(worst < Duration::from_secs(3), "{worst:?}");
    assert!(home.log().len() < 1 << 20, "the log is not flooded");
}

/// CPU time of a process, in clock ticks.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<_> = rest.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn without_descriptors_the_daemon_neither_spins_nor_dies() {
    let home = Home::new(ONE_GPU);
    let mut daemon = home.daemon_with(|command: &mut Command| {
        // SAFETY: setrlimit is safe to call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let few = rustix::process::Rlimit {
                    current: Some(48),
                    maximum: Some(48),
                };
                Ok(rustix::process::setrlimit(
                    rustix::process::Resource::Nofile,
                    few,
                )?)
            })
        };
    });
    let mut agent = Agent::connect(&home.runtime_dir(), None).unwrap();
    let path = home.runtime_dir().join("agent.sock");
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    let silent: Vec<_> = (0..60)
        .map(|_| {
            use rustix::net::{AddressFamily, SocketFlags, SocketType};
            let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
            let socket = rustix::net::socket_with(unix, kind, SocketFlags::CLOEXEC, None).unwrap();
            rustix::net::connect(&socket, &address).unwrap();
            socket
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let before = ticks(daemon.pid());
    std::thread::sleep(Duration::from_secs(1));
    let spent = ticks(daemon.pid()) - before;
    assert!(spent < 30, "{spent} of 100 ticks");
    assert_eq!(agent.want(2 * MIB), 2 * MIB);
    drop(silent);
    wait_for("room for another", || {
        Agent::connect(&home.runtime_dir(), None).ok()
    });
    assert_eq!(daemon.terminate(), Some(0));
}

#[test]
fn an_impossible_figure_is_a_violation_and_disturbs_nobody() {
    let (home, _daemon) = open_to_all();
    let mut honest = Agent::connect(&home.runtime_dir(), None).unwrap();
    let mut liar = Agent::connect(&home.runtime_dir(), None).unwrap();
    assert_eq!(liar.want(2 * MIB), 2 * MIB);
    let restore = rtswap_wire::page::UsageReport {
        resident_bytes: 1 << 60,
        ..Default::default()
    };
    liar.block().agent.restore(restore, 0, 0);
    liar.ask(4 * MIB);
    wait_for("the complaint", || {
        home.log().contains("senseless report").then_some(())
    });
    assert_eq!(honest.want(8 * MIB), 8 * MIB);
    honest.allocate(8 * MIB);
    let job = honest.request(JobKind::Declared);
    honest.wait_granted(job);
}

/// One user has 5,000 Hellos refused. Few lines tell of them, with how many were left out, and what root's
/// task does wrong meanwhile is in the log and counted.
#[test]
fn a_flood_of_refusals_hides_nothing_in_the_log() {
    let (home, _daemon) = open_to_all();
    let roots = block_on(async {
        let bus = home.bus().await;
        let manager = Manager1Proxy::new(&bus).await.unwrap();
        let options = Options {
            wcet: Some(Duration::from_millis(1)),
            ..realtime()
        };
        manager.register("roots", options.into_wire()).await
    });
    let roots = roots.unwrap();
    let runtime_dir = home.runtime_dir();
    let before = home.log().lines().count();
    let start = Instant::now();
    as_nobody(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let _ = Agent::connect(&runtime_dir, Some("none"));
                }
            });
        });
    });
    let mut agent = Agent::connect(&home.runtime_dir(), Some("roots")).unwrap();
    let job = agent.request(JobKind::Declared);
    agent.wait_granted(job);
    std::thread::sleep(Duration::from_millis(20));
    agent.complete(job);
    let seconds = start.elapsed().as_secs() as usize + 1;
    let log = wait_for("what was left out", || {
        let log = home.log();
        let is_told = log.contains(" more of user 65534 left out") && log.contains("overrun");
        is_told.then_some(log)
    });
    let lines: Vec<_> = log.lines().skip(before).collect();
    let of_nobody = lines.iter().filter(|line| line.contains("65534")).count();
    assert!(
        of_nobody <= 20 * (seconds + 1),
        "{of_nobody} in {seconds} s"
    );
    // The bus is told a moment after the log.
    wait_for("the violation is counted", || {
        let tasks = block_on(async {
            let bus = home.bus().await;
            list(&bus).await.unwrap().tasks
        });
        let task = tasks.into_iter().find(|(path, _)| *path == roots);
        (task.unwrap().1.violations == 1).then_some(())
    });
}
