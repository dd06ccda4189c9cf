//! Clients of the control socket that want more of the daemon than a call takes.

use std::fs;
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use zbus::Message;
use zbus::message::Flags;

use crate::common::{BOUND, Home, MIB, ONE_GPU, wait_for};
use rtswap_dbus::objects::list;

const METHOD_RETURN: u8 = 2;

/// An authenticated connection, nothing said yet.
fn raw(home: &Home) -> UnixStream {
    let mut stream = UnixStream::connect(home.runtime_dir().join("control.sock")).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    let uid = rustix::process::getuid().as_raw().to_string();
    // In words that mislead who reads along.
    write!(stream, "\0BEGIN\r\nAUTH EXTERNAL ").unwrap();
    for digit in uid.bytes() {
        write!(stream, "{digit:02x}").unwrap();
    }
    write!(stream, "\r\nNEGOTIATE_UNIX_FD\r\nBEGIN at last\r\n").unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"AGREE_UNIX_FD\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    stream
}

fn call(flags: Flags) -> Message {
    let call = Message::method_call("/", "Introspect");
    let call = call.interface("org.freedesktop.DBus.Introspectable");
    call.with_flags(flags).build(&()).unwrap()
}

/// The other end hangs up, once it has said what it had to say.
fn hangs_up(stream: &mut UnixStream) -> bool {
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// Reads messages up to one of this type.
fn find(stream: &mut UnixStream, kind: u8) {
    loop {
        let mut header = [0; 16];
        stream.read_exact(&mut header).unwrap();
        let number = |at| u32::from_le_bytes(header[at..][..4].try_into().unwrap()) as usize;
        let mut rest = vec![0; number(12).next_multiple_of(8) + number(4)];
        stream.read_exact(&mut rest).unwrap();
        if header[1] == kind {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_whose_answers_nobody_reads_are_not_taken() {
    let home = Home::new(ONE_GPU);
    let daemon = home.daemon();
    let other = home.bus().await;
    list(&other).await.unwrap();
    let before = daemon.memory();
    for flags in [Flags::empty(), Flags::NO_REPLY_EXPECTED] {
        let mut stream = raw(&home);
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let bytes = call(flags).data().repeat(1000);
        let start = Instant::now();
        let mut taken = 0;
        while start.elapsed() < BOUND {
            match stream.write(&bytes) {
                Ok(length) => taken += length,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        println!("{taken} bytes were taken");
        assert!(taken < 4 << 20, "{flags:?}: {taken}");
        list(&other).await.unwrap();
        let more = daemon.memory().saturating_sub(before);
        assert!(more < 32 * MIB, "{flags:?}: {more}");
        // It is not forgotten: who reads gets every answer.
        for _ in 0..1000 {
            find(&mut stream, METHOD_RETURN);
        }
    }
}

#[test]
fn a_message_that_is_too_long_ends_its_connection() {
    let home = Home::new(ONE_GPU);
    let daemon = home.daemon();
    let before = daemon.memory();
    for _ in 0..8 {
        let mut stream = raw(&home);
        // 112 MiB are to follow.
        let header = b"l\x01\0\x01\0\0\0\x07\x01\0\0\0\x40\0\0\0";
        stream.write_all(header).unwrap();
        assert!(hangs_up(&mut stream));
    }
    let more = daemon.memory().saturating_sub(before);
    assert!(more < 32 * MIB, "{more}");
}

#[test]
fn a_message_brings_one_descriptor() {
    let home = Home::new(ONE_GPU);
    let daemon = home.daemon();
    // Those of its own and those that were sent; the daemon may open others meanwhile.
    let open = || {
        let all = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
        let files = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        files.filter(|file| file == Path::new("/dev/null")).count()
    };
    let mut stream = raw(&home);
    let before = open();
    let message = call(Flags::empty());
    let mut sent = 0;
    for byte in message.data().chunks(1) {
        let null = fs::File::open("/dev/null").unwrap();
        let fds = [null.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let flags = SendFlags::NOSIGNAL;
        if sendmsg(&stream, &[IoSlice::new(byte)], &mut control, flags).is_err() {
            break;
        }
        sent += 1;
    }
    assert!(hangs_up(&mut stream));
    println!("{sent} descriptors were sent");
    wait_for("its descriptors to be closed", || {
        (open() <= before).then_some(())
    });
}
