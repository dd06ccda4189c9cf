//! The driver as the agent uses it for its own work: never through the hooks.
//! `libcuda` is the real one; the tests bring a fake that knows which bytes are mapped.

mod libcuda;

#[cfg(test)]
pub(crate) mod fake;

pub use libcuda::Libcuda;

use core::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::cuda::{
    Access, AllocationProp, CaptureMode, Context, Event, Function, Graph, Handle, MemoryPool,
    Status, Stream,
};
use crate::writes::Writes;

/// What a driver call of the agent gives.
pub type Result<T> = core::result::Result<T, Status>;

/// A node of a graph, as far as it writes memory other than by kernels.
#[derive(Clone, Copy, Debug)]
pub enum Node {
    /// What it does itself.
    Writes(Writes),
    /// All nodes of another graph.
    Child(Graph),
    /// Who knows.
    Other,
}

/// Why a GPU is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The CUDA driver API's CU_DEVICE_ATTRIBUTE_INTEGRATED.
    #[error("it shares the host's memory, so that swapping to the host would free nothing")]
    Integrated,
    /// Not CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: some vGPU profiles and old GPUs.
    #[error(
        "its driver has no virtual memory management, without which memory cannot leave under a constant address"
    )]
    NoVirtualMemory,
}

/// The calls. Sizes in bytes, addresses as the driver gave them; errors are the driver's own.
pub trait Driver: Send + Sync {
    /// GPUs in this process's view.
    fn device_count(&self) -> Result<i32>;
    /// The GPU's UUID.
    fn device_uuid(&self, device: i32) -> Result<[u8; 16]>;
    /// Why nothing can be swapped on the GPU, if so.
    fn unfit(&self, device: i32) -> Result<Option<Unfit>>;
    /// All of the GPU's memory.
    fn device_memory(&self, device: i32) -> Result<u64>;
    /// The unit of physical allocations on the GPU.
    fn granularity(&self, device: i32) -> Result<u64>;

    /// The context current in this thread, if any.
    fn current_context(&self) -> Result<Option<Context>>;
    /// Makes `context` current in this thread.
    fn set_context(&self, context: Option<Context>) -> Result<()>;
    /// The GPU of the current context.
    fn current_device(&self) -> Result<i32>;
    /// Waits for all work of the current context.
    fn synchronize(&self) -> Result<()>;
    /// Sets which calls this thread may make while streams capture; the mode before.
    fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureMode>;
    /// Lets this thread make calls that a capture elsewhere would forbid. Once a thread.
    fn relax_capture_mode(&self) -> Result<()> {
        self.exchange_capture_mode(CaptureMode::RELAXED).map(drop)
    }

    /// Reserves addresses.
    fn reserve(&self, bytes: u64, align: u64) -> Result<u64>;
    /// Allocates physical memory.
    fn create(&self, device: i32, bytes: u64) -> Result<Handle>;
    /// Allocates physical memory as a program asked for it.
    fn create_as(&self, prop: &AllocationProp, bytes: u64) -> Result<Handle>;
    /// Maps physical memory, for nobody's use yet.
    fn map(&self, at: u64, bytes: u64, handle: Handle) -> Result<()>;
    /// Says who may do what with mapped addresses.
    fn set_access(&self, at: u64, bytes: u64, access: &[Access]) -> Result<()>;
    /// Takes all mappings of the addresses away.
    fn unmap(&self, at: u64, bytes: u64) -> Result<()>;
    /// Frees physical memory once it is unmapped.
    fn release(&self, handle: Handle) -> Result<()>;

    /// Whether physical memory that is created on the GPU can be exported.
    fn can_export(&self, device: i32) -> bool;
    /// A descriptor of physical memory, with which another process imports it.
    fn export(&self, handle: Handle) -> Result<OwnedFd>;
    /// Another process's physical memory.
    fn import(&self, descriptor: BorrowedFd<'_>) -> Result<Handle>;
    /// Gives reserved addresses back; nothing is mapped there.
    fn unreserve(&self, at: u64, bytes: u64) -> Result<()>;

    /// Pinned host memory that every context may copy from and to.
    fn pin(&self, bytes: u64) -> Result<usize>;
    /// Frees it.
    fn unpin(&self, host: usize) -> Result<()>;
    /// Starts a copy to the GPU's memory.
    ///
    /// # Safety
    /// `host` is valid for `bytes` until the copy is over.
    unsafe fn copy_in(&self, to: u64, host: usize, bytes: u64, stream: Stream) -> Result<()>;
    /// Starts a copy from the GPU's memory.
    ///
    /// # Safety
    /// `host` is valid for `bytes`, and nobody else's, until the copy is over.
    unsafe fn copy_out(&self, host: usize, from: u64, bytes: u64, stream: Stream) -> Result<()>;
    /// Starts a copy within the GPU's memory.
    fn copy_within(&self, to: u64, from: u64, bytes: u64, stream: Stream) -> Result<()>;

    /// A kernel of an image of our own, in the current context.
    fn load(&self, image: &CStr, name: &CStr) -> Result<Function>;
    /// Starts a kernel whose parameters are all of 64 bits, with so many blocks and threads of each.
    ///
    /// # Safety
    /// `arguments` are as many as the kernel has parameters, and valid for it.
    unsafe fn launch(
        &self,
        function: Function,
        shape: (u32, u32),
        arguments: &[u64],
        stream: Stream,
    ) -> Result<()>;

    /// A stream in the current context that never waits for the NULL stream.
    fn create_stream(&self) -> Result<Stream>;
    /// Frees a stream.
    fn destroy_stream(&self, stream: Stream) -> Result<()>;
    /// The context that a stream belongs to: the current one for the NULL and per-thread streams.
    fn stream_context(&self, stream: Stream) -> Result<Context>;
    /// The pool that cuMemAllocAsync takes from on a GPU now.
    fn current_pool(&self, device: i32) -> Result<MemoryPool>;
    /// The pool that a GPU has from the beginning.
    fn default_pool(&self, device: i32) -> Result<MemoryPool>;
    /// Bytes reserved for memory nodes of graphs.
    fn graph_memory(&self, device: i32) -> Result<u64>;
    /// What a graph consists of.
    fn graph_nodes(&self, graph: Graph) -> Result<Vec<Node>>;
    /// Whether all work of the stream is done. A broken context has none left.
    fn stream_done(&self, stream: Stream) -> bool;
    /// Whether work submitted to the stream is being captured into a graph.
    fn stream_captures(&self, stream: Stream) -> bool;
    /// An event without timing in the current context.
    fn create_event(&self) -> Result<Event>;
    /// Marks the work submitted to the stream so far.
    fn record(&self, event: Event, stream: Stream) -> Result<()>;
    /// Whether the marked work is done. A broken context has none left.
    fn event_done(&self, event: Event) -> bool;
    /// Waits for the marked work.
    fn wait_event(&self, event: Event) -> Result<()>;
    /// Frees an event.
    fn destroy_event(&self, event: Event) -> Result<()>;
}
