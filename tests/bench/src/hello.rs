//! From Hello to Welcome: the real daemon, and processes that say nothing else.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
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

fn agent_socket() -> Result<PathBuf> {
    let folder = std::env::var_os("RTSWAP_RUNTIME_DIR").context("RTSWAP_RUNTIME_DIR is not set")?;
    Ok(PathBuf::from(folder).join("agent.sock"))
}

/// Says Hello in a process of its own each time: to the daemon each is a program that starts.
pub(crate) fn say(times: u32) -> Result<()> {
    let path = agent_socket()?;
    let mut taken = Vec::new();
    for _ in 0..times {
        let (reader, writer) = rustix::pipe::pipe()?;
        // SAFETY: this process has one thread, so that its child may do anything.
        let child = unsafe { libc::fork() };
        ensure!(child >= 0, "no process to be had");
        if child == 0 {
            let ns = greet(&path).map_or(0, |(_, ns)| ns);
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

/// Says Hello in so many processes, which keep their sessions until the input ends. Each writes a
/// byte to the output when it has one.
pub(crate) fn stay(processes: u32) -> Result<()> {
    let path = agent_socket()?;
    let mut children = Vec::new();
    for _ in 0..processes {
        // SAFETY: this process has one thread, so that its child may do anything.
        let child = unsafe { libc::fork() };
        ensure!(child >= 0, "no process to be had");
        if child == 0 {
            let code = i32::from(keep(&path).is_err());
            // SAFETY: ends the child without the parent's destructors.
            unsafe { libc::_exit(code) };
        }
        children.push(child);
    }
    for child in children {
        let mut status = 0;
        // SAFETY: reaps a child made above.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        ensure!(status == 0, "a process has no session: {status}");
    }
    Ok(())
}

fn keep(path: &Path) -> Result<()> {
    let _session = greet(path)?;
    rustix::io::write(std::io::stdout(), b".")?;
    rustix::io::read(std::io::stdin(), &mut [0])?;
    Ok(())
}

/// The connection, and ns from Hello to Welcome.
fn greet(path: &Path) -> Result<(OwnedFd, u64)> {
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
    Ok((socket, u64::try_from(took.as_nanos())?))
}
