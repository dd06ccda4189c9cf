//! The daemon's end for tests: a listening socket, real pages, real signals.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rtswap_wire::doorbell::Cookie;
use rtswap_wire::hello::{Hello, MAGIC, Reply, ReplyCode};
use rtswap_wire::page::{DeviceBlock, Direction, PAGE_BYTES, SwapOutcome, SwapRequest};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{IoSlice, IoSliceMut};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

use super::Page;

/// No test waits longer.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A socket in a folder of its own.
pub(crate) struct Listener {
    socket: Option<OwnedFd>,
    pub(crate) path: PathBuf,
}

/// What the next session's agent is told.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) uuid: [u8; 16],
    pub(crate) chunk: u64,
    pub(crate) memory: u64,
    pub(crate) budget: u64,
    pub(crate) orphan_ms: u32,
    pub(crate) idle_us: u32,
    pub(crate) drain_ms: u32,
    pub(crate) in_flight: u32,
}

/// The daemon's end of one session.
pub(crate) struct Daemon {
    socket: OwnedFd,
    page: Page,
    bell: OwnedFd,
    pub(crate) hello: Hello,
    pidfd: Option<OwnedFd>,
    pub(crate) cookie: Cookie,
    seq: u32,
}

impl Listener {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("rtswap-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut listener = Self {
            socket: None,
            path: folder.join("agent.sock"),
        };
        listener.open();
        listener
    }

    pub(crate) fn open(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        let kind = (
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
        );
        let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, None).unwrap();
        rustix::net::bind(&socket, &SocketAddrUnix::new(&self.path).unwrap()).unwrap();
        rustix::net::listen(&socket, 4).unwrap();
        self.socket = Some(socket);
    }

    pub(crate) fn close(&mut self) {
        self.socket = None;
        let _ = std::fs::remove_file(&self.path);
    }

    fn receive(&self) -> (OwnedFd, Hello, Option<OwnedFd>) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let listening = self.socket.as_ref().expect("open");
        let bound = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let mut waited = [PollFd::new(listening, PollFlags::IN)];
        assert_eq!(poll(&mut waited, Some(&bound)), Ok(1), "no agent came");
        let socket = rustix::net::accept_with(listening, SocketFlags::CLOEXEC).unwrap();
        let mut packet = [0; 2048];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let iov = &mut [IoSliceMut::new(&mut packet)];
        let got =
            rustix::net::recvmsg(&socket, iov, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
        let pidfd = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        (socket, Hello::parse(&packet[..got.bytes]).unwrap(), pidfd)
    }

    /// Says no to the next agent.
    pub(crate) fn refuse(&self, text: &str) {
        let (socket, _, _) = self.receive();
        let reply = Reply::refusal(ReplyCode::Claim, text);
        rustix::net::send(&socket, reply.as_bytes(), SendFlags::NOSIGNAL).unwrap();
    }

    /// Welcomes the next agent.
    pub(crate) fn welcome(&self, terms: Terms) -> Daemon {
        self.welcome_after(terms, || ())
    }

    /// Welcomes the next agent; `meanwhile` runs between its Hello and the answer.
    pub(crate) fn welcome_after(&self, terms: Terms, meanwhile: impl FnOnce()) -> Daemon {
        let (socket, hello, pidfd) = self.receive();
        meanwhile();
        let memfd =
            rustix::fs::memfd_create("page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
                .unwrap();
        rustix::fs::ftruncate(&memfd, PAGE_BYTES as u64).unwrap();
        rustix::fs::fcntl_add_seals(
            &memfd,
            SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL,
        )
        .unwrap();
        let page = Page::map_unchecked(memfd.as_fd()).unwrap();
        page.control().init(1);
        let block = &page.control().devices()[0];
        block.daemon.describe(terms.uuid, terms.chunk, terms.memory);
        block.daemon.set_budget(&block.agent, terms.budget);
        let cookie = Cookie(0x5eed_0000_0000_0001 | u64::from(hello.tid) << 8);
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let reply = Reply {
            magic: MAGIC,
            version: rtswap_wire::VERSION,
            raw_code: ReplyCode::Welcome as u16,
            registration: 7,
            cookie: cookie.0,
            orphan_timeout_ms: terms.orphan_ms,
            idle_gap_us: terms.idle_us,
            drain_bound_ms: terms.drain_ms,
            text_len: 0,
            text: [0; 212],
            max_in_flight: terms.in_flight,
        };
        let fds = [memfd.as_fd(), event.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        let iov = [IoSlice::new(reply.as_bytes())];
        rustix::net::sendmsg(&socket, &iov, &mut ancillary, SendFlags::NOSIGNAL).unwrap();
        Daemon {
            socket,
            page,
            bell: event,
            hello,
            pidfd,
            cookie,
            seq: 0,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Daemon {
    pub(crate) fn block(&self) -> &DeviceBlock {
        &self.page.control().devices()[0]
    }

    /// Waits for the agent to make something true.
    #[track_caller]
    pub(crate) fn until<T>(
        &self,
        what: &str,
        mut look: impl FnMut(&DeviceBlock) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = look(self.block()) {
                return found;
            }
            assert!(start.elapsed() < BOUND, "waited in vain for {what}");
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Bumps the word, wakes it, and queues the signal to the swap thread alone.
    pub(crate) fn ring(&self, direction: Direction) {
        let daemon = &self.block().daemon;
        daemon.ring();
        wake(daemon.bell_word());
        let number = match direction {
            Direction::Out => libc::SIGUSR1,
            Direction::In => libc::SIGUSR2,
        };
        self.signal(number, self.cookie.0).unwrap();
    }

    pub(crate) fn signal(&self, number: i32, value: u64) -> io::Result<()> {
        let mut info = [0u8; 128];
        info[..4].copy_from_slice(&number.to_ne_bytes());
        info[8..12].copy_from_slice(&(-1i32).to_ne_bytes());
        info[24..32].copy_from_slice(&value.to_ne_bytes());
        let pidfd = self
            .pidfd
            .as_ref()
            .expect("a kernel with PIDFD_THREAD")
            .as_raw_fd();
        // SAFETY: the kernel reads 128 bytes; flag 1 is PIDFD_SIGNAL_THREAD.
        let rc =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, number, info.as_ptr(), 1) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Grants the job once it is asked for.
    pub(crate) fn grant_next(&self) -> u32 {
        let job = self.until("a job", |block| {
            block
                .agent
                .jobs()
                .filter(|jobs| jobs.requested != jobs.completed)
        });
        self.block().daemon.grant(job.requested);
        wake(self.block().daemon.grant_word());
        job.requested
    }

    pub(crate) fn completed(&self, job: u32) {
        self.until("a completion", |block| {
            block.agent.jobs().filter(|jobs| jobs.completed == job)
        });
    }

    /// Answers the next question for budget with `bytes`.
    pub(crate) fn answer_next(&self, bytes: impl Fn(u64) -> u64) -> u64 {
        let daemon = &self.block().daemon;
        let (seq, wanted) = self.until("a question", |block| {
            block
                .agent
                .wanted()
                .filter(|(seq, _)| *seq != daemon.answered_want())
        });
        let given = bytes(wanted);
        daemon.set_budget(&self.block().agent, given);
        daemon.answer_want(seq, given >= wanted);
        wake(daemon.budget_word());
        wanted
    }

    pub(crate) fn set_volume(&self, bytes: u64) -> u64 {
        let daemon = &self.block().daemon;
        daemon.set_volume(bytes);
        let (seq, _) = daemon.volume().unwrap();
        self.ring(Direction::Out);
        self.until("a backing store", |block| {
            let (answered, bytes) = block.agent.backing();
            (answered == seq).then_some(bytes)
        })
    }

    pub(crate) fn request(&mut self, direction: Direction, target: u64, credit: u64) -> u32 {
        self.seq += 1;
        let request = SwapRequest {
            seq: self.seq,
            direction,
            target_bytes: target,
        };
        self.block().daemon.request_swap(request, credit);
        self.ring(direction);
        self.seq
    }

    pub(crate) fn outcome(&self, seq: u32) -> SwapOutcome {
        let report = self.until("a swap's end", |block| {
            block.agent.swap_report().filter(|report| report.seq == seq)
        });
        report.outcome
    }

    pub(crate) fn swap(&mut self, direction: Direction, target: u64) -> SwapOutcome {
        let seq = self.request(direction, target, target);
        self.outcome(seq)
    }

    /// Whether it has rung so far.
    pub(crate) fn has_rung(&self) -> bool {
        self.rings_within(Duration::ZERO)
    }

    /// Whether it rings, in the end: what is said is written before the bell is rung.
    pub(crate) fn rings(&self) -> bool {
        self.rings_within(BOUND)
    }

    fn rings_within(&self, bound: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let bound = Timespec::try_from(bound).unwrap();
        let mut waited = [PollFd::new(&self.bell, PollFlags::IN)];
        poll(&mut waited, Some(&bound)) == Ok(1)
    }

    /// Ends the session as a killed daemon does.
    pub(crate) fn die(&self) {
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).unwrap();
    }
}

fn wake(word: &std::sync::atomic::AtomicU32) {
    use rustix::thread::futex::{Flags, wake};
    let _ = wake(word, Flags::empty(), i32::MAX as u32);
}
