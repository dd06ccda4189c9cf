//! An agent without a GPU: Hello, page and doorbells are real, its memory is a number.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::{DeviceState, Hello, Reply, ReplyCode};
use rtswap_wire::page::{
    ControlPage, DeviceBlock, Direction, JobKind, PAGE_BYTES, SwapOutcome, SwapReport, UsageReport,
};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

use super::{MIB, UUID_BYTES, wait_for};

/// Of pidfd_open(2), since Linux 6.9; not in rustix yet.
const PIDFD_THREAD: u32 = libc::O_EXCL as u32;

/// What a Hello got.
pub(crate) type Answer = Result<Agent, (Option<ReplyCode>, String)>;

/// Says `hello` (bytes, so that it may be nonsense) and reads the reply with its descriptors.
pub(crate) fn say(
    runtime_dir: &Path,
    hello: &[u8],
    thread: Option<&OwnedFd>,
) -> (OwnedFd, Reply, Vec<OwnedFd>) {
    let kind = SocketType::SEQPACKET;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let address = SocketAddrUnix::new(runtime_dir.join("agent.sock")).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let timeout = Some(Duration::from_secs(10));
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, timeout)
        .unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = thread.map(|fd| [fd.as_fd()]);
    if let Some(fds) = &fds {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let iov = [IoSlice::new(hello)];
    rustix::net::sendmsg(&socket, &iov, &mut control, SendFlags::NOSIGNAL).unwrap();
    let mut packet = [0; size_of::<Reply>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut packet)];
    let got = rustix::net::recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC);
    let length = got.unwrap().bytes;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    (socket, Reply::parse(&packet[..length]).unwrap(), fds)
}

/// A doorbell as the swap thread received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rung {
    pub(crate) signal: i32,
    pub(crate) code: i32,
    pub(crate) value: u64,
}

/// A thread that takes the doorbells and nothing else, as the swap thread does.
pub(crate) struct BellThread {
    pub(crate) pidfd: OwnedFd,
    pub(crate) tid: u32,
    rung: mpsc::Receiver<Rung>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl BellThread {
    pub(crate) fn start() -> Self {
        let (ready, started) = mpsc::channel();
        let (ring, rung) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            // SAFETY: plain calls on this thread's own mask with locals of the right types.
            let set = unsafe {
                let mut set = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                libc::sigaddset(&raw mut set, libc::SIGUSR1);
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                assert_eq!(
                    libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()),
                    0
                );
                set
            };
            ready.send(rustix::thread::gettid()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                let wait = libc::timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000_000,
                };
                // SAFETY: all pointers are to locals; a zeroed siginfo is a valid one.
                let (signal, info) = unsafe {
                    let mut info: libc::siginfo_t = std::mem::zeroed();
                    let signal = libc::sigtimedwait(&raw const set, &raw mut info, &raw const wait);
                    (signal, info)
                };
                if signal > 0 {
                    // SAFETY: the daemon queues its signals, so this member of the union is set.
                    let value = unsafe { info.si_value() }.sival_ptr as u64;
                    let code = info.si_code;
                    // Nobody may be interested any more.
                    let _ = ring.send(Rung {
                        signal,
                        code,
                        value,
                    });
                }
            }
        });
        let tid = started.recv_timeout(Duration::from_secs(5)).unwrap();
        let flags = rustix::process::PidfdFlags::from_bits_retain(PIDFD_THREAD);
        let pidfd = rustix::process::pidfd_open(tid, flags).unwrap();
        Self {
            pidfd,
            tid: tid.as_raw_pid() as u32,
            rung,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn next(&self) -> Rung {
        self.rung.recv_timeout(super::BOUND).expect("a doorbell")
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.rung.recv_timeout(Duration::from_millis(100)).is_err()
    }
}

impl Drop for BellThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// One session with one GPU.
pub(crate) struct Agent {
    pub(crate) reply: Reply,
    pub(crate) cookie: Cookie,
    socket: Option<OwnedFd>,
    page: *const ControlPage,
    eventfd: OwnedFd,
    job: u32,
    volume: u32,
    swap: u32,
}

// SAFETY: the page is shared memory made of atomics.
unsafe impl Send for Agent {}

/// A Hello of a program with one GPU.
pub(crate) fn hello(name: Option<&str>) -> Hello {
    let mut hello = Hello::new(0, name).unwrap();
    hello.devices[0] = DeviceState {
        uuid: UUID_BYTES,
        memory_bytes: 16 * MIB,
        ..DeviceState::default()
    };
    hello
}

impl Agent {
    pub(crate) fn connect(runtime_dir: &Path, name: Option<&str>) -> Answer {
        Self::with(runtime_dir, &hello(name), None)
    }

    pub(crate) fn with(runtime_dir: &Path, hello: &Hello, bell: Option<&BellThread>) -> Answer {
        let mut hello = *hello;
        if let Some(bell) = bell {
            hello.tid = bell.tid;
        }
        let (socket, reply, fds) = say(runtime_dir, hello.as_bytes(), bell.map(|bell| &bell.pidfd));
        if reply.code() != Some(ReplyCode::Welcome) {
            return Err((reply.code(), reply.text().to_owned()));
        }
        let [page, eventfd] = <[OwnedFd; 2]>::try_from(fds).unwrap();
        // SAFETY: a new mapping of a sealed memfd of that size, never unmapped.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &page,
                0,
            )
        };
        let agent = Self {
            cookie: Cookie(reply.cookie),
            reply,
            socket: Some(socket),
            page: address.unwrap().cast(),
            eventfd,
            job: hello.devices[0].completed,
            volume: 0,
            swap: 0,
        };
        assert!(agent.page().is_known());
        Ok(agent)
    }

    pub(crate) fn page(&self) -> &ControlPage {
        // SAFETY: mapped for ever, made of atomics.
        unsafe { &*self.page }
    }

    /// The block of the one GPU.
    pub(crate) fn block(&self) -> &DeviceBlock {
        let mut blocks = self.page().devices().iter();
        blocks
            .find(|block| block.daemon.uuid() == UUID_BYTES)
            .expect("the daemon manages the GPU")
    }

    pub(crate) fn tell(&self) {
        rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes()).unwrap();
    }

    /// Asks for a budget; the answer may be any.
    pub(crate) fn want(&mut self, bytes: u64) -> u64 {
        let want = self.ask(bytes);
        wait_for("an answer", || self.answered(want))
    }

    pub(crate) fn ask(&self, bytes: u64) -> u32 {
        let want = self.block().agent.want(bytes);
        self.tell();
        want
    }

    pub(crate) fn answered(&self, want: u32) -> Option<u64> {
        let daemon = &self.block().daemon;
        (daemon.answered_want() == want).then(|| daemon.budget_bytes())
    }

    /// Allocates swappable memory within the budget.
    pub(crate) fn allocate(&self, bytes: u64) {
        let block = self.block();
        block.agent.take(&block.daemon, bytes).unwrap();
        let usage = block.agent.usage();
        block
            .agent
            .set_arena(usage.arena_bytes + bytes, usage.swapped_bytes);
        self.tell();
    }

    /// Asks for the next job.
    pub(crate) fn request(&mut self, kind: JobKind) -> u32 {
        self.job += 1;
        self.block().agent.request_job(self.job, kind);
        self.tell();
        self.job
    }

    pub(crate) fn is_granted(&self, job: u32) -> bool {
        self.block().daemon.granted() == job
    }

    pub(crate) fn wait_granted(&mut self, job: u32) {
        wait_for("a grant", || {
            self.step();
            self.is_granted(job).then_some(())
        });
    }

    pub(crate) fn complete(&self, job: u32) {
        self.block().agent.complete_job(job);
        self.tell();
    }

    /// Follows what the page asks for now: pins what is wanted, moves what is to move.
    pub(crate) fn step(&mut self) -> Option<Direction> {
        let block = self.block();
        if let Some((seq, bytes)) = block.daemon.volume()
            && seq != self.volume
        {
            block.agent.confirm_volume(seq, bytes);
            self.tell();
            self.volume = seq;
        }
        let block = self.block();
        let request = block.daemon.swap_request()?;
        if request.seq == self.swap {
            return None;
        }
        let usage = block.agent.usage();
        let moved = usage.swapped_bytes.abs_diff(request.target_bytes);
        match request.direction {
            Direction::Out => {
                block
                    .agent
                    .set_arena(usage.arena_bytes, request.target_bytes);
                block.agent.give_back(moved);
            }
            Direction::In => {
                // Others have not left yet; it is not moved in parts.
                if block.daemon.credit_bytes() > request.target_bytes {
                    return None;
                }
                block.agent.take(&block.daemon, moved).unwrap();
                block
                    .agent
                    .set_arena(usage.arena_bytes, request.target_bytes);
            }
        }
        block.agent.end_swap(SwapReport {
            seq: request.seq,
            outcome: SwapOutcome::Done,
            ns: 1_000_000,
            moved_bytes: moved,
        });
        self.tell();
        self.swap = request.seq;
        Some(request.direction)
    }

    /// Ends the connection but keeps the page, as an agent that lost its daemon.
    pub(crate) fn hang_up(&mut self) {
        self.socket = None;
    }

    /// Whether the daemon has closed the connection.
    pub(crate) fn is_lost(&self) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        let mut byte = [0; 1];
        matches!(
            rustix::net::recv(socket, &mut byte, RecvFlags::DONTWAIT),
            Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET)
        )
    }

    /// Comes back to another daemon with all that it holds.
    pub(crate) fn reconnect(self, runtime_dir: &Path) -> Answer {
        let agent = &self.block().agent;
        let usage = agent.usage();
        let jobs = agent.jobs();
        let mut hello = hello(None);
        hello.registration = self.reply.registration;
        hello.cookie = self.cookie.0;
        hello.devices[0] = DeviceState {
            resident_bytes: usage.resident_bytes,
            swapped_bytes: usage.swapped_bytes,
            arena_bytes: usage.arena_bytes,
            backing_bytes: agent.backing().1,
            chunk_bytes: self.block().daemon.chunk_bytes(),
            requested: jobs.map_or(0, |jobs| jobs.requested),
            granted: self.block().daemon.granted(),
            completed: jobs.map_or(0, |jobs| jobs.completed),
            ..hello.devices[0]
        };
        let back = Self::with(runtime_dir, &hello, None)?;
        let state = hello.devices[0];
        let restored = UsageReport {
            peak_bytes: usage.resident_bytes,
            ..usage
        };
        let agent = &back.block().agent;
        agent.restore(restored, state.backing_bytes, state.completed);
        if let Some(jobs) = jobs {
            agent.request_job(jobs.requested, jobs.kind);
        }
        back.tell();
        Ok(back)
    }
}
