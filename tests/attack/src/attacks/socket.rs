//! Connections that are no conversations.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zerocopy::IntoBytes as _;

use crate::attack::{Attack, PLAIN};
use crate::attacker::Attacker;
use crate::attacker::wire::hello;
use crate::judge::Scene;
use crate::victims::{as_user, installed, on_machine};

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "agent-socket-flood",
        attackers: 2,
        act: |attacker| flood(attacker, false),
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "agent-socket-half-open",
        attackers: 2,
        act: |attacker| keep_open(attacker, false),
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "agent-socket-never-read",
        act: never_read,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "control-socket-flood",
        attackers: 2,
        act: |attacker| flood(attacker, true),
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "control-socket-half-open",
        attackers: 2,
        act: |attacker| keep_open(attacker, true),
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "authentication-half-sent",
        act: half_sent,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "authentication-endless",
        act: endless,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "authentication-as-root",
        act: as_root,
        judge: Scene::all_refused,
        ..PLAIN
    },
    Attack {
        name: "message-too-long",
        act: too_long,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "message-garbage",
        act: garbage,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "message-many-descriptors",
        act: many_descriptors,
        judge: others_come_in,
        ..PLAIN
    },
    Attack {
        name: "answers-never-read",
        attackers: 2,
        act: answers_never_read,
        judge: others_come_in,
        ..PLAIN
    },
];

/// Another user registers and is answered.
pub(super) fn others_come_in(scene: &Scene) -> Result<()> {
    scene.was_tried()?;
    let machine = &scene.stage.machine;
    let ctl = installed(machine, "rtswapctl");
    let mut command = on_machine(machine, as_user(scene.stage.bystander, ctl));
    command.args(["run", "--name", "latecomer", "--", "true"]);
    finished(command, "another user's program")
}

/// It ends well within 5 s.
pub(super) fn finished(command: Command, what: &str) -> Result<()> {
    let program = rtswap_e2e::Program::start(command)?;
    let end = program
        .finish(Duration::from_secs(5))
        .with_context(|| what.to_owned())?;
    ensure!(
        end.status.success(),
        "{what} ended with {}: {}",
        end.status,
        end.stderr
    );
    Ok(())
}

fn flood(attacker: &mut Attacker, control: bool) -> Result<()> {
    while attacker.goes_on() {
        // A queue that is full is what is attacked.
        let _ = if control {
            attacker.raw_bus().map(drop)
        } else {
            attacker.wire().map(drop)
        };
        attacker.count("tried");
    }
    Ok(())
}

fn keep_open(attacker: &mut Attacker, control: bool) -> Result<()> {
    let (mut streams, mut wires) = (Vec::new(), Vec::new());
    while attacker.goes_on() {
        if control {
            streams.extend(attacker.raw_bus());
        } else {
            wires.extend(attacker.wire());
        }
        attacker.count("tried");
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

fn never_read(attacker: &mut Attacker) -> Result<()> {
    let said = hello();
    let mut wires = Vec::new();
    while attacker.goes_on() {
        if let Ok(wire) = attacker.wire() {
            while wire.send(said.as_bytes(), &[]).is_ok() {}
            wires.push(wire);
            wires.truncate(64);
        }
        attacker.count("tried");
    }
    Ok(())
}

fn half_sent(attacker: &mut Attacker) -> Result<()> {
    let mut streams = Vec::new();
    while attacker.goes_on() {
        if let Ok(mut stream) = attacker.raw_bus() {
            let _ = stream.write_all(b"\0AUTH EXTERN");
            streams.push(stream);
        }
        attacker.count("tried");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn endless(attacker: &mut Attacker) -> Result<()> {
    let line = [b'A'; 4_096];
    while attacker.goes_on() {
        if let Ok(mut stream) = attacker.raw_bus() {
            let _ = stream.write_all(b"\0");
            while attacker.goes_on() && stream.write_all(&line).is_ok() {}
        }
        attacker.count("tried");
    }
    Ok(())
}

/// The kernel says who it is, whatever it says itself: what root alone may do is refused.
fn as_root(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let mut stream = attacker.raw_bus()?;
        stream.write_all(b"\0AUTH EXTERNAL 30\r\nBEGIN\r\n")?;
        let reload = zbus::Message::method_call("/org/rtswap", "Reload");
        let reload = reload.interface(rtswap_dbus::MANAGER).build(&())?;
        let answer = exchange(&mut stream, reload.data());
        let tried = match answer {
            Ok(text) if text.contains("Error") || text.contains("REJECTED") => {
                Err(anyhow::anyhow!("refused"))
            }
            Ok(text) if text.is_empty() => Err(anyhow::anyhow!("closed")),
            Ok(text) => Ok(text),
            Err(error) => Err(error),
        };
        attacker.tell(&tried);
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Sends bytes, and reads what comes within a moment.
fn exchange(stream: &mut UnixStream, bytes: &[u8]) -> Result<String> {
    stream.write_all(bytes)?;
    let mut text = String::new();
    let mut room = [0; 4_096];
    while let Ok(length @ 1..) = stream.read(&mut room) {
        text.push_str(&String::from_utf8_lossy(&room[..length]));
    }
    Ok(text)
}

fn too_long(attacker: &mut Attacker) -> Result<()> {
    while attacker.goes_on() {
        let mut stream = attacker.greeted_bus()?;
        // A body of 2 GiB is announced, and then comes without end.
        let _ = stream.write_all(b"l\x01\0\x01\xff\xff\xff\x7f\x01\0\0\0\x40\0\0\0");
        let part = vec![0; 64 << 10];
        for _ in 0..256 {
            if stream.write_all(&part).is_err() {
                break;
            }
        }
        attacker.count("tried");
    }
    Ok(())
}

fn garbage(attacker: &mut Attacker) -> Result<()> {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    while attacker.goes_on() {
        let mut stream = attacker.greeted_bus()?;
        for _ in 0..64 {
            let mut bytes = Vec::from(*b"l\x01\0\x01");
            for _ in 0..64 {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                bytes.extend(word.to_le_bytes());
            }
            // A length that is allowed, of a body and of a header that make no sense.
            bytes[4..16].copy_from_slice(&[0x80, 0, 0, 0, 1, 0, 0, 0, 0x40, 0, 0, 0]);
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
        attacker.count("tried");
    }
    Ok(())
}

fn many_descriptors(attacker: &mut Attacker) -> Result<()> {
    use std::os::fd::AsFd as _;
    let file = std::fs::File::open("/dev/null")?;
    let fds = vec![file.as_fd(); crate::attacker::wire::MOST_FDS];
    while attacker.goes_on() {
        let stream = attacker.greeted_bus()?;
        let wire = crate::attacker::wire::Wire(stream.into());
        while wire
            .send(b"l\x01\0\x01\xff\0\0\0\x01\0\0\0\x40\0\0\0", &fds)
            .is_ok()
        {}
        attacker.count("tried");
    }
    Ok(())
}

fn answers_never_read(attacker: &mut Attacker) -> Result<()> {
    let call = zbus::Message::method_call("/org/rtswap", "GetManagedObjects");
    let call = call
        .interface("org.freedesktop.DBus.ObjectManager")
        .build(&())?;
    let mut streams = Vec::new();
    while attacker.goes_on() {
        if let Ok(mut stream) = attacker.greeted_bus() {
            for _ in 0..64 {
                if stream.write_all(call.data()).is_err() {
                    break;
                }
            }
            streams.push(stream);
        }
        attacker.count("tried");
    }
    Ok(())
}
