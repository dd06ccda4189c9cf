//! An agent that lies: real memory of a real driver, and a page that says what a test wants it to.
//!
//! Commands come on standard input, an answer follows each on standard output, numbered from 1:
//! `take MIB` asks for that much more and takes it if it may (`granted` or `refused`), `steal MIB` takes
//! it and asks nobody (`stolen`), `half` says from then on that it has half of what it has (`lying`),
//! `honest` the truth (`honest`). Its memory never leaves the GPU.

use std::ffi::{CStr, c_int, c_uint, c_ulonglong, c_void};
use std::io::{BufRead, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rtswap_wire::hello::{DeviceState, Hello, Reply, ReplyCode};
use rtswap_wire::page::{ControlPage, DeviceBlock, PAGE_BYTES, UsageReport};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::IntoBytes;

const MIB: u64 = 1 << 20;

/// What the simulated GPU takes for a context.
const CONTEXT: u64 = 2 * MIB;

/// Longer than the daemon lets anybody wait for an answer.
const BOUND: Duration = Duration::from_secs(10);

/// The driver, without anything between.
struct Driver(*mut c_void);

impl Driver {
    fn open() -> Result<Self> {
        // SAFETY: the name is a C string; what the library does when loaded is its own.
        let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
        ensure!(!library.is_null(), "there is no libcuda.so.1");
        Ok(Self(library))
    }

    fn function(&self, name: &CStr) -> Result<*mut c_void> {
        // SAFETY: an open library and a C string.
        let function = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        ensure!(!function.is_null(), "there is no {name:?}");
        Ok(function)
    }

    /// Makes device 0 current, and returns its UUID.
    fn begin(&self) -> Result<[u8; 16]> {
        let (mut context, mut uuid) = (std::ptr::null_mut(), [0; 16]);
        // SAFETY: the types are those of the CUDA driver API, all out-pointers are to locals.
        let results = unsafe {
            type Init = unsafe extern "C" fn(c_uint) -> c_int;
            type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
            type Current = unsafe extern "C" fn(*mut c_void) -> c_int;
            type Uuid = unsafe extern "C" fn(*mut u8, c_int) -> c_int;
            let init: Init = std::mem::transmute(self.function(c"cuInit")?);
            let retain: Retain = std::mem::transmute(self.function(c"cuDevicePrimaryCtxRetain")?);
            let current: Current = std::mem::transmute(self.function(c"cuCtxSetCurrent")?);
            let id: Uuid = std::mem::transmute(self.function(c"cuDeviceGetUuid")?);
            [
                init(0),
                id(uuid.as_mut_ptr(), 0),
                retain(&raw mut context, 0),
                current(context),
            ]
        };
        ensure!(results == [0; 4], "the driver says {results:?}");
        Ok(uuid)
    }

    fn allocate(&self, bytes: u64) -> Result<()> {
        let mut address: c_ulonglong = 0;
        // SAFETY: cuMemAlloc_v2 of the CUDA driver API, its out-pointer is to a local.
        let result = unsafe {
            type Alloc = unsafe extern "C" fn(*mut c_ulonglong, usize) -> c_int;
            let allocate: Alloc = std::mem::transmute(self.function(c"cuMemAlloc_v2")?);
            allocate(&raw mut address, usize::try_from(bytes)?)
        };
        ensure!(result == 0, "cuMemAlloc of {bytes} bytes: {result}");
        Ok(())
    }
}

/// A session with the daemon.
struct Agent {
    _socket: OwnedFd,
    page: *const ControlPage,
    eventfd: OwnedFd,
    uuid: [u8; 16],
    /// What it really has, and whether it says so.
    has: u64,
    lies: bool,
    volume: u32,
}

impl Agent {
    fn connect(uuid: [u8; 16]) -> Result<Self> {
        let folder = std::env::var_os("RTSWAP_RUNTIME_DIR").context("RTSWAP_RUNTIME_DIR")?;
        let task = std::env::var("RTSWAP_TASK").ok();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let mut hello = Hello::new(u32::try_from(tid)?, task.as_deref())?;
        hello.devices[0] = DeviceState {
            uuid,
            memory_bytes: 64 * MIB,
            ..DeviceState::default()
        };
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let address = SocketAddrUnix::new(PathBuf::from(folder).join("agent.sock"))?;
        rustix::net::connect(&socket, &address)?;
        let mut none = SendAncillaryBuffer::default();
        let said = [IoSlice::new(hello.as_bytes())];
        rustix::net::sendmsg(&socket, &said, &mut none, SendFlags::NOSIGNAL)?;
        let mut packet = [0; size_of::<Reply>()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let room = &mut [IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        rustix::net::recvmsg(&socket, room, &mut ancillary, flags)?;
        let reply = Reply::parse(&packet)?;
        ensure!(
            reply.code() == Some(ReplyCode::Welcome),
            "refused: {}",
            reply.text()
        );
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let [page, eventfd] =
            <[OwnedFd; 2]>::try_from(descriptors).map_err(|_| anyhow::anyhow!("no page"))?;
        let protection = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        let shared = rustix::mm::MapFlags::SHARED;
        let anywhere = std::ptr::null_mut();
        // SAFETY: a new mapping of a sealed memfd of that size, never unmapped.
        let page = unsafe { rustix::mm::mmap(anywhere, PAGE_BYTES, protection, shared, &page, 0)? };
        Ok(Self {
            _socket: socket,
            page: page.cast(),
            eventfd,
            uuid,
            has: 0,
            lies: false,
            volume: 0,
        })
    }

    fn block(&self) -> Result<&DeviceBlock> {
        // SAFETY: mapped for ever, made of atomics.
        let page = unsafe { &*self.page };
        let mut blocks = page.devices().iter();
        let ours = blocks.find(|block| block.daemon.uuid() == self.uuid);
        ours.context("the daemon does not manage the GPU")
    }

    fn tell(&self) -> Result<()> {
        rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn says(&self) -> u64 {
        if self.lies { self.has / 2 } else { self.has }
    }

    fn report(&self) -> Result<()> {
        let usage = UsageReport {
            resident_bytes: self.says(),
            ..UsageReport::default()
        };
        let agent = &self.block()?.agent;
        agent.restore(usage, agent.backing().1, 0);
        self.tell()
    }

    /// Whether it may have `bytes` more.
    fn may(&mut self, bytes: u64) -> Result<bool> {
        let wanted = self.says() + bytes;
        if self.block()?.daemon.budget_bytes() >= wanted {
            return Ok(true);
        }
        let want = self.block()?.agent.want(wanted);
        self.tell()?;
        let until = Instant::now() + BOUND;
        while self.block()?.daemon.answered_want() != want {
            ensure!(Instant::now() < until, "nobody answers");
            self.step()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.block()?.daemon.budget_bytes() >= wanted)
    }

    /// Claims to have pinned what it is to have pinned.
    fn step(&mut self) -> Result<()> {
        if let Some((seq, bytes)) = self.block()?.daemon.volume()
            && seq != self.volume
        {
            self.block()?.agent.confirm_volume(seq, bytes);
            self.volume = seq;
            self.tell()?;
        }
        Ok(())
    }
}

/// Doorbells are for a thread that there is none of here.
fn block_doorbells() {
    // SAFETY: plain calls on this thread's own mask, with a local of the right type.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        libc::sigaddset(&raw mut set, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

fn main() -> Result<()> {
    block_doorbells();
    let driver = Driver::open()?;
    let mut agent = Agent::connect(driver.begin()?)?;
    ensure!(agent.may(CONTEXT)?, "no memory for a context");
    agent.has = CONTEXT;
    agent.report()?;
    let (hand, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            // Whoever took them has ended.
            let _ = hand.send(line);
        }
    });
    let mut count = 0;
    println!("{count} ready");
    loop {
        let line = match lines.recv_timeout(Duration::from_millis(5)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                agent.step()?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let (word, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let bytes = number.parse::<u64>()? * MIB;
        let answer = match word {
            "take" if !agent.may(bytes)? => "refused",
            "take" | "steal" => {
                driver.allocate(bytes)?;
                agent.has += bytes;
                if word == "take" { "granted" } else { "stolen" }
            }
            "half" => {
                agent.lies = true;
                "lying"
            }
            "honest" => {
                agent.lies = false;
                "honest"
            }
            other => bail!("{other} is no command"),
        };
        agent.report()?;
        count += 1;
        println!("{count} {answer}");
    }
}
