//! Nodes of graphs by one structure for all kinds, CUgraphNodeParams of CUDA 12.2.

use std::ffi::c_uint;

use simgpu_core::driver::{NewNode, NodeId, driver};
use simgpu_core::{Error, Result};

use super::event::event;
use super::graph::{self, add, add_alloc, add_free};
use super::shape;
use crate::abi::{In, MemcpyNode, NodeParams, Out, nonzero};

/// CUgraphNodeType.
const KERNEL: c_uint = 0;
const MEMCPY: c_uint = 1;
const MEMSET: c_uint = 2;
const HOST: c_uint = 3;
const CHILD: c_uint = 4;
const EMPTY: c_uint = 5;
const WAIT_EVENT: c_uint = 6;
const EVENT_RECORD: c_uint = 7;
const MEM_ALLOC: c_uint = 10;
const MEM_FREE: c_uint = 11;

api! {
    12020 early fn cuGraphAddNode(
        node: Out<usize>, graph: usize, after: In<usize>, count: usize, params: Out<NodeParams>,
    ) {
        node.check()?;
        driver()?;
        add_any(&node, graph, after, count, &params)
    }

    12030 early fn cuGraphAddNode_v2(
        node: Out<usize>,
        graph: usize,
        after: In<usize>,
        edges: In<u64>,
        count: usize,
        params: Out<NodeParams>,
    ) {
        node.check()?;
        driver()?;
        graph::plain(edges, count)?;
        add_any(&node, graph, after, count, &params)
    }

    12020 early fn cuGraphExecNodeSetParams(exec: usize, node: NodeId, params: Out<NodeParams>) {
        nonzero(exec)?;
        driver()?;
        driver()?.set_exec_node(exec, node, new(&params)?)
    }
}

fn add_any(
    node: &Out<usize>,
    graph: usize,
    after: In<usize>,
    count: usize,
    params: &Out<NodeParams>,
) -> Result<()> {
    match params.value()?.kind {
        MEM_ALLOC => add_alloc(node, graph, after, count, &params.of()),
        MEM_FREE => add_free(node, graph, after, count, params.of().value()?),
        _ => add(node, graph, after, count, || new(params)),
    }
}

/// What a node does that neither allocates nor frees.
fn new(params: &Out<NodeParams>) -> Result<NewNode> {
    Ok(match params.value()?.kind {
        KERNEL => graph::kernel(params.of().as_in())?,
        MEMCPY => NewNode::Copy(shape::of_3d(params.of::<MemcpyNode>().value()?.copy)?),
        MEMSET => graph::memset(params.of().as_in())?,
        HOST => graph::host_call(params.of().as_in())?,
        CHILD => NewNode::Child(driver()?.graph(params.of().value()?)?),
        EMPTY => NewNode::Empty,
        WAIT_EVENT => NewNode::Wait(event(params.of().value()?)?),
        EVENT_RECORD => NewNode::Record(event(params.of().value()?)?),
        _ => return Err(Error::NotSupported),
    })
}
