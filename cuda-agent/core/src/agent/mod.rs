//! The agent of this process: there is one, or none, and then every hook is a null check.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock, RwLock};

use rtswap_wire::MAX_DEVICES;
use rtswap_wire::hello::{Hello, HelloError};

use crate::cuda::{Context, Status};
use crate::device::Device;
use crate::driver::{Driver, Unfit};
use crate::gate;
use crate::ipc::{Offers, Opened};
use crate::log::{debug, say};
use crate::memory::{Memory, Policy};
use crate::record::Recorder;
use crate::session::{
    Bell, ConnectError, Descriptor, Headroom, Mark, NoHeadroom, Session, connect,
};
use crate::swap;
use crate::torture::Torture;
use crate::vmm::Book;
use crate::work::Work;
use crate::writes::Graphs;

pub(crate) mod exit;
mod fork;

static AGENT: AtomicPtr<Agent> = AtomicPtr::new(null_mut());

/// The agent, unless this process has none.
#[inline]
pub fn agent() -> Option<&'static Agent> {
    let agent = AGENT.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `start` after it was made, so valid for ever.
    unsafe { agent.as_ref() }
}

/// Where the daemon is and who we are.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// agent.sock.
    pub socket: PathBuf,
    /// The task's name, if the program was given one.
    pub task: Option<String>,
    /// A test aid, off unless asked for.
    pub torture: Option<Torture>,
    /// How chunks that did not change are known.
    pub clean: Policy,
    /// Where the process is recorded, each in a file of its own with its id behind a dot.
    pub record: Option<PathBuf>,
}

impl Config {
    /// From RTSWAP_RUNTIME_DIR (default /run/rtswap), RTSWAP_TASK, RTSWAP_TORTURE,
    /// RTSWAP_CLEAN and RTSWAP_RECORD.
    pub fn from_env() -> Self {
        let Asked { socket, task } = Asked::from_env();
        Self {
            socket,
            task,
            torture: Torture::from_env(),
            clean: Policy::from_env(),
            record: std::env::var_os("RTSWAP_RECORD")
                .filter(|file| !file.is_empty())
                .map(PathBuf::from),
        }
    }
}

/// What of the environment decides whether the process may have an agent: [`Config`] has the meanings.
struct Asked {
    socket: PathBuf,
    task: Option<String>,
}

impl Asked {
    fn from_env() -> Self {
        let folder = std::env::var_os("RTSWAP_RUNTIME_DIR").filter(|folder| !folder.is_empty());
        let folder = folder.unwrap_or("/run/rtswap".into());
        let task = std::env::var_os("RTSWAP_TASK").map(|task| task.to_string_lossy().into_owned());
        let socket = PathBuf::from(folder).join("agent.sock");
        Self {
            // The program may go to another folder before the daemon is looked for again.
            socket: std::path::absolute(&socket).unwrap_or(socket),
            task: task.filter(|task| !task.is_empty()),
        }
    }
}

/// Why this process has no agent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The task's name.
    #[error("RTSWAP_TASK: {0}")]
    Name(#[from] HelloError),
    /// No descriptors.
    #[error(transparent)]
    Descriptors(#[from] NoHeadroom),
    /// No swap thread.
    #[error("the swap thread does not start: {0}")]
    Thread(#[from] std::io::Error),
    /// The driver fails.
    #[error("the driver fails with CUresult {}", .0.0)]
    Driver(Status),
    /// Nothing can be swapped on its only GPU.
    #[error("the GPU is left alone: {0}")]
    Unfit(#[from] Unfit),
    /// None of the GPUs is managed.
    #[error(
        "rtswapd manages none of the GPUs of this process; `rtswapctl status` says which, and why not others"
    )]
    NoDevice,
}

impl From<Status> for StartError {
    fn from(status: Status) -> Self {
        Self::Driver(status)
    }
}

/// What a managed process has.
pub struct Agent {
    /// The real driver.
    pub driver: &'static dyn Driver,
    /// The program's contexts and streams.
    pub work: Work,
    /// The managed GPUs.
    pub devices: Vec<Device>,
    /// The program's physical memory and mappings.
    pub vmm: Mutex<Book>,
    /// What instantiated graphs write.
    pub graphs: Graphs,
    /// What other processes may open.
    pub offers: Offers,
    /// What was opened of other processes.
    pub opened: Opened,
    /// Wakes the swap thread.
    pub wake: Bell,
    recorder: Option<Arc<Recorder>>,
    session: RwLock<Arc<Session>>,
    pub(crate) config: Config,
    swap_tid: u32,
    swap_pidfd: Option<Descriptor>,
    /// The swap thread's descriptors.
    thread_marks: Vec<Mark>,
    /// All of ours that are open now.
    marks: Mutex<Vec<Mark>>,
}

/// Gates given out so far: each device of each agent has a bit of its own.
static NEXT_BIT: AtomicU32 = AtomicU32::new(0);

impl Agent {
    /// Says Hello and starts the swap thread. The agent lives as long as the process.
    pub fn start(driver: &'static dyn Driver, config: Config) -> Result<&'static Self, StartError> {
        if !config.socket.exists() {
            return Err(ConnectError::NoDaemon(config.socket.display().to_string()).into());
        }
        let _headroom = Headroom::make()?;
        gate::init();
        let count = driver.device_count()?;
        let mut seen = Vec::new();
        for ordinal in 0..count {
            match driver.unfit(ordinal)? {
                None => seen.push((ordinal, driver.device_uuid(ordinal)?)),
                Some(why) if count == 1 => return Err(why.into()),
                Some(why) => say(format_args!("GPU {ordinal} is left alone: {why}")),
            }
        }

        let mut started = swap::spawn()?;
        let pidfd = started.pidfd.take().map(Descriptor::new).transpose();
        let pidfd = pidfd.map_err(std::io::Error::from)?;
        let mut hello = Hello::new(started.tid, config.task.as_deref())?;
        for (state, (ordinal, uuid)) in hello.devices.iter_mut().zip(&seen) {
            state.uuid = *uuid;
            state.memory_bytes = driver.device_memory(*ordinal)?;
        }
        // Before the Hello, after which nothing may be lacking.
        let wake = rustix::event::eventfd(
            0,
            rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK,
        )
        .and_then(Bell::new)
        .map_err(std::io::Error::from)?;
        let session = Arc::new(connect(
            &config.socket,
            &hello,
            pidfd.as_ref().and_then(Descriptor::get),
        )?);
        let recorder = config.record.as_deref().and_then(Recorder::open);
        let mut devices = Vec::new();
        for (ordinal, uuid) in seen.into_iter().take(MAX_DEVICES) {
            let Some(view) = session.view(uuid) else {
                continue;
            };
            let mut memory = Memory::new(driver, ordinal, view.clone())?;
            memory.set_clean(config.clean);
            let bit = 1 << (NEXT_BIT.fetch_add(1, Ordering::Relaxed) % gate::GATES);
            let device = Device::new((ordinal, uuid), bit, view, memory, recorder.clone());
            if let Some(recorder) = &recorder {
                recorder.note_gpu(&device);
            }
            if count == 1 {
                device.arm();
            }
            devices.push(device);
        }
        if devices.is_empty() {
            return Err(StartError::NoDevice);
        }
        let agent: &'static Self = Box::leak(Box::new(Self {
            driver,
            work: Work::new(driver),
            devices,
            vmm: Mutex::default(),
            graphs: Graphs::default(),
            offers: Offers::default(),
            opened: Opened::default(),
            wake,
            recorder,
            session: RwLock::new(session),
            config,
            swap_tid: started.tid,
            swap_pidfd: pidfd,
            thread_marks: std::mem::take(&mut started.marks),
            marks: Mutex::default(),
        }));
        agent.mark_descriptors();
        agent.bound_flight();
        if agent.config.torture.is_some() {
            gate::close(gate::ASK_ALWAYS);
        }
        started.attach(agent);
        Ok(agent)
    }

    /// Says Hello again, and moves everything to the new session's page.
    pub fn reconnect(&self) -> Result<(), ConnectError> {
        // Without it the descriptors are the next that are free.
        let _headroom = Headroom::make();
        let old = self.session();
        let mut hello = Hello::new(self.swap_tid, self.config.task.as_deref())?;
        hello.registration = old.registration;
        hello.cookie = old.cookie.0;
        for (state, device) in hello.devices.iter_mut().zip(&self.devices) {
            *state = device.state();
        }
        let pidfd = self.swap_pidfd.as_ref().and_then(Descriptor::get);
        let session = Arc::new(connect(&self.config.socket, &hello, pidfd)?);
        let views: Option<Vec<_>> = self
            .devices
            .iter()
            .map(|device| session.view(device.uuid))
            .collect();
        let views = views.ok_or(HelloError::Malformed)?;
        *self
            .session
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = session;
        for (device, view) in self.devices.iter().zip(views) {
            device.set_view(view);
        }
        self.bound_flight();
        self.mark_descriptors();
        Ok(())
    }

    fn bound_flight(&self) {
        let session = self.session();
        self.work
            .allow_in_flight(session.max_in_flight, session.drain_bound);
    }

    /// Notes which descriptors are ours.
    pub(crate) fn mark_descriptors(&self) {
        let pidfd = self.swap_pidfd.as_ref().map(Descriptor::mark);
        *gate::lock(&self.marks) = pidfd
            .into_iter()
            .chain([self.wake.mark()])
            .chain(self.session().marks())
            .chain(self.thread_marks.iter().copied())
            .chain(self.offers.mark())
            .chain(self.recorder.as_deref().map(Recorder::mark))
            .collect();
    }

    /// The session in use.
    pub fn session(&self) -> Arc<Session> {
        let session = self.session.read();
        Arc::clone(&session.unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// The managed GPU with this number.
    pub fn device(&self, ordinal: i32) -> Option<&Device> {
        self.devices.iter().find(|device| device.ordinal == ordinal)
    }

    /// The managed GPU of the context current in this thread, and the context.
    pub fn current(&self) -> Option<(&Device, Context)> {
        let context = self.driver.current_context().ok()??;
        let device = self.device(self.driver.current_device().ok()?)?;
        Some((device, context))
    }
}

/// The configuration of a process that may have an agent: one that has not gained privileges, where
/// there is a daemon or should be one.
fn wanted() -> Option<Config> {
    if has_gained_privileges() {
        return None;
    }
    Some(Config::from_env()).filter(|config| config.task.is_some() || config.socket.exists())
}

fn has_gained_privileges() -> bool {
    // SAFETY: reads a word that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether this process may come to have an agent, by the environment that it had at the first call:
/// later ones must not read it, since a thread of the program may be changing it, and `setenv` frees
/// what others still read.
pub fn may_start() -> bool {
    static ASKED: OnceLock<Option<Asked>> = OnceLock::new();
    if agent().is_some() {
        return true;
    }
    if ASKED.get().is_none() {
        // Not read by `get_or_init`: reading allocates, and the program's allocator may look a symbol
        // up at its first call, which comes back here.
        let asked = (!has_gained_privileges()).then(Asked::from_env);
        // Another thread may have been first.
        let _ = ASKED.set(asked);
    }
    let asked = ASKED.get().and_then(Option::as_ref);
    asked.is_some_and(|asked| asked.task.is_some() || asked.socket.exists())
}

/// Starts the agent of this process if there is a daemon; says why where a user must know. Once;
/// calls after the first find what came of it.
pub fn start_once(driver: impl FnOnce() -> Option<&'static dyn Driver>) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Some(config) = wanted() else {
            return;
        };
        let named = config.task.is_some();
        let Some(driver) = driver() else {
            debug(format_args!(
                "the driver lacks a function that the agent needs"
            ));
            return;
        };
        // A panic must not become the answer to cuInit.
        let Ok(started) = catch_unwind(AssertUnwindSafe(|| Agent::start(driver, config))) else {
            return;
        };
        match started {
            Ok(agent) => {
                // SAFETY: registers a function that lives as long as this library, which is never
                // unloaded: it is preloaded.
                unsafe { libc::pthread_atfork(None, None, Some(fork::leave_child)) };
                // SAFETY: as above. After the driver's own, so that ours runs before them.
                unsafe { libc::atexit(leave_at_exit) };
                AGENT.store(std::ptr::from_ref(agent).cast_mut(), Ordering::Release);
            }
            Err(
                error @ (StartError::Connect(ConnectError::NoDaemon(_) | ConnectError::Denied(..))
                | StartError::NoDevice),
            ) if !named => {
                debug(format_args!("{error}"));
            }
            Err(error) => say(format_args!(
                "{error}; this process runs without rtswap, with no deadline guaranteed"
            )),
        }
    });
}

/// Before the driver is torn down. Nothing in the child of a fork, which has no agent.
extern "C" fn leave_at_exit() {
    if let Some(agent) = agent() {
        agent.leave_at_exit();
    }
}

#[cfg(test)]
pub(crate) mod tests;
