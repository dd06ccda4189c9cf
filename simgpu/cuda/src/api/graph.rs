//! Graphs: building, instantiating and launching them.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong};

use simgpu_core::driver::{GraphMemoryAttribute, HostCall, NewNode, NodeId, SetShape, driver};
use simgpu_core::{Error, Result};

use super::launch;
use super::shape;
use crate::abi::{
    AccessDesc, HostNode, In, InstantiateParams, KernelNode, KernelNodeV1, MemAllocNode,
    MemsetNode, Out, PoolProps, Rows3D, UpdateInfo, nonzero, stream,
};

/// CUDA_GRAPH_INSTANTIATE_SUCCESS and _ERROR.
const INSTANTIATED: c_uint = 0;
const NOT_INSTANTIATED: c_uint = 1;
/// CUgraphEdgeData of an edge from the end of a node to the start of another.
const PLAIN_EDGE: u64 = 0;
/// CUgraphExecUpdateResult: success, or any error.
const UPDATED: c_uint = 0;
const NOT_UPDATED: c_uint = 1;

api! {
    10000 fn cuGraphCreate(graph: Out<usize>, flags: c_uint) {
        graph.check()?;
        if flags != 0 {
            return Err(Error::InvalidValue);
        }
        graph.set(driver()?.create_graph())
    }

    10000 fn cuGraphDestroy(graph: usize) {
        driver()?.destroy_graph(graph)
    }

    10000 fn cuGraphClone(clone: Out<usize>, graph: usize) {
        clone.check()?;
        clone.set(driver()?.clone_graph(graph)?)
    }

    10000 fn cuGraphNodeFindInClone(copy: Out<NodeId>, original: NodeId, clone: usize) {
        copy.set(driver()?.find_in_clone(original, clone)?)
    }

    10000 fn cuGraphChildGraphNodeGetGraph(node: NodeId, graph: Out<usize>) {
        graph.set(driver()?.child_graph(node)?)
    }

    10000 early fn cuGraphAddEmptyNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize,
    ) {
        add(&node, graph, after, count, || Ok(NewNode::Empty))
    }

    12000 fn cuGraphAddKernelNode_v2(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, params: In<KernelNode>,
    ) {
        add(&node, graph, after, count, || kernel(params))
    }

    10000 fn cuGraphAddKernelNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, params: In<KernelNodeV1>,
    ) {
        add(&node, graph, after, count, || kernel_v1(params.get()?))
    }

    10000 fn cuGraphAddMemcpyNode(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        count: usize,
        copy: In<Rows3D>,
        _context: usize,
    ) {
        add(&node, graph, after, count, || Ok(NewNode::Copy(shape::of_3d(copy.get()?)?)))
    }

    10000 fn cuGraphAddMemsetNode(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        count: usize,
        set: In<MemsetNode>,
        _context: usize,
    ) {
        add(&node, graph, after, count, || memset(set))
    }

    10000 fn cuGraphMemcpyNodeGetParams(node: NodeId, copy: Out<Rows3D>) {
        copy.set(shape::to_3d(driver()?.copy_node(node)?))
    }

    10000 fn cuGraphMemsetNodeGetParams(node: NodeId, set: Out<MemsetNode>) {
        let shape = driver()?.set_node(node)?;
        set.set(MemsetNode {
            dst: shape.dst,
            pitch: shape.pitch,
            value: shape.pattern,
            element_size: shape.width as c_uint,
            width: shape.count,
            height: shape.rows,
        })
    }

    10000 early fn cuGraphAddHostNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, host: In<HostNode>,
    ) {
        add(&node, graph, after, count, || host_call(host))
    }

    10000 fn cuGraphAddChildGraphNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, child: usize,
    ) {
        add(&node, graph, after, count, || Ok(NewNode::Child(driver()?.graph(child)?)))
    }

    11010 early fn cuGraphAddEventRecordNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, event: usize,
    ) {
        add(&node, graph, after, count, || Ok(NewNode::Record(super::event::event(event)?)))
    }

    11010 early fn cuGraphAddEventWaitNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, event: usize,
    ) {
        add(&node, graph, after, count, || Ok(NewNode::Wait(super::event::event(event)?)))
    }

    11040 fn cuGraphAddMemAllocNode(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        count: usize,
        params: Out<MemAllocNode>,
    ) {
        add_alloc(&node, graph, after, count, &params)
    }

    11040 early fn cuGraphMemAllocNodeGetParams(node: NodeId, params: Out<MemAllocNode>) {
        params.check()?;
        let (address, bytes) = driver()?.alloc_node(node)?;
        let device = driver()?.pointer(address)?.gpu as c_int;
        params.set(MemAllocNode {
            pool: PoolProps::on(device),
            access: In::null(),
            access_count: 0,
            bytes: bytes as usize,
            address,
        })
    }

    11040 fn cuGraphAddMemFreeNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, address: u64,
    ) {
        add_free(&node, graph, after, count, address)
    }

    11040 early fn cuGraphMemFreeNodeGetParams(node: NodeId, address: Out<u64>) {
        address.check()?;
        address.set(driver()?.free_node(node)?)
    }

    10000 early fn cuGraphAddDependencies(graph: usize, from: In<usize>, to: In<usize>, count: usize) {
        nonzero(graph)?;
        order(graph, from, to, count)
    }

    12030 early fn cuGraphAddDependencies_v2(
        graph: usize, from: In<usize>, to: In<usize>, edges: In<u64>, count: usize,
    ) {
        nonzero(graph)?;
        driver()?;
        plain(edges, count)?;
        order(graph, from, to, count)
    }

    10000 fn cuGraphDestroyNode(node: NodeId) {
        driver()?.destroy_node(node)
    }

    10000 fn cuGraphGetNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) {
        give(&driver()?.graph(graph)?.nodes(), &nodes, &count)
    }

    10000 fn cuGraphGetRootNodes(graph: usize, nodes: Out<usize>, count: Out<usize>) {
        give(&driver()?.graph(graph)?.roots(), &nodes, &count)
    }

    10000 fn cuGraphGetEdges(
        graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>,
    ) {
        give_edges(graph, &from, &to, &count)
    }

    12030 fn cuGraphGetEdges_v2(
        graph: usize, from: Out<usize>, to: Out<usize>, edges: Out<u64>, count: Out<usize>,
    ) {
        let wanted = driver()?.graph(graph).and(count.value())?;
        clear_edges(&edges, wanted)?;
        give_edges(graph, &from, &to, &count)
    }

    10000 fn cuGraphNodeGetDependencies(node: NodeId, nodes: Out<usize>, count: Out<usize>) {
        give(&driver()?.graph_of(node)?.dependencies(node)?, &nodes, &count)
    }

    12030 fn cuGraphNodeGetDependencies_v2(
        node: NodeId, nodes: Out<usize>, edges: Out<u64>, count: Out<usize>,
    ) {
        let dependencies = driver()?.graph_of(node)?.dependencies(node)?;
        clear_edges(&edges, count.value()?)?;
        give(&dependencies, &nodes, &count)
    }

    10000 fn cuGraphNodeGetType(node: NodeId, kind: Out<c_uint>) {
        kind.set(driver()?.graph_of(node)?.kind(node)?)
    }

    10000 early fn cuGraphInstantiate(
        exec: Out<usize>,
        graph: usize,
        error_node: Out<usize>,
        log: Out<c_char>,
        log_size: usize,
    ) {
        instantiate_logged(&exec, graph, &error_node, &log, log_size)
    }

    11000 early fn cuGraphInstantiate_v2(
        exec: Out<usize>,
        graph: usize,
        error_node: Out<usize>,
        log: Out<c_char>,
        log_size: usize,
    ) {
        instantiate_logged(&exec, graph, &error_node, &log, log_size)
    }

    11040 fn cuGraphInstantiateWithFlags(exec: Out<usize>, graph: usize, flags: c_ulonglong) {
        instantiate(&exec, graph, flags)
    }

    12000 early fn cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz(
        exec: Out<usize>, graph: usize, params: Out<InstantiateParams>,
    ) |default| {
        let wanted = params.value()?;
        let made = instantiate(&exec, graph, wanted.flags);
        let result = if made.is_ok() { INSTANTIATED } else { NOT_INSTANTIATED };
        // Only what is told: the rest is the program's.
        // SAFETY: the fields `error_node` and `result`.
        unsafe {
            params.cast::<u64>().set_at(2, 0)?;
            params.cast::<c_uint>().set_at(6, result)?;
        }
        made?;
        if wanted.upload_stream != 0 {
            let (context, _) = stream(wanted.upload_stream, default)?;
            driver()?.upload_graph(&context, exec.value()?)?;
        }
        Ok(())
    }

    12000 fn cuGraphExecGetFlags(exec: usize, flags: Out<c_ulonglong>) {
        flags.set(driver()?.exec(exec)?.flags)
    }

    11010 fn cuGraphUpload | cuGraphUpload_ptsz(exec: usize, on: usize) |default| {
        let (context, _) = stream(on, default)?;
        driver()?.upload_graph(&context, exec)
    }

    10000 fn cuGraphLaunch | cuGraphLaunch_ptsz(exec: usize, on: usize) |default| {
        let (context, stream) = stream(on, default)?;
        driver()?.launch_graph(&context, &stream, exec)
    }

    10000 fn cuGraphExecDestroy(exec: usize) {
        driver()?.destroy_exec(exec)
    }

    10020 early fn cuGraphExecUpdate(
        exec: usize, graph: usize, error_node: Out<usize>, result: Out<c_uint>,
    ) {
        error_node.clear();
        result.clear();
        driver()?;
        let updated = driver()?.update_exec(exec, graph);
        error_node.set_if_wanted(0);
        result.set(if updated.is_ok() { UPDATED } else { NOT_UPDATED })?;
        updated
    }

    12000 early fn cuGraphExecUpdate_v2(exec: usize, graph: usize, info: Out<UpdateInfo>) {
        tell_update(&info, UPDATED);
        driver()?;
        info.check()?;
        let updated = driver()?.update_exec(exec, graph);
        let result = if updated.is_ok() { UPDATED } else { NOT_UPDATED };
        tell_update(&info, result);
        updated
    }

    12000 early fn cuGraphExecKernelNodeSetParams_v2(
        exec: usize, node: NodeId, params: In<KernelNode>,
    ) {
        params.get()?;
        driver()?.set_exec_node(exec, node, kernel(params)?)
    }

    10010 early fn cuGraphExecKernelNodeSetParams(
        exec: usize, node: NodeId, params: In<KernelNodeV1>,
    ) {
        params.get()?;
        driver()?.set_exec_node(exec, node, kernel_v1(params.get()?)?)
    }

    10020 early fn cuGraphExecMemcpyNodeSetParams(
        exec: usize, node: NodeId, copy: In<Rows3D>, _context: usize,
    ) {
        copy.get()?;
        driver()?.set_exec_node(exec, node, NewNode::Copy(shape::of_3d(copy.get()?)?))
    }

    10020 early fn cuGraphExecMemsetNodeSetParams(
        exec: usize, node: NodeId, set: In<MemsetNode>, _context: usize,
    ) {
        set.get()?;
        driver()?.set_exec_node(exec, node, memset(set)?)
    }

    10020 early fn cuGraphExecHostNodeSetParams(exec: usize, node: NodeId, host: In<HostNode>) {
        host.get()?;
        driver()?.set_exec_node(exec, node, host_call(host)?)
    }

    11040 fn cuDeviceGraphMemTrim(device: c_int) {
        driver()?.trim_graph_memory(device)
    }

    11040 fn cuDeviceGetGraphMemAttribute(device: c_int, attribute: c_uint, value: Out<u64>) {
        value.set(driver()?.graph_memory(device, memory_attribute(attribute)?)?)
    }

    11040 fn cuDeviceSetGraphMemAttribute(device: c_int, attribute: c_uint, value: In<u64>) {
        if value.get()? != 0 {
            return Err(Error::InvalidValue);
        }
        driver()?.reset_graph_memory(device, memory_attribute(attribute)?)
    }
}

pub(super) fn add(
    node: &Out<usize>,
    graph: usize,
    after: In<usize>,
    count: usize,
    new: impl FnOnce() -> Result<NewNode>,
) -> Result<()> {
    node.check()?;
    node.set(driver()?.add_node(graph, &list(after, count)?, new()?)?)
}

/// An allocation node, whose address goes into its parameters.
pub(super) fn add_alloc(
    node: &Out<usize>,
    graph: usize,
    after: In<usize>,
    count: usize,
    params: &Out<MemAllocNode>,
) -> Result<()> {
    node.check()?;
    let wanted = params.value()?;
    let device = super::vmm::on_device(wanted.pool.location)?;
    let access: In<AccessDesc> = wanted.access;
    // SAFETY: as many descriptions as the program says.
    for desc in unsafe { access.list(wanted.access_count) } {
        // Its own GPU has access anyway; others are not opened to it here.
        if super::vmm::on_device(desc?.location)? != device {
            return Err(Error::NotSupported);
        }
    }
    let after = list(after, count)?;
    let (added, address) = driver()?.add_alloc_node(graph, &after, device, wanted.bytes as u64)?;
    params.set(MemAllocNode { address, ..wanted })?;
    node.set(added)
}

pub(super) fn add_free(
    node: &Out<usize>,
    graph: usize,
    after: In<usize>,
    count: usize,
    address: u64,
) -> Result<()> {
    node.check()?;
    node.set(driver()?.add_free_node(graph, &list(after, count)?, address)?)
}

/// Edges with data order parts of kernels, which have none here.
pub(super) fn plain(edges: In<u64>, count: usize) -> Result<()> {
    // SAFETY: as many edges as the program says, or null.
    for edge in unsafe { edges.list(if edges.is_null() { 0 } else { count }) } {
        if edge? != PLAIN_EDGE {
            return Err(Error::NotSupported);
        }
    }
    Ok(())
}

pub(super) fn kernel(params: In<KernelNode>) -> Result<NewNode> {
    let KernelNode { v1, kernel, .. } = params.get()?;
    let function = if v1.function == 0 {
        kernel
    } else {
        v1.function
    };
    kernel_v1(KernelNodeV1 { function, ..v1 })
}

fn kernel_v1(params: KernelNodeV1) -> Result<NewNode> {
    let KernelNodeV1 {
        function,
        grid,
        block,
        arguments,
        extra,
        ..
    } = params;
    let launch = launch::checked(function, grid, block, arguments, extra)?;
    Ok(launch.map_or(NewNode::Empty, |(kernel, args)| {
        NewNode::Kernel(kernel, args)
    }))
}

pub(super) fn memset(set: In<MemsetNode>) -> Result<NewNode> {
    let set = set.get()?;
    Ok(NewNode::Set(SetShape {
        dst: set.dst,
        pattern: set.value,
        width: set.element_size as usize,
        count: set.width,
        rows: set.height,
        pitch: set.pitch,
    }))
}

pub(super) fn host_call(host: In<HostNode>) -> Result<NewNode> {
    let HostNode { function, data } = host.get()?;
    let function = function.ok_or(Error::InvalidValue)?;
    Ok(NewNode::Host(HostCall::Function(function, data)))
}

fn instantiate(exec: &Out<usize>, graph: usize, flags: c_ulonglong) -> Result<()> {
    exec.check()?;
    exec.set(driver()?.instantiate(graph, flags)?)
}

/// The outcome of an update, which names no node; a program may not want it. What is between the fields stays.
fn tell_update(info: &Out<UpdateInfo>, result: c_uint) {
    // SAFETY: the three fields.
    unsafe {
        info.cast::<c_uint>().set_if_wanted(result);
        let _ = info.cast::<u64>().set_at(1, 0);
        let _ = info.cast::<u64>().set_at(2, 0);
    }
}

/// The older forms, which can name a node at fault and write a log.
fn instantiate_logged(
    exec: &Out<usize>,
    graph: usize,
    error_node: &Out<usize>,
    log: &Out<c_char>,
    log_size: usize,
) -> Result<()> {
    error_node.clear();
    if log_size > 0 {
        log.clear();
    }
    driver()?;
    instantiate(exec, graph, 0)
}

fn order(graph: usize, from: In<usize>, to: In<usize>, count: usize) -> Result<()> {
    // SAFETY: as many pairs as the program says.
    for (from, to) in unsafe { from.list(count).zip(to.list(count)) } {
        driver()?.add_dependency(graph, from?, to?)?;
    }
    Ok(())
}

fn give_edges(graph: usize, from: &Out<usize>, to: &Out<usize>, count: &Out<usize>) -> Result<()> {
    let (froms, tos): (Vec<_>, Vec<_>) = driver()?.graph(graph)?.edges().into_iter().unzip();
    if from.check().is_ok() != to.check().is_ok() {
        return Err(Error::InvalidValue);
    }
    let room = count.value()?;
    give(&froms, from, count)?;
    count.set(room)?;
    give(&tos, to, count)
}

/// All edges are plain, as many as there is room for.
fn clear_edges(edges: &Out<u64>, room: usize) -> Result<()> {
    for index in 0..if edges.check().is_ok() { room } else { 0 } {
        // SAFETY: there is room for as many as the program says.
        unsafe { edges.set_at(index, PLAIN_EDGE) }?;
    }
    Ok(())
}

/// The nodes that a program lists.
pub(super) fn list(nodes: In<usize>, count: usize) -> Result<Vec<NodeId>> {
    // SAFETY: as many as the program says.
    unsafe { nodes.list(count) }.collect()
}

/// Lists nodes to a program: their number alone, or as many as it has room
/// for, the rest of the room zeroed.
fn give(nodes: &[NodeId], to: &Out<usize>, count: &Out<usize>) -> Result<()> {
    let room = count.value()?;
    if to.check().is_err() {
        return count.set(nodes.len());
    }
    for index in 0..room {
        // SAFETY: there is room for as many as the program says.
        unsafe { to.set_at(index, nodes.get(index).copied().unwrap_or(0)) }?;
    }
    count.set(room.min(nodes.len()))
}

/// CUgraphMem_attribute by its number.
fn memory_attribute(number: c_uint) -> Result<GraphMemoryAttribute> {
    Ok(match number {
        0 => GraphMemoryAttribute::Used,
        1 => GraphMemoryAttribute::UsedHigh,
        2 => GraphMemoryAttribute::Reserved,
        3 => GraphMemoryAttribute::ReservedHigh,
        _ => return Err(Error::InvalidValue),
    })
}
