//! Graphs. What names memory when a graph is built, instantiated or updated counts as GPU work,
//! for the driver may look whether the memory is there. A graph may work on any GPU that the program
//! uses. Host nodes are wrapped as host functions of streams are.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};
use core::mem::offset_of;

use rtswap_agent_core::agent::{Agent, agent};
use rtswap_agent_core::cuda::{
    CUDA_HOST_NODE_PARAMS, CUDA_MEM_ALLOC_NODE_PARAMS_v1, CUDA_MEMCPY_NODE_PARAMS,
    CUDA_MEMSET_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUcontext, CUdeviceptr, CUgraph,
    CUgraphExec, CUgraphNode, CUgraphNodeParams, CUstream, Graph, GraphExec, Location, Memcpy3D,
    Status, Stream, given,
};
use rtswap_agent_core::enter::Clue;

use super::argument::Pointee;
use super::destination::{Changed, Launched};
use super::host::{for_graph, of_graph};
use super::{enter_on, hooks};

hooks! {
    gated: cuGraphLaunch, cuGraphLaunch_ptsz (graph: CUgraphExec, stream: CUstream)
        writes Launched(graph);
    gated: cuGraphUpload, cuGraphUpload_ptsz (graph: CUgraphExec, stream: CUstream) writes ();
    instantiate: cuGraphInstantiate, cuGraphInstantiate_v2 (
        made: *mut CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, log: *mut c_void,
        bytes: usize);
    instantiate_with_flags: cuGraphInstantiateWithFlags (
        made: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    instantiate_with_params: cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz (
        made: *mut CUgraphExec, graph: CUgraph, params: *mut c_void);
    destroy: cuGraphExecDestroy (exec: CUgraphExec);
    gated: cuGraphExecUpdate (
        exec: CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, result: *mut c_uint)
        writes Changed(exec);
    gated: cuGraphExecUpdate_v2 (exec: CUgraphExec, graph: CUgraph, result: *mut c_void)
        writes Changed(exec);
    gated: cuGraphAddMemcpyNode (
        made: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        copy: *const Memcpy3D, context: CUcontext) writes ();
    gated: cuGraphMemcpyNodeSetParams (node: CUgraphNode, copy: *const Memcpy3D) writes ();
    gated: cuGraphExecMemcpyNodeSetParams (
        exec: CUgraphExec, node: CUgraphNode, copy: *const Memcpy3D, context: CUcontext)
        writes Changed(exec);
    gated: cuGraphAddMemsetNode (
        made: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        set: *const CUDA_MEMSET_NODE_PARAMS, context: CUcontext) writes ();
    gated: cuGraphMemsetNodeSetParams (node: CUgraphNode, set: *const CUDA_MEMSET_NODE_PARAMS)
        writes ();
    gated: cuGraphExecMemsetNodeSetParams (
        exec: CUgraphExec, node: CUgraphNode, set: *const CUDA_MEMSET_NODE_PARAMS,
        context: CUcontext) writes Changed(exec);
    gated: cuGraphExecChildGraphNodeSetParams (
        exec: CUgraphExec, node: CUgraphNode, child: CUgraph) writes Changed(exec);
    add_host_node: cuGraphAddHostNode (
        made: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        host: *const CUDA_HOST_NODE_PARAMS);
    set_host_node: cuGraphHostNodeSetParams (
        node: CUgraphNode, host: *const CUDA_HOST_NODE_PARAMS);
    set_exec_host_node: cuGraphExecHostNodeSetParams (
        exec: CUgraphExec, node: CUgraphNode, host: *const CUDA_HOST_NODE_PARAMS);
    get_host_node: cuGraphHostNodeGetParams (node: CUgraphNode, host: *mut CUDA_HOST_NODE_PARAMS);
    add_node: cuGraphAddNode (
        made: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *mut NodeParams);
    add_node_v2: cuGraphAddNode_v2, cuGraphAddNode_v3 (
        made: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, edges: *const c_void,
        count: usize, params: *mut NodeParams);
    set_node: cuGraphNodeSetParams, cuGraphNodeSetParams_v2 (
        node: CUgraphNode, params: *mut NodeParams);
    set_exec_node: cuGraphExecNodeSetParams (
        exec: CUgraphExec, node: CUgraphNode, params: *mut NodeParams);
    get_node: cuGraphNodeGetParams (node: CUgraphNode, params: *mut NodeParams);
}

/// A CUgraphNodeParams, since CUDA 12.2: what sort of node, and what that sort needs (cuda.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct NodeParams {
    /// CUgraphNodeType.
    kind: c_uint,
    reserved: [c_uint; 3],
    needs: Needs,
    reserved2: u64,
}

/// What a node needs, as its sort reads it. Any bytes are a value of each field.
#[repr(C)]
#[derive(Clone, Copy)]
union Needs {
    /// Of a host node: a CUDA_HOST_NODE_PARAMS_v2, whose later fields are left as they are.
    host: CUDA_HOST_NODE_PARAMS,
    copy: CopyNode,
    set: SetNode,
    _any: [u64; 29],
}

/// A CUDA_MEMCPY_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
struct CopyNode {
    flags: [c_int; 2],
    /// A CUcontext.
    context: usize,
    copy: Memcpy3D,
}

/// A CUDA_MEMSET_NODE_PARAMS_v2.
#[repr(C)]
#[derive(Clone, Copy)]
struct SetNode {
    set: CUDA_MEMSET_NODE_PARAMS,
    /// A CUcontext.
    context: usize,
}

/// CU_GRAPH_NODE_TYPE_MEMCPY.
const COPY: c_uint = 1;
/// CU_GRAPH_NODE_TYPE_MEMSET.
const SET: c_uint = 2;
/// CU_GRAPH_NODE_TYPE_HOST.
const HOST: c_uint = 3;
/// CU_GRAPH_NODE_TYPE_MEM_ALLOC.
const MEM_ALLOC: c_uint = 10;

/// Where the place and the bytes of a memory node stand in its CUDA_MEM_ALLOC_NODE_PARAMS, which are
/// the same in every version up to there.
mod memory {
    use super::{CUDA_MEM_ALLOC_NODE_PARAMS_v1, offset_of};

    pub(super) const PLACE: usize = offset_of!(CUDA_MEM_ALLOC_NODE_PARAMS_v1, poolProps.location);
    pub(super) const BYTES: usize = offset_of!(CUDA_MEM_ALLOC_NODE_PARAMS_v1, bytesize);
}

const _: () = assert!(
    size_of::<NodeParams>() == size_of::<CUgraphNodeParams>()
        && offset_of!(NodeParams, needs) == offset_of!(CUgraphNodeParams, __bindgen_anon_1)
        && size_of::<CopyNode>() == size_of::<CUDA_MEMCPY_NODE_PARAMS>()
        && offset_of!(CopyNode, context) == offset_of!(CUDA_MEMCPY_NODE_PARAMS, copyCtx)
        && size_of::<SetNode>() == size_of::<CUDA_MEMSET_NODE_PARAMS_v2>()
        && offset_of!(SetNode, context) == offset_of!(CUDA_MEMSET_NODE_PARAMS_v2, ctx)
        && memory::PLACE + size_of::<Location>() <= memory::BYTES
        && memory::BYTES + size_of::<u64>() <= size_of::<Needs>()
);

/// Where the memory lies that a launch of a node takes, and its bytes.
///
/// # Safety
/// `params` is a CUDA_MEM_ALLOC_NODE_PARAMS of any version.
pub(super) unsafe fn memory_of(params: *const c_void) -> (Location, u64) {
    // SAFETY: by the caller's promise; any bits are a valid `Location` and a number.
    unsafe {
        let place = params.byte_add(memory::PLACE).cast::<Location>();
        let bytes = params.byte_add(memory::BYTES).cast::<u64>();
        (place.read_unaligned(), bytes.read_unaligned())
    }
}

impl NodeParams {
    /// Where the memory lies that a launch of the node takes, and its bytes.
    fn memory(&self) -> Option<(Location, u64)> {
        // SAFETY: it is such a node's.
        (self.kind == MEM_ALLOC).then(|| unsafe { memory_of((&raw const self.needs).cast()) })
    }

    /// What the driver is to see in its place: our function of a host node, the context of the memory where a copy or a set
    /// names none. Nothing if it is to see what the program gave.
    fn ours(&self, agent: &Agent) -> Option<Self> {
        let mut ours = *self;
        match self.kind {
            HOST => {
                // SAFETY: it is a host node's.
                let host = unsafe { &mut ours.needs.host };
                (host.fn_, host.userData) = for_graph(host.fn_, host.userData);
            }
            COPY => {
                // SAFETY: it is such a node's.
                let node = unsafe { &mut ours.needs.copy };
                let [src, dst] = node.copy.ends().map(|(_, at)| at);
                node.context = missing(agent, node.context, &[dst, src])?;
            }
            SET => {
                // SAFETY: it is such a node's.
                let node = unsafe { &mut ours.needs.set };
                node.context = missing(agent, node.context, &[node.set.dst])?;
            }
            _ => return None,
        }
        Some(ours)
    }
}

/// The context that a node has by the addresses that it works on, if it names none.
fn missing(agent: &Agent, named: usize, addresses: &[CUdeviceptr]) -> Option<usize> {
    if named != 0 {
        return None;
    }
    let mut contexts = addresses.iter().filter_map(|&at| agent.context_at(at));
    contexts.next().map(|context| context.0)
}

impl Pointee for NodeParams {
    unsafe fn clues(_: *const Self, tell: &mut dyn FnMut(Clue)) {
        tell(Clue::Every);
    }
}

/// The same with its function wrapped. Nothing without an agent: the driver then gets what the program gave.
///
/// # Safety
/// `host` is null or the program's parameters.
unsafe fn wrapped(host: *const CUDA_HOST_NODE_PARAMS) -> Option<CUDA_HOST_NODE_PARAMS> {
    // SAFETY: by the caller's promise.
    let mut host = unsafe { given(host) }
        .filter(|_| agent().is_some())
        .copied()?;
    (host.fn_, host.userData) = for_graph(host.fn_, host.userData);
    Some(host)
}

/// Calls with the program's parameters, or with ours.
///
/// # Safety
/// `host` is null or the program's parameters.
unsafe fn with_wrapped(
    host: *const CUDA_HOST_NODE_PARAMS,
    call: impl FnOnce(*const CUDA_HOST_NODE_PARAMS) -> Status,
) -> Status {
    // SAFETY: by the caller's promise.
    match unsafe { wrapped(host) } {
        Some(ours) => call(&raw const ours),
        None => call(host),
    }
}

/// Instantiates by `call`, and has what its nodes write noted.
///
/// # Safety
/// `made` is null or what `call` fills.
unsafe fn learn(made: *mut CUgraphExec, graph: CUgraph, call: impl FnOnce() -> Status) -> Status {
    let Some(agent) = agent() else {
        return call();
    };
    // The driver looks at the memory that the nodes name.
    let _call = match enter_on(agent, Stream::LEGACY, &|tell| tell(Clue::Every)) {
        Ok(call) => call,
        Err(status) => return status,
    };
    let status = call();
    if status == Status::SUCCESS
        // SAFETY: by the caller's promise.
        && let Some(exec) = unsafe { made.as_ref() }
    {
        agent.learn_graph(GraphExec(exec.addr()), Graph(graph.addr()));
    }
    status
}

unsafe fn instantiate(
    driver: cuGraphInstantiate_v2::Function,
    made: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    log: *mut c_void,
    bytes: usize,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, graph, || driver(made, graph, node, log, bytes)) }
}

unsafe fn instantiate_with_flags(
    driver: cuGraphInstantiateWithFlags::Function,
    made: *mut CUgraphExec,
    graph: CUgraph,
    flags: c_ulonglong,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, graph, || driver(made, graph, flags)) }
}

unsafe fn instantiate_with_params(
    driver: cuGraphInstantiateWithParams::Function,
    made: *mut CUgraphExec,
    graph: CUgraph,
    params: *mut c_void,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { learn(made, graph, || driver(made, graph, params)) }
}

unsafe fn destroy(driver: cuGraphExecDestroy::Function, exec: CUgraphExec) -> Status {
    if let Some(agent) = agent() {
        agent.forget_graph(GraphExec(exec.addr()));
    }
    // SAFETY: the caller's arguments.
    unsafe { driver(exec) }
}

unsafe fn add_host_node(
    driver: cuGraphAddHostNode::Function,
    made: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    host: *const CUDA_HOST_NODE_PARAMS,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { with_wrapped(host, |host| driver(made, graph, after, count, host)) }
}

unsafe fn set_host_node(
    driver: cuGraphHostNodeSetParams::Function,
    node: CUgraphNode,
    host: *const CUDA_HOST_NODE_PARAMS,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { with_wrapped(host, |host| driver(node, host)) }
}

unsafe fn set_exec_host_node(
    driver: cuGraphExecHostNodeSetParams::Function,
    exec: CUgraphExec,
    node: CUgraphNode,
    host: *const CUDA_HOST_NODE_PARAMS,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { with_wrapped(host, |host| driver(exec, node, host)) }
}

unsafe fn get_host_node(
    driver: cuGraphHostNodeGetParams::Function,
    node: CUgraphNode,
    host: *mut CUDA_HOST_NODE_PARAMS,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(node, host) };
    // SAFETY: the driver filled it.
    if let Some(host) = unsafe { host.as_mut() }
        && status == Status::SUCCESS
    {
        // SAFETY: the driver says what it was given.
        (host.fn_, host.userData) = unsafe { of_graph(host.fn_, host.userData) };
    }
    status
}

/// Calls with the program's parameters, or with ours. What the driver says in them is for other
/// sorts of nodes than those that we change.
///
/// # Safety
/// `params` is null or the program's parameters.
unsafe fn with_node(
    params: *mut NodeParams,
    call: impl FnOnce(*mut NodeParams) -> Status,
) -> Status {
    let Some(agent) = agent() else {
        return call(params);
    };
    // SAFETY: by the caller's promise.
    let ours = unsafe { given(params) }.and_then(|theirs| theirs.ours(agent));
    // The driver looks at the memory that the node names.
    let _call = match enter_on(agent, Stream::LEGACY, &|tell| tell(Clue::Every)) {
        Ok(call) => call,
        Err(status) => return status,
    };
    match ours {
        Some(mut ours) => call(&raw mut ours),
        None => call(params),
    }
}

/// Adds a node by `call`, as [`with_node`]; the bytes of one that allocates are counted.
///
/// # Safety
/// As there.
unsafe fn with_new_node(
    params: *mut NodeParams,
    call: impl Fn(*mut NodeParams) -> Status,
) -> Status {
    // SAFETY: by the caller's promise.
    let add = || unsafe { with_node(params, &call) };
    // SAFETY: by the caller's promise.
    let memory = unsafe { given(params) }.and_then(NodeParams::memory);
    match (agent(), memory) {
        // Before the gate: who asks for budget may have to wait for others.
        (Some(agent), Some((place, bytes))) => agent.hold_for_graph(Some(place), bytes, add),
        _ => add(),
    }
}

unsafe fn add_node(
    driver: cuGraphAddNode::Function,
    made: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    params: *mut NodeParams,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { with_new_node(params, |params| driver(made, graph, after, count, params)) }
}

unsafe fn add_node_v2(
    driver: cuGraphAddNode_v2::Function,
    made: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    edges: *const c_void,
    count: usize,
    params: *mut NodeParams,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe {
        with_new_node(params, |params| {
            driver(made, graph, after, edges, count, params)
        })
    }
}

unsafe fn set_node(
    driver: cuGraphNodeSetParams::Function,
    node: CUgraphNode,
    params: *mut NodeParams,
) -> Status {
    // SAFETY: the caller's arguments.
    unsafe { with_node(params, |params| driver(node, params)) }
}

unsafe fn set_exec_node(
    driver: cuGraphExecNodeSetParams::Function,
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *mut NodeParams,
) -> Status {
    if let Some(agent) = agent() {
        agent.forget_graph(GraphExec(exec.addr()));
    }
    // SAFETY: the caller's arguments.
    unsafe { with_node(params, |params| driver(exec, node, params)) }
}

unsafe fn get_node(
    driver: cuGraphNodeGetParams::Function,
    node: CUgraphNode,
    params: *mut NodeParams,
) -> Status {
    // SAFETY: the caller's arguments.
    let status = unsafe { driver(node, params) };
    // SAFETY: the driver filled it.
    if let Some(params) = unsafe { params.as_mut() }
        && status == Status::SUCCESS
        && params.kind == HOST
    {
        // SAFETY: it is a host node's.
        let host = unsafe { &mut params.needs.host };
        // SAFETY: the driver says what it was given.
        (host.fn_, host.userData) = unsafe { of_graph(host.fn_, host.userData) };
    }
    status
}
