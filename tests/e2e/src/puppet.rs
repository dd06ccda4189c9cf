//! The daemon's half of the wire without a scheduler: a test pulls the strings one by one, which the
//! real daemon would never do in that order or that often.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_wire::hello::{Hello, Reply, ReplyCode};
use rtswap_wire::page::{
    ControlPage, DeviceBlock, Direction, PAGE_BYTES, SwapOutcome, SwapRequest,
};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::thread::futex;
use zerocopy::IntoBytes;

use crate::program::{Finished, Program, wait_until};

const BOUND: Duration = Duration::from_secs(20);
const COOKIE: u64 = 0x0c00_c1e0_0c00_c1e0;

/// One session with one agent.
pub struct Puppet {
    page: NonNull<ControlPage>,
    // Open as long as the session lives.
    socket: OwnedFd,
    eventfd: OwnedFd,
    pid: rustix::process::Pid,
    tid: u32,
    asked: SwapRequest,
    asked_at: Instant,
    gpu: usize,
}

/// What an agent is offered.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The GPUs' UUIDs.
    pub gpus: &'a [[u8; 16]],
    /// δ in bytes.
    pub chunk: u64,
    /// All memory of each GPU, and the budget there, in bytes.
    pub memory: u64,
    /// How long a drain may take, in ms.
    pub drain_bound_ms: u32,
    /// Calls in flight; 0 for any number.
    pub max_in_flight: u32,
}

/// A swap operation that is done.
#[derive(Clone, Copy, Debug)]
pub struct Swapped {
    /// What was copied over the link.
    pub moved_bytes: u64,
    /// From the request to its acknowledgement, as the daemon sees it.
    pub took: Duration,
}

impl Puppet {
    /// Binds the agent socket in `runtime_dir`; do so before the program starts.
    pub fn listen(runtime_dir: &Path) -> Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(
            &listener,
            &SocketAddrUnix::new(runtime_dir.join("agent.sock"))?,
        )?;
        rustix::net::listen(&listener, 4)?;
        Ok(listener)
    }

    /// Takes one agent in and gives it one GPU with a budget of all its memory.
    pub fn accept(listener: &OwnedFd, uuid: [u8; 16], chunk: u64, memory: u64) -> Result<Self> {
        let offer = Offer {
            gpus: &[uuid],
            chunk,
            memory,
            drain_bound_ms: 5_000,
            max_in_flight: 0,
        };
        Self::offer(listener, offer)
    }

    /// Takes one agent in with these GPUs.
    pub fn offer(listener: &OwnedFd, offer: Offer<'_>) -> Result<Self> {
        let timeout = rustix::time::Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        ensure!(
            rustix::event::poll(&mut ready, Some(&timeout))? == 1,
            "no agent came"
        );
        let socket = rustix::net::accept_with(listener, SocketFlags::CLOEXEC)?;
        let peer = rustix::net::sockopt::socket_peercred(&socket)?;
        let mut packet = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut packet)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let hello = Hello::parse(&packet[..received.bytes])?;

        let memfd =
            rustix::fs::memfd_create("puppet", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&memfd, PAGE_BYTES as u64)?;
        rustix::fs::fcntl_add_seals(
            &memfd,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )?;
        let page = map(&memfd)?;
        let eventfd = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        let puppet = Self {
            page,
            socket,
            eventfd,
            pid: peer.pid,
            tid: hello.tid,
            asked: SwapRequest {
                seq: 0,
                direction: Direction::Out,
                target_bytes: 0,
            },
            asked_at: Instant::now(),
            gpu: 0,
        };
        puppet.page().init(1);
        for (block, uuid) in puppet.page().devices().iter().zip(offer.gpus) {
            block.daemon.describe(*uuid, offer.chunk, offer.memory);
            block.daemon.set_budget(&block.agent, offer.memory);
        }

        let mut reply = Reply::refusal(ReplyCode::Welcome, "");
        reply.registration = 1;
        reply.cookie = COOKIE;
        reply.orphan_timeout_ms = 10_000;
        reply.idle_gap_us = 2_000;
        reply.drain_bound_ms = offer.drain_bound_ms;
        reply.max_in_flight = offer.max_in_flight;
        let fds = [memfd.as_fd(), puppet.eventfd.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ensure!(
            ancillary.push(SendAncillaryMessage::ScmRights(&fds)),
            "no room for two descriptors"
        );
        let slices = [IoSlice::new(reply.as_bytes())];
        rustix::net::sendmsg(&puppet.socket, &slices, &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(puppet)
    }

    fn page(&self) -> &ControlPage {
        // SAFETY: the mapping of PAGE_BYTES lives until drop, and a ControlPage is valid for any bytes.
        unsafe { self.page.as_ref() }
    }

    /// From now on the strings of this GPU are pulled; at first those of the first one.
    pub fn turn_to(&mut self, gpu: usize) {
        self.gpu = gpu;
    }

    /// The block of the GPU turned to.
    pub fn block(&self) -> &DeviceBlock {
        &self.page().devices()[self.gpu]
    }

    /// Lets the job run that waits, if one does.
    pub fn grant_any(&self) -> Result<()> {
        match self.block().agent.jobs() {
            Some(jobs) if jobs.requested != jobs.completed => self.grant(jobs.requested),
            _ => Ok(()),
        }
    }

    /// Lets all jobs run until the program has printed `text`.
    pub fn grant_until(&self, program: &mut Program, text: &str) -> Result<()> {
        let until = Instant::now() + BOUND;
        while !program.stdout().contains(text) {
            self.grant_any()?;
            ensure!(
                program.is_running() && Instant::now() < until,
                "no {text:?} in: {}{}",
                program.stdout(),
                program.stderr()
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets all jobs run until the program has ended.
    pub fn grant_to_the_end(&self, mut program: Program) -> Result<Finished> {
        let until = Instant::now() + BOUND;
        while program.is_running() && Instant::now() < until {
            self.grant_any()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        program.finish(Duration::from_secs(1))
    }

    /// Waits until the agent asks for a job that is not completed yet, and returns its number.
    pub fn wait_for_job(&self) -> Result<u32> {
        let mut job = 0;
        wait_until("the agent asks for a job", BOUND, || {
            let open = self
                .block()
                .agent
                .jobs()
                .filter(|jobs| jobs.requested != jobs.completed);
            job = open.map_or(0, |jobs| jobs.requested);
            job != 0
        })?;
        Ok(job)
    }

    /// Lets a job run.
    pub fn grant(&self, job: u32) -> Result<()> {
        self.block().daemon.grant(job);
        futex::wake(
            self.block().daemon.grant_word(),
            futex::Flags::empty(),
            i32::MAX as u32,
        )?;
        Ok(())
    }

    /// Ends a job at its next launch boundary and waits until it has ended.
    pub fn revoke(&self, job: u32) -> Result<()> {
        self.block().daemon.revoke(job);
        self.ring(rustix::process::Signal::USR2)?;
        wait_until("the revoked job ends", BOUND, || {
            self.block()
                .agent
                .jobs()
                .is_some_and(|jobs| jobs.completed == job || jobs.requested != job)
        })
    }

    /// Asks for a backing store and waits until the agent confirms that it is pinned.
    pub fn set_volume(&self, bytes: u64) -> Result<()> {
        let DeviceBlock { daemon, agent } = self.block();
        daemon.set_volume(bytes);
        let (asked, _) = daemon.volume().context("only this end writes it")?;
        self.ring(rustix::process::Signal::USR2)?;
        wait_until("the agent answers for its backing store", BOUND, || {
            agent.backing().0 == asked
        })?;
        let pinned = agent.backing().1;
        ensure!(pinned >= bytes, "{pinned} of {bytes} bytes are pinned");
        Ok(())
    }

    /// Waits until the swap thread has been through a whole round that began after this call: what it
    /// looks for by itself, it has seen.
    pub fn wait_for_round(&self) -> Result<()> {
        // A round answers before it looks around, so the second answer comes from a later round.
        let have = self.block().agent.backing().1;
        self.set_volume(have)?;
        self.set_volume(have)
    }

    /// Has the agent swap until `target_bytes` are in its backing store.
    pub fn swap(&mut self, direction: Direction, target_bytes: u64) -> Result<Swapped> {
        self.begin_swap(direction, target_bytes)?;
        self.end_swap()
    }

    /// Asks the agent to swap until `target_bytes` are in its backing store.
    pub fn begin_swap(&mut self, direction: Direction, target_bytes: u64) -> Result<()> {
        self.asked = SwapRequest {
            seq: self.asked.seq + 1,
            direction,
            target_bytes,
        };
        self.asked_at = Instant::now();
        let daemon = &self.block().daemon;
        daemon.request_swap(self.asked, target_bytes);
        self.ring(match direction {
            Direction::Out => rustix::process::Signal::USR1,
            Direction::In => rustix::process::Signal::USR2,
        })
    }

    /// Waits for the end of what [`Self::begin_swap`] asked for: at the agent's bell, as the daemon.
    pub fn end_swap(&mut self) -> Result<Swapped> {
        let SwapRequest {
            seq,
            direction,
            target_bytes,
        } = self.asked;
        let until = self.asked_at + BOUND;
        let report = loop {
            let report = self.block().agent.swap_report();
            if let Some(report) = report.filter(|report| report.seq == seq) {
                break report;
            }
            ensure!(Instant::now() < until, "{direction:?} never ended");
            let tick = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: 2_000_000,
            };
            let mut bell = [PollFd::new(&self.eventfd, PollFlags::IN)];
            if rustix::event::poll(&mut bell, Some(&tick))? == 1 {
                rustix::io::read(&self.eventfd, &mut [0; 8])?;
            }
        };
        let took = self.asked_at.elapsed();
        let swapped = self.block().agent.usage().swapped_bytes;
        ensure!(
            report.outcome == SwapOutcome::Done,
            "{direction:?} ended {:?}",
            report.outcome
        );
        ensure!(
            swapped == target_bytes,
            "{swapped} of {target_bytes} bytes are swapped"
        );
        Ok(Swapped {
            moved_bytes: report.moved_bytes,
            took,
        })
    }

    /// Rings the doorbell as the daemon does.
    fn ring(&self, signal: rustix::process::Signal) -> Result<()> {
        self.block().daemon.ring();
        futex::wake(
            self.block().daemon.bell_word(),
            futex::Flags::empty(),
            i32::MAX as u32,
        )?;
        // SAFETY: all zeros are a valid siginfo_t.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_signo = signal.as_raw();
        info.si_code = libc::SI_QUEUE;
        // The kernel's layout of a queued signal: three ints, padding, pid, uid, then the 64-bit value.
        // SAFETY: offset 24 and eight bytes lie within the 128 of a siginfo_t.
        unsafe {
            (&raw mut info)
                .cast::<u8>()
                .add(24)
                .cast::<[u8; 8]>()
                .write(COOKIE.to_ne_bytes());
        };
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: the call reads `info` and touches nothing else of ours.
        let result = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                pid,
                self.tid,
                signal.as_raw(),
                &raw const info,
            )
        };
        ensure!(
            result == 0,
            "cannot ring: {}",
            std::io::Error::last_os_error()
        );
        Ok(())
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        // SAFETY: this mapping was made by `map` with this size and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

fn map(memfd: &OwnedFd) -> Result<NonNull<ControlPage>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choosing.
    let page = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            protection,
            MapFlags::SHARED,
            memfd,
            0,
        )?
    };
    NonNull::new(page.cast()).context("mmap returned null")
}
