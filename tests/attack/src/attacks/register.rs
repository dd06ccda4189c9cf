//! Calls of Manager1 that nobody should grant, or that cost more than they should.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use zbus::Variant;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::bus::options;
use crate::judge::Scene;
use crate::victims::{installed, on_machine};

use super::socket::others_come_in;

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "register-odd-names",
        act: odd_names,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "register-wrong-types",
        act: wrong_types,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "register-odd-numbers",
        act: odd_numbers,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "register-huge-options",
        act: huge_options,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "register-unknown-gpu",
        act: unknown_gpu,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "register-gpu-by-number",
        act: gpu_by_number,
        judge: |scene| {
            ensure!(
                scene.count("taken") > 0,
                "an integer is no GPU: {:?}",
                scene.texts()
            );
            Ok(())
        },
        ..PLAIN
    },
    Attack {
        name: "register-realtime",
        act: realtime,
        judge: |scene| {
            scene.all_refused()?;
            scene.says(&["may not", "root", "best-effort"])
        },
        ..PLAIN
    },
    Attack {
        name: "register-large-weight",
        act: large_weight,
        judge: |scene| {
            scene.all_refused()?;
            scene.says(&["may not", "root", "weight"])
        },
        ..PLAIN
    },
    Attack {
        name: "register-footprint-zero",
        judge: footprint_zero,
        ..PLAIN
    },
    Attack {
        name: "register-thousands",
        attackers: 2,
        act: thousands,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "register-leases-leaked",
        attackers: 2,
        act: leases,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "register-pidfd-of-another",
        act: pidfd_of_another,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "register-and-unregister",
        attackers: 2,
        act: and_unregister,
        judge: Scene::was_tried,
        ..PLAIN
    },
    Attack {
        name: "unregister-others",
        act: unregister_others,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "park-others",
        act: park_others,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "reload",
        act: reload,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "set-policy-others",
        act: set_policy_others,
        judge: Scene::all_refused,
        ..PLAIN
    },
];

/// Registers over and over with options that `make` makes.
fn register(
    attacker: &mut Attacker,
    make: impl Fn(usize) -> (String, HashMap<&'static str, Variant<'static>>),
) -> Result<()> {
    let bus = attacker.bus()?;
    let mut number = 0;
    while attacker.goes_on() {
        let (name, options) = make(number);
        // What became of it is told.
        let _ = attacker.register(&bus, &name, options);
        number += 1;
        // More would be refused for their number alone.
        std::thread::sleep(std::time::Duration::from_millis(15));
    }
    Ok(())
}

fn odd_names(attacker: &mut Attacker) -> Result<()> {
    const NAMES: [&str; 10] = [
        "",
        "a\nb",
        "\x1b[31mred",
        "../../etc/passwd",
        "a/b",
        "a b",
        "naïve",
        ".\u{202e}",
        "%s%n",
        "-\t-",
    ];
    register(attacker, |number| match number % 11 {
        10 => ("x".repeat(4_000), HashMap::new()),
        at => (NAMES[at].to_owned(), HashMap::new()),
    })
}

fn wrong_types(attacker: &mut Attacker) -> Result<()> {
    register(attacker, |number| {
        let wrong = match number % 5 {
            0 => ("period_us", Variant::from("soon")),
            1 => ("footprint", Variant::from(vec![1_u8, 2, 3])),
            2 => ("class", Variant::from(7_u32)),
            3 => ("wcet_us", Variant::from(0.5)),
            _ => ("swappable", Variant::from((1_u32, "x"))),
        };
        ("typed".into(), options([wrong]))
    })
}

fn odd_numbers(attacker: &mut Attacker) -> Result<()> {
    register(attacker, |number| {
        let wrong = match number % 11 {
            0 => ("footprint", Variant::from(-1_i64)),
            1 => ("footprint", Variant::from(u64::MAX)),
            2 => ("footprint", Variant::from("NaN")),
            3 => ("footprint", Variant::from("-1GiB")),
            4 => ("footprint", Variant::from("1e400GiB")),
            5 => ("swappable", Variant::from("∞")),
            6 => ("period_us", Variant::from(0_u64)),
            7 => ("period_us", Variant::from(i64::MIN)),
            8 => ("weight", Variant::from(0_u8)),
            9 => ("weight", Variant::from((1_u64 << 32) + 100)),
            _ => ("deadline_us", Variant::from(u64::MAX)),
        };
        ("numbered".into(), options([wrong]))
    })
}

fn huge_options(attacker: &mut Attacker) -> Result<()> {
    let long: String = "x".repeat(50_000);
    let many: Vec<&'static str> = (0..2_000)
        .map(|number| &*format!("option-{number}").leak())
        .collect();
    register(attacker, |number| {
        let options = if number % 2 == 0 {
            options([("class", Variant::from(long.clone()))])
        } else {
            options(many.iter().map(|key| (*key, Variant::from(1_u8))))
        };
        ("huge".into(), options)
    })
}

fn unknown_gpu(attacker: &mut Attacker) -> Result<()> {
    const GPUS: [&str; 6] = ["99", "-1", "../gpu/0", "GPU-0", "", "\x1b]0;title\x07"];
    register(attacker, |number| {
        let gpu = Variant::from(GPUS[number % GPUS.len()]);
        (
            "placed".into(),
            options([("gpu", gpu), ("class", Variant::from("best-effort"))]),
        )
    })
}

/// docs/dbus.md: each option may have any integer type.
fn gpu_by_number(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let gpu = Variant::from(0_u32);
    let _ = attacker.register(&bus, "numbered", options([("gpu", gpu)]));
    Ok(())
}

fn declared(footprint: u64) -> HashMap<&'static str, Variant<'static>> {
    options([
        ("class", Variant::from("realtime")),
        ("period_us", Variant::from(1_000_000_u64)),
        ("wcet_us", Variant::from(1_000_u64)),
        ("footprint", Variant::from(footprint)),
        ("swappable", Variant::from(0_u64)),
    ])
}

fn realtime(attacker: &mut Attacker) -> Result<()> {
    register(attacker, |number| {
        ("urgent".into(), declared(number as u64 % 2 * (4 << 20)))
    })
}

fn large_weight(attacker: &mut Attacker) -> Result<()> {
    register(attacker, |number| {
        let weight = Variant::from([101_u32, 10_000][number % 2]);
        ("heavy".into(), options([("weight", weight)]))
    })
}

/// Whoever may register realtime tasks may not register one without memory: each program has a context.
fn footprint_zero(scene: &Scene) -> Result<()> {
    let machine = &scene.stage.machine;
    let ctl = installed(machine, "rtswapctl");
    let mut command = on_machine(machine, std::process::Command::new(ctl));
    command.args([
        "run", "--name", "nothing", "--class", "realtime", "--period", "1s", "--wcet", "1ms",
    ]);
    command.args(["--footprint", "0", "--swappable", "0", "--", "true"]);
    let end = rtswap_e2e::Program::start(command)?.finish(std::time::Duration::from_secs(5))?;
    ensure!(
        !end.status.success(),
        "a realtime task without memory was granted"
    );
    Ok(())
}

fn thousands(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let mut number = 0;
    while attacker.goes_on() {
        number += 1;
        let name = format!("one-of-thousands-{}-{number}", attacker.order.number);
        let _ = attacker.register(&bus, &name, HashMap::new());
    }
    Ok(())
}

/// Descriptors that are never closed, each of a registration.
fn leases(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let mut kept = Vec::new();
    while attacker.goes_on() {
        let name = format!("leased-{}-{}", attacker.order.number, kept.len());
        let leased = bus
            .runtime
            .block_on(bus.manager().register_with_lease(&name, HashMap::new()));
        attacker.tell(&leased);
        kept.extend(leased);
    }
    Ok(())
}

fn pidfd_of_another(attacker: &mut Attacker) -> Result<()> {
    let pids = std::fs::read_to_string(attacker.order.folder.join("pids"))?;
    let bus = attacker.bus()?;
    let mut number = 0;
    while attacker.goes_on() {
        for pid in pids.split_whitespace() {
            let pid = rustix::process::Pid::from_raw(pid.parse()?);
            let flags = rustix::process::PidfdFlags::empty();
            let Some(Ok(pidfd)) = pid.map(|pid| rustix::process::pidfd_open(pid, flags)) else {
                continue;
            };
            number += 1;
            let fd = Variant::Fd(zbus::Fd::from(pidfd));
            let _ = attacker.register(&bus, &format!("bound-{number}"), options([("pidfd", fd)]));
            let file = std::fs::File::open("/dev/null")?;
            let fd = Variant::Fd(zbus::Fd::from(std::os::fd::OwnedFd::from(file)));
            let _ = attacker.register(&bus, "bound-to-nothing", options([("pidfd", fd)]));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}

fn and_unregister(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    while attacker.goes_on() {
        let name = format!("brief-{}", attacker.order.number);
        if let Ok(task) = attacker.register(&bus, &name, HashMap::new()) {
            let _ = bus.runtime.block_on(bus.manager().unregister(&task));
        }
    }
    Ok(())
}

fn unregister_others(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    while attacker.goes_on() {
        for id in 0..40 {
            let task = rtswap_dbus::task_path(id);
            let tried = bus.runtime.block_on(bus.manager().unregister(&task));
            attacker.tell(&tried);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}

fn park_others(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    while attacker.goes_on() {
        for id in 0..20 {
            let task = rtswap_dbus::task_path(id);
            let tried = bus.runtime.block_on(bus.manager().park(&task));
            attacker.tell(&tried);
            let tried = bus.runtime.block_on(bus.manager().resume(&task));
            attacker.tell(&tried);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}

fn reload(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    while attacker.goes_on() {
        let tried = bus.runtime.block_on(bus.manager().reload());
        attacker.tell(&tried);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(())
}

/// Takes from others by the policy, by calls and by the files that the daemon reads.
fn set_policy_others(attacker: &mut Attacker) -> Result<()> {
    let bus = attacker.bus()?;
    let own = attacker.order.user;
    let folder = attacker.order.folder.clone();
    while attacker.goes_on() {
        for change in [
            options([("class", Variant::from("best-effort"))]),
            options([("gpu_memory", Variant::U64(0))]),
            options([
                ("user", Variant::U32(0)),
                ("on_violation", Variant::from("kill")),
            ]),
            options([
                ("user", Variant::U32(own)),
                ("gpu_memory", Variant::from("")),
            ]),
            options([
                ("task", Variant::from("own")),
                ("weight", Variant::U32(9_000)),
            ]),
            options([("max_tasks", Variant::U64(u64::MAX))]),
        ] {
            let tried = bus.runtime.block_on(bus.manager().set_policy(change));
            attacker.tell(&tried);
        }
        for file in ["policy.toml", "run/policy.toml", "run/policy.new"] {
            let rules = "version = 1\n[everybody]\nclass = \"best-effort\"\n";
            let tried = std::fs::write(folder.join(file), rules);
            attacker.tell(&tried);
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}
