//! What one process sees of the machine through the CUDA driver interface.
//!
//! [`Driver`] is the process's attachment with its tables of handles;
//! [`Context`]s own streams and allocations; `space` is the address space,
//! `work` what streams carry out. The C functions over it are another crate.

mod array;
pub mod attributes;
mod capture;
mod context;
mod current;
mod event;
mod fence;
mod graph;
mod green;
mod heap;
mod host;
mod interprocess;
mod ipc;
mod kernel;
mod managed;
mod module;
mod operations;
mod ordered;
mod peer;
mod physical;
mod place;
mod pointer;
mod pool;
mod process;
mod space;
mod stream;
mod table;
mod vmm;
mod work;

pub use array::{Array, ArrayShape, Mipmapped};
pub use capture::{CaptureInfo, CaptureMode, exchange_capture_mode};
pub use context::Context;
pub use current::{current, pop_current, push_current, set_current, thread_stream};
pub use event::Event;
pub use graph::{Exec, Graph, GraphMemoryAttribute, NewNode, NodeId, UserEnd, UserObject};
pub use green::{Green, Partition};
pub use host::HostKind;
pub use ipc::HANDLE_BYTES as IPC_HANDLE_BYTES;
pub use kernel::Kernel;
pub use module::{Function, Module};
pub use operations::{CopyPlane, CopyShape, CopySide, SetShape};
pub use physical::{Physical, Wishes};
pub use place::Place;
pub use pointer::{PointerInfo, PointerKind};
pub use pool::{Pool, PoolAttribute};
pub use space::Access;
pub use stream::Stream;
pub use work::{Action, Extent, HostCall, Until, ValueOp};

use std::ffi::CStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::config::{Config, ForeignKernels, GpuConfig};
use crate::machine::{Machine, MachineError, default_dir};
use crate::{Error, Result};
use process::Process;
use table::Table;

/// This process's attachment to the machine.
pub struct Driver {
    pub(crate) process: Arc<Process>,
    pub(crate) contexts: Table<Context>,
    /// Primary context by GPU that the process sees, with how often it is retained.
    primaries: Vec<Mutex<Primary>>,
    /// Streams that programs hold handles of.
    pub streams: Table<Stream>,
    /// Events that programs hold handles of.
    pub events: Table<Event>,
    /// Modules that programs hold handles of.
    pub modules: Table<Module>,
    /// Functions that programs hold handles of.
    pub functions: Table<Function>,
    /// Graphs that programs hold handles of.
    pub graphs: Table<Graph>,
    /// Executable graphs that programs hold handles of.
    pub execs: Table<Exec>,
    user_objects: Table<UserObject>,
    greens: Table<Green>,
    partitions: Table<Partition>,
    arrays: Table<Array>,
    mipmapped: Table<Mipmapped>,
}

/// Primary context of one GPU.
#[derive(Default)]
struct Primary {
    context: Option<Arc<Context>>,
    retained: usize,
    flags: u32,
}

static DRIVER: OnceLock<Driver> = OnceLock::new();
static INIT: Mutex<()> = Mutex::new(());
static IN_FORKED_CHILD: AtomicBool = AtomicBool::new(false);

/// cuInit: attaches this process to the machine that the environment names.
///
/// Why it fails is also told on stderr: a code alone could not say it.
pub fn init() -> Result<()> {
    if in_forked_child() {
        return Err(Error::NotInitialized);
    }
    let _one_at_a_time = lock(&INIT);
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let attached = Config::from_env()
        .map_err(MachineError::from)
        .and_then(|config| {
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            Driver::attach_seeing(&default_dir(), config.as_ref(), visible.as_deref())
        });
    match attached {
        Ok(driver) if driver.count() == 0 => Err(Error::NoDevice),
        Ok(driver) => {
            extern "C" fn child() {
                IN_FORKED_CHILD.store(true, Relaxed);
            }
            // SAFETY: the handler is a plain function that only stores to an atomic.
            unsafe { libc::pthread_atfork(None, None, Some(child)) };
            let _ = DRIVER.set(driver);
            Ok(())
        }
        Err(error) => {
            eprintln!("simgpu: {error}");
            Err(match error {
                MachineError::Config(_) => Error::SystemNotReady,
                MachineError::Mismatch { .. } | MachineError::Layout { .. } => {
                    Error::SystemDriverMismatch
                }
                _ => Error::OperatingSystem,
            })
        }
    }
}

/// The process's driver once [`init`] has succeeded, and never in a forked child.
pub fn driver() -> Result<&'static Driver> {
    match DRIVER.get() {
        Some(driver) if !in_forked_child() => Ok(driver),
        _ => Err(Error::NotInitialized),
    }
}

/// The version of CUDA whose driver this is, as the machine's configuration has it, or before [`init`] the environment's.
pub fn cuda_version() -> i32 {
    static CONFIGURED: OnceLock<i32> = OnceLock::new();
    // What is wrong with the configuration is told by init.
    let configured = || {
        Config::from_env()
            .ok()
            .flatten()
            .unwrap_or_default()
            .cuda_version
    };
    match DRIVER.get() {
        Some(driver) => driver.process.machine.config().cuda_version,
        None => *CONFIGURED.get_or_init(configured),
    }
}

/// Whether this process is a fork of one that had the driver initialised.
pub(crate) fn in_forked_child() -> bool {
    IN_FORKED_CHILD.load(Relaxed)
}

/// A panic elsewhere leaves our tables whole: each change is one step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Attaches to the machine in `dir`; see [`Machine::open`].
    pub fn attach(dir: &Path, config: Option<&Config>) -> Result<Self, MachineError> {
        Self::attach_seeing(dir, config, None)
    }

    /// As [`Self::attach`], with the GPUs that `CUDA_VISIBLE_DEVICES` names.
    pub fn attach_seeing(
        dir: &Path,
        config: Option<&Config>,
        visible: Option<&str>,
    ) -> Result<Self, MachineError> {
        let mut machine = Machine::open(dir, config)?;
        let visible = machine.config().visible(visible);
        let count = visible.len();
        machine.put_first(visible);
        let Some(identity) = machine.attach() else {
            return Err(MachineError::Full {
                path: dir.to_owned(),
            });
        };
        Ok(Self {
            process: Arc::new(Process::new(machine, identity)),
            contexts: Table::default(),
            primaries: (0..count).map(|_| Mutex::default()).collect(),
            streams: Table::default(),
            events: Table::default(),
            modules: Table::default(),
            functions: Table::default(),
            graphs: Table::default(),
            execs: Table::default(),
            user_objects: Table::default(),
            greens: Table::default(),
            partitions: Table::default(),
            arrays: Table::default(),
            mipmapped: Table::default(),
        })
    }

    /// How many GPUs the process sees.
    pub fn count(&self) -> usize {
        self.primaries.len()
    }

    /// The configuration of a GPU.
    pub fn gpu(&self, ordinal: i32) -> Result<&GpuConfig> {
        self.index(ordinal).map(|gpu| self.process.machine.gpu(gpu))
    }

    /// The UUID of a GPU or a MIG instance, as cuDeviceGetUuid_v2 has it.
    pub fn uuid(&self, ordinal: i32) -> Result<[u8; 16]> {
        let machine = &self.process.machine;
        let place = machine.place(self.index(ordinal)?);
        Ok(machine.config().uuid(place))
    }

    /// The UUID of the board that a GPU is or is on, as the first cuDeviceGetUuid has it.
    pub fn board_uuid(&self, ordinal: i32) -> Result<[u8; 16]> {
        match self.gpu(ordinal)?.mig_parent {
            Some(parent) => Ok(self.process.machine.config().parent_uuid(parent)),
            None => self.uuid(ordinal),
        }
    }

    /// What numbers the PCI bus of a GPU, see [`attributes::pci_bus_id`].
    pub fn slot(&self, ordinal: i32) -> Result<i32> {
        let machine = &self.process.machine;
        let place = machine.place(self.index(ordinal)?);
        let boards = machine.config().boards();
        let board = boards.iter().find(|board| board.holds(place));
        let first = board.and_then(|board| i32::try_from(board.first()).ok());
        first.ok_or(Error::InvalidDevice)
    }

    fn index(&self, ordinal: i32) -> Result<usize> {
        let index = usize::try_from(ordinal).map_err(|_| Error::InvalidDevice)?;
        let seen = (index < self.count()).then_some(index);
        seen.ok_or(Error::InvalidDevice)
    }

    /// cuDevicePrimaryCtxRetain.
    pub fn retain_primary(&self, ordinal: i32) -> Result<Arc<Context>> {
        self.gpu(ordinal)?;
        let mut primary = lock(&self.primaries[ordinal as usize]);
        let context = if let Some(context) = &primary.context {
            context.clone()
        } else {
            let context = self.create_context(ordinal, primary.flags)?;
            primary.context = Some(context.clone());
            context
        };
        primary.retained += 1;
        Ok(context)
    }

    /// cuDevicePrimaryCtxRelease: the last one destroys the context.
    pub fn release_primary(&self, ordinal: i32) -> Result<()> {
        self.gpu(ordinal)?;
        let mut primary = lock(&self.primaries[ordinal as usize]);
        match primary.retained {
            0 => Err(Error::InvalidContext),
            1 => {
                primary.retained = 0;
                self.destroy_primary(&mut primary);
                Ok(())
            }
            _ => {
                primary.retained -= 1;
                Ok(())
            }
        }
    }

    /// cuDevicePrimaryCtxReset: takes all that is in the context. Who retains it keeps a context that is as good as new, and
    /// has to release it still: "resetting the primary context does not release it" (CUDA driver API).
    pub fn reset_primary(&self, ordinal: i32) -> Result<()> {
        self.gpu(ordinal)?;
        let primary = lock(&self.primaries[ordinal as usize]);
        if let Some(context) = &primary.context {
            self.empty(context);
        }
        Ok(())
    }

    fn destroy_primary(&self, primary: &mut Primary) {
        if let Some(context) = primary.context.take() {
            self.discard(&context);
        }
    }

    /// cuDevicePrimaryCtxSetFlags.
    pub fn set_primary_flags(&self, ordinal: i32, flags: u32) -> Result<()> {
        self.gpu(ordinal)?;
        let mut primary = lock(&self.primaries[ordinal as usize]);
        primary.flags = flags;
        if let Some(context) = &primary.context {
            context.set_flags(flags);
        }
        Ok(())
    }

    /// cuDevicePrimaryCtxGetState: flags, and whether the context exists.
    pub fn primary_state(&self, ordinal: i32) -> Result<(u32, bool)> {
        self.gpu(ordinal)?;
        let primary = lock(&self.primaries[ordinal as usize]);
        Ok((primary.flags, primary.context.is_some()))
    }

    /// cuCtxCreate, without making the context current.
    pub fn create_context(&self, ordinal: i32, flags: u32) -> Result<Arc<Context>> {
        self.gpu(ordinal)?;
        let context = Context::new(&self.process, ordinal as usize, flags)?;
        self.contexts.insert(&context);
        Ok(context)
    }

    /// The context with this handle.
    pub fn context(&self, handle: usize) -> Result<Arc<Context>> {
        self.contexts.get(handle).ok_or(Error::InvalidContext)
    }

    /// cuCtxDestroy; primary contexts are released instead.
    pub fn destroy_context(&self, handle: usize) -> Result<()> {
        let context = self.context(handle)?;
        let is_primary = |primary: &Mutex<Primary>| {
            lock(primary)
                .context
                .as_ref()
                .is_some_and(|primary| Arc::ptr_eq(primary, &context))
        };
        if self.primaries.iter().any(is_primary) {
            return Err(Error::InvalidContext);
        }
        self.discard(&context);
        Ok(())
    }

    fn discard(&self, context: &Arc<Context>) {
        self.contexts.remove(context.handle());
        context.close();
        self.empty(context);
        context.destroy();
    }

    /// Destroys what is in a context.
    fn empty(&self, context: &Arc<Context>) {
        for green in std::mem::take(&mut *lock(&context.greens)) {
            self.greens
                .retain(|other| !Arc::ptr_eq(&other.context, &green));
            self.discard(&green);
        }
        self.streams.retain(|stream| !context.owns(stream));
        context.empty();
        self.take_arrays_of(context);
    }

    /// cuStreamDestroy.
    pub fn destroy_stream(&self, handle: usize) -> Result<()> {
        let stream = self.streams.remove(handle).ok_or(Error::InvalidHandle)?;
        stream.context()?.destroy_stream(&stream);
        Ok(())
    }

    /// cuModuleGetFunction; asking twice gives the same handle.
    pub fn function(&self, module: usize, name: &CStr) -> Result<usize> {
        let image = self.modules.get(module).ok_or(Error::InvalidHandle)?;
        let function = image.function(name, module)?;
        let same = |known: &Function| known.module == module && known.name == function.name;
        let known = self.functions.find(same);
        Ok(known.map_or_else(
            || self.functions.insert(&function),
            |known| table::handle_of(&known),
        ))
    }

    /// A launch of a kernel that is not computed here; done with nothing done where the configuration says so.
    pub fn launch_foreign(&self, name: &CStr) -> Result<()> {
        match self.process.machine.config().foreign_kernels {
            ForeignKernels::Ignore => Ok(()),
            ForeignKernels::Refuse => {
                if std::env::var_os("SIMGPU_LOG").is_some() {
                    let name = name.to_string_lossy();
                    eprintln!(
                        "simgpu: the kernel {name} is not computed here; foreign_kernels = \"ignore\" lets it do nothing"
                    );
                }
                Err(Error::NoBinaryForGpu)
            }
        }
    }

    /// cuModuleUnload.
    pub fn unload(&self, module: usize) -> Result<()> {
        let image = self.modules.remove(module).ok_or(Error::InvalidHandle)?;
        self.take_globals(&image);
        self.functions.retain(|function| function.module != module);
        Ok(())
    }

    /// cuMemGetInfo: free and total bytes of a GPU.
    pub fn memory_info(&self, gpu: usize) -> (u64, u64) {
        self.process.machine.reap();
        self.process.memory_info(gpu)
    }

    /// Frees what cuMemAlloc or its like returned, in whichever context, or
    /// what a pool gave.
    pub fn free(&self, address: u64) -> Result<()> {
        self.process.captures.check_unsafe()?;
        if let Some(pool) = self.process.pools.owner(address) {
            pool.free(address, None)?;
            self.count_call(pool.place.gpu(), |counters| &counters.frees);
            return Ok(());
        }
        if let Some(memory) = self.process.graph_memories.at(address) {
            memory.free(None)?;
            drop(memory);
            self.process.graph_memories.prune(&self.process);
            return Ok(());
        }
        let owner = self.contexts.find(|context| {
            // What a green one allocates is its primary's, and waits for all of that.
            !context.is_green() && context.allocation(address).is_some()
        });
        owner.ok_or(Error::InvalidValue)?.free(address)
    }
}
