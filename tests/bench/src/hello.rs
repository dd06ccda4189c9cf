//! From Hello to Welcome: the real daemon, and processes that say nothing else.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program};
use rtswap_wire::hello::{Hello, Reply, ReplyCode};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::PidfdFlags;
use zerocopy::IntoBytes;

use crate::grant::median;
use crate::report::{Bound, Report};
use crate::stage::BOUND;

/// Of pidfd_open(2), since Linux 6.9; not in rustix yet.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());
/// Processes that say Hello, one after the other.
const TIMES: u32 = 300;

/// Starts the greeter beside a daemon.
pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let _daemon = machine.daemon()?;
    let mut command: Command = machine.command(std::env::current_exe()?);
    command.args(["--say-hello", &TIMES.to_string()]);
    let answer = Program::start(command)?.finish(BOUND)?.json()?;
    let times = answer["hello_ns"].as_array().context("no times")?;
    let times: Option<Vec<_>> = times.iter().map(serde_json::Value::as_u64).collect();
    let times = median(times.context("no time")?);
    report
        .measured("Hello to Welcome, median", times / 1e3, "µs")
        .bound(Bound::most(120.0, 0.25));
    Ok(())
}

/// Says Hello in a process of its own each time: to the daemon each is a program that starts.
pub(crate) fn say(times: u32) -> Result<()> {
    let folder = std::env::var_os("RTSWAP_RUNTIME_DIR").context("RTSWAP_RUNTIME_DIR is not set")?;
    let path = PathBuf::from(folder).join("agent.sock");
    let mut taken = Vec::new();
    for _ in 0..times {
        let (reader, writer) = rustix::pipe::pipe()?;
        // SAFETY: this process has one thread, so that its child may do anything.
        let child = unsafe { libc::fork() };
        ensure!(child >= 0, "no process to be had");
        if child == 0 {
            let ns = greet(&path).unwrap_or_default();
            let _ = rustix::io::write(&writer, &ns.to_ne_bytes());
            // SAFETY: ends the child without the parent's destructors.
            unsafe { libc::_exit(0) };
        }
        drop(writer);
        let mut ns = [0; 8];
        rustix::io::read(&reader, &mut ns)?;
        // SAFETY: reaps the child made above.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        let ns = u64::from_ne_bytes(ns);
        ensure!(ns > 0, "no Welcome");
        taken.push(ns);
        // The daemon buries the last one before the next comes.
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    println!("{}", serde_json::json!({ "hello_ns": taken }));
    Ok(())
}

/// ns from Hello to Welcome.
fn greet(path: &std::path::Path) -> Result<u64> {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    // Doorbells go to a thread by its pidfd, as an agent's do.
    let me = rustix::thread::gettid();
    let pidfd = rustix::process::pidfd_open(me, PIDFD_THREAD)?;
    let fds = [pidfd.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut room);
    with.push(SendAncillaryMessage::ScmRights(&fds));
    let hello = Hello::new(me.as_raw_pid().cast_unsigned(), None)?;
    let mut packet = [0; size_of::<Reply>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let begin = Instant::now();
    let iov = [IoSlice::new(hello.as_bytes())];
    rustix::net::sendmsg(&socket, &iov, &mut with, SendFlags::NOSIGNAL)?;
    let mut iov = [IoSliceMut::new(&mut packet)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(&socket, &mut iov, &mut control, flags)?;
    let took = begin.elapsed();
    let reply = Reply::parse(&packet[..got.bytes])?;
    ensure!(reply.code() == Some(ReplyCode::Welcome), "{}", reply.text());
    Ok(u64::try_from(took.as_nanos())?)
}
