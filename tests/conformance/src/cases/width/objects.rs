//! A little of everything that can be asked about.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr;

use anyhow::{Result, ensure};
use cudarc::driver::sys::{CUmemAllocationHandleType, CUmemAllocationProp, CUmemLocation};

use super::ask::call;
use crate::cuda::Status;
use crate::expect;
use crate::gpu::{Gpu, Range, location, properties};

/// A kernel, of which the simulated GPU knows the parameters by its name, and a variable.
const IMAGE: &CStr = c".version 7.0
.target sm_50
.address_size 64
.visible .global .align 4 .u32 variable;
.visible .entry fill(.param .u64 at, .param .u64 words, .param .u32 seed)
{
    ret;
}
";

/// Bytes of what is allocated.
const BYTES: usize = 4096;
/// CU_MEMHOSTALLOC_DEVICEMAP.
const MAPPED: u32 = 2;
/// CU_EVENT_DISABLE_TIMING and CU_EVENT_INTERPROCESS.
const INTERPROCESS: usize = 2 | 4;
/// CU_STREAM_CAPTURE_MODE_RELAXED.
const RELAXED: usize = 2;
/// CU_MEMORYTYPE_DEVICE.
const ON_DEVICE: u64 = 2;

/// What a query asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Device,
    /// The text of its place on the bus.
    BusId,
    Context,
    Stream,
    /// A stream that captures.
    Capturing,
    Event,
    /// An event after it.
    Later,
    Interprocess,
    Green,
    /// A stream of the green context.
    GreenStream,
    Plain,
    /// Memory below 4 GiB.
    Low,
    Host,
    /// A mapped range of addresses.
    Mapped,
    /// What is mapped there.
    Handle,
    Pool,
    /// A CUmemAllocationProp.
    Properties,
    /// A CUmemLocation.
    Location,
    Array,
    Array3D,
    Mipmapped,
    Module,
    Function,
    /// A module with a variable.
    WithVariable,
    Library,
    Kernel,
    /// A place with a CUstreamCaptureMode.
    Mode,
    Graph,
    /// Nodes of the graph.
    Set,
    Copy,
    Child,
    Alloc,
    Free,
    Exec,
}

/// All of them that this driver has, by what it calls them.
pub(super) struct Objects {
    words: BTreeMap<Object, usize>,
    /// Structures that live as long as their addresses are used.
    kept: Vec<Box<[u64]>>,
    properties: Box<CUmemAllocationProp>,
    location: Box<CUmemLocation>,
    range: Range,
    child: Option<usize>,
}

impl Objects {
    pub(super) fn new(gpu: &Gpu) -> Result<Self> {
        let mut objects = Self {
            words: BTreeMap::new(),
            kept: Vec::new(),
            properties: Box::new(properties(gpu.device)),
            location: Box::new(location(gpu.device)),
            range: gpu.reserve(1)?,
            child: None,
        };
        objects.make_memory(gpu)?;
        objects.make_streams(gpu)?;
        objects.make_arrays();
        objects.make_functions(gpu)?;
        objects.make_graph();
        Ok(objects)
    }

    pub(super) fn get(&self, object: Object) -> Option<usize> {
        self.words.get(&object).copied()
    }

    fn put(&mut self, object: Object, word: usize) {
        self.words.insert(object, word);
    }

    /// Keeps a structure of words, and gives its address.
    fn keep(&mut self, words: impl Into<Box<[u64]>>) -> usize {
        let mut words = words.into();
        let address = words.as_mut_ptr().expose_provenance();
        self.kept.push(words);
        address
    }

    /// Makes an object by a function whose first argument is where its handle goes; none where this driver cannot.
    fn make(&mut self, object: Object, name: &str, args: &[usize]) -> Option<usize> {
        let made = made(name, args)?;
        self.put(object, made);
        Some(made)
    }

    fn make_memory(&mut self, gpu: &Gpu) -> Result<()> {
        let (mut host, mut pool) = (ptr::null_mut(), ptr::null_mut());
        let handle = gpu.create_for(1, CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE)?;
        gpu.map(self.range.at, 1, handle)?;
        expect!(cuMemHostAlloc(&raw mut host, BYTES, MAPPED))?;
        expect!(cuDeviceGetDefaultMemPool(&raw mut pool, gpu.device))?;
        self.put(Object::Device, gpu.device as usize);
        self.put(Object::Context, gpu.context as usize);
        self.put(Object::Handle, handle as usize);
        self.put(Object::Mapped, self.range.at as usize);
        self.put(Object::Host, host as usize);
        self.put(Object::Pool, pool as usize);
        self.put(Object::Plain, gpu.alloc(BYTES)? as usize);
        // The first form's result has 32 bits, in a word of zeros.
        self.make(Object::Low, "cuMemAlloc", &[BYTES]);
        let of = (&raw mut *self.properties).expose_provenance();
        self.put(Object::Properties, of);
        let place = (&raw mut *self.location).expose_provenance();
        self.put(Object::Location, place);
        let id = self.keep([0; 4]);
        let status = call("cuDeviceGetPCIBusId", &[id, 32, gpu.device as usize]);
        ensure!(status == Some(Status::SUCCESS), "no bus id: {status:?}");
        self.put(Object::BusId, id);
        Ok(())
    }

    fn make_streams(&mut self, gpu: &Gpu) -> Result<()> {
        let (stream, capturing) = (gpu.stream(false)?, gpu.stream(false)?);
        let (event, later) = (gpu.event()?, gpu.event()?);
        expect!(cuEventRecord(event, stream))?;
        expect!(cuEventRecord(later, stream))?;
        expect!(cuStreamSynchronize(stream))?;
        self.put(Object::Stream, stream);
        self.put(Object::Capturing, capturing);
        self.put(Object::Event, event);
        self.put(Object::Later, later);
        self.make(Object::Interprocess, "cuEventCreate", &[INTERPROCESS]);
        let begun = call("cuStreamBeginCapture_v2", &[capturing, RELAXED]);
        ensure!(begun == Some(Status::SUCCESS), "no capture: {begun:?}");
        // All multiprocessors, of which a description makes the context.
        let mut whole = [0_u64; 18];
        let at = whole.as_mut_ptr().expose_provenance();
        let device = gpu.device as usize;
        if call("cuDeviceGetDevResource", &[device, at, 1]) == Some(Status::SUCCESS)
            && let Some(description) = made("cuDevResourceGenerateDesc", &[at, 1])
            // CU_GREEN_CTX_DEFAULT_STREAM.
            && let Some(green) = self.make(Object::Green, "cuGreenCtxCreate", &[description, device, 1])
        {
            // A stream that no default stream waits for.
            self.make(
                Object::GreenStream,
                "cuGreenCtxStreamCreate",
                &[green, 1, 0],
            );
        }
        Ok(())
    }

    fn make_arrays(&mut self) {
        // Rows of 16 numbers of 32 bits (CU_AD_FORMAT_UNSIGNED_INT32), one channel.
        let format = 3 | 1 << 32;
        let flat = self.keep([16, 4, format]);
        let deep = self.keep([16, 4, 2, format, 0]);
        let levels = self.keep([16, 4, 0, format, 0]);
        self.make(Object::Array, "cuArrayCreate_v2", &[flat]);
        self.make(Object::Array3D, "cuArray3DCreate_v2", &[deep]);
        self.make(Object::Mipmapped, "cuMipmappedArrayCreate", &[levels, 2]);
    }

    fn make_functions(&mut self, gpu: &Gpu) -> Result<()> {
        let image = IMAGE.as_ptr().expose_provenance();
        self.put(Object::Function, gpu.kernel("fill")? as usize);
        self.put(Object::Module, gpu.module() as usize);
        self.make(Object::WithVariable, "cuModuleLoadData", &[image]);
        if let Some(library) = self.make(
            Object::Library,
            "cuLibraryLoadData",
            &[image, 0, 0, 0, 0, 0, 0],
        ) {
            let name = c"fill".as_ptr().expose_provenance();
            self.make(Object::Kernel, "cuLibraryGetKernel", &[library, name]);
        }
        // CU_STREAM_CAPTURE_MODE_RELAXED in the place and in the thread: exchanged, it is what it was.
        let mode = self.keep([RELAXED as u64]);
        call("cuThreadExchangeStreamCaptureMode", &[mode]);
        self.kept.last_mut().expect("kept")[0] = RELAXED as u64;
        self.put(Object::Mode, mode);
        Ok(())
    }

    /// A memset, a copy after it, a child, and an allocation that is freed again.
    fn make_graph(&mut self) {
        let (Some(graph), Some(child)) = (made("cuGraphCreate", &[0]), made("cuGraphCreate", &[0]))
        else {
            return;
        };
        self.child = Some(child);
        self.put(Object::Graph, graph);
        let at = self.words[&Object::Plain] as u64;
        let context = self.words[&Object::Context];
        // CUDA_MEMSET_NODE_PARAMS: 64 words of 32 bits.
        let set = self.keep([at, 0, 7 | 4 << 32, 64, 1]);
        let set = self.make(
            Object::Set,
            "cuGraphAddMemsetNode",
            &[graph, 0, 0, set, context],
        );
        // CUDA_MEMCPY3D: a row of 256 bytes to where 2048 are behind it.
        let mut copy = [0_u64; 25];
        for (start, from) in [(0, at), (11, at + 2048)] {
            copy[start + 4] = ON_DEVICE;
            copy[start + 6] = from;
            copy[start + 9] = 256;
            copy[start + 10] = 1;
        }
        copy[22..].copy_from_slice(&[256, 1, 1]);
        let copy = self.keep(copy);
        let after = self.keep([set.unwrap_or(0) as u64]);
        self.make(
            Object::Copy,
            "cuGraphAddMemcpyNode",
            &[graph, after, 1, copy, context],
        );
        let inner = self.make(
            Object::Child,
            "cuGraphAddChildGraphNode",
            &[graph, 0, 0, child],
        );
        // CUDA_MEM_ALLOC_NODE_PARAMS: pinned memory on the device, of so many bytes; the address comes last.
        let mut alloc = [0_u64; 15];
        alloc[0] = 1;
        alloc[1] = 1 | (self.words[&Object::Device] as u64) << 32;
        alloc[13] = BYTES as u64;
        let params = self.keep(alloc);
        let after = self.keep([inner.unwrap_or(0) as u64]);
        if let Some(node) = self.make(
            Object::Alloc,
            "cuGraphAddMemAllocNode",
            &[graph, after, 1, params],
        ) {
            let address = self.kept[self.kept.len() - 2][14] as usize;
            let after = self.keep([node as u64]);
            self.make(
                Object::Free,
                "cuGraphAddMemFreeNode",
                &[graph, after, 1, address],
            );
        }
        self.make(Object::Exec, "cuGraphInstantiateWithFlags", &[graph, 0]);
    }

    /// Gives all back.
    pub(super) fn end(self, gpu: &Gpu) -> Result<()> {
        let endings = [
            (Object::Exec, "cuGraphExecDestroy"),
            (Object::Graph, "cuGraphDestroy"),
            (Object::WithVariable, "cuModuleUnload"),
            (Object::Library, "cuLibraryUnload"),
            (Object::Mipmapped, "cuMipmappedArrayDestroy"),
            (Object::Array3D, "cuArrayDestroy"),
            (Object::Array, "cuArrayDestroy"),
            (Object::GreenStream, "cuStreamDestroy_v2"),
            (Object::Green, "cuGreenCtxDestroy"),
            (Object::Interprocess, "cuEventDestroy_v2"),
            (Object::Event, "cuEventDestroy_v2"),
            (Object::Later, "cuEventDestroy_v2"),
            (Object::Stream, "cuStreamDestroy_v2"),
            (Object::Low, "cuMemFree"),
            (Object::Plain, "cuMemFree_v2"),
            (Object::Host, "cuMemFreeHost"),
        ];
        let mut captured = 0_usize;
        let capturing = self.words[&Object::Capturing];
        let at = (&raw mut captured).expose_provenance();
        let ended = call("cuStreamEndCapture", &[capturing, at]);
        ensure!(
            ended == Some(Status::SUCCESS),
            "the capture did not end: {ended:?}"
        );
        for (name, word) in [
            ("cuGraphDestroy", captured),
            ("cuStreamDestroy_v2", capturing),
        ] {
            ensure!(
                call(name, &[word]) == Some(Status::SUCCESS),
                "{name} refuses"
            );
        }
        let others = self.child.map(|child| ("cuGraphDestroy", child));
        let others = others.into_iter();
        let made = endings
            .iter()
            .filter_map(|(object, name)| Some((*name, self.get(*object)?)));
        for (name, word) in made.chain(others) {
            let status = call(name, &[word]);
            ensure!(
                status == Some(Status::SUCCESS),
                "{name} refuses: {status:?}"
            );
        }
        expect!(cuMemUnmap(self.range.at, self.range.bytes))?;
        expect!(cuMemRelease(self.words[&Object::Handle] as u64))?;
        gpu.unreserve(self.range)
    }
}

/// What a function puts where its first argument points; none where this driver lacks it, or refuses.
fn made(name: &str, args: &[usize]) -> Option<usize> {
    let mut handle = 0_usize;
    let words: Vec<usize> = [(&raw mut handle).expose_provenance()]
        .into_iter()
        .chain(args.iter().copied())
        .collect();
    (call(name, &words) == Some(Status::SUCCESS)).then_some(handle)
}
