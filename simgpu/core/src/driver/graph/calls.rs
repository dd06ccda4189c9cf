//! The driver's calls over graphs.

use std::sync::Arc;

use super::{Exec, Graph, GraphMemoryAttribute, NodeId, Op};
use crate::driver::kernel::Kernel;
use crate::driver::operations::{CopyShape, SetShape};
use crate::driver::table::handle_of;
use crate::driver::work::{HostCall, Work};
use crate::driver::{Context, Driver, Event, Stream};
use crate::{Error, Result};

/// What a program adds to a graph, or gives a node instead of what it did.
pub enum NewNode {
    /// Nothing but its place.
    Empty,
    /// A kernel with its arguments.
    Kernel(Kernel, Vec<u64>),
    /// A copy.
    Copy(CopyShape),
    /// A set.
    Set(SetShape),
    /// A call into the program.
    Host(HostCall),
    /// Another graph, as it is now.
    Child(Arc<Graph>),
    /// Recording an event.
    Record(Arc<Event>),
    /// Waiting for an event.
    Wait(Arc<Event>),
}

impl NewNode {
    fn into_op(self) -> Result<Op> {
        Ok(match self {
            Self::Empty => Op::Empty,
            Self::Kernel(kernel, args) => Op::kernel(kernel, args),
            Self::Copy(copy) => Op::Work(Work::Copy(copy.into_work()?)),
            Self::Set(set) => Op::Work(Work::Set(set.into_work()?)),
            Self::Host(call) => Op::Work(Work::HostCall(call)),
            Self::Child(graph) => Op::Child(graph.clone_whole()?),
            Self::Record(event) => Op::Record(event),
            Self::Wait(event) => Op::Wait(event),
        })
    }
}

impl Driver {
    /// cuGraphCreate.
    pub fn create_graph(&self) -> usize {
        self.graphs.insert(&Graph::new())
    }

    /// The graph with this handle.
    pub fn graph(&self, handle: usize) -> Result<Arc<Graph>> {
        self.graphs.get(handle).ok_or(Error::InvalidValue)
    }

    /// cuGraphClone.
    pub fn clone_graph(&self, handle: usize) -> Result<usize> {
        Ok(self.graphs.insert(&self.graph(handle)?.clone_whole()?))
    }

    /// cuGraphDestroy: what was instantiated from it stays good.
    pub fn destroy_graph(&self, handle: usize) -> Result<()> {
        let graph = self.graphs.remove(handle).ok_or(Error::InvalidValue)?;
        self.forget_children(&graph);
        drop(graph);
        self.process.graph_memories.prune(&self.process);
        Ok(())
    }

    fn forget_children(&self, graph: &Graph) {
        for child in graph.children() {
            self.graphs.remove(handle_of(&child));
            self.forget_children(&child);
        }
    }

    /// cuGraphChildGraphNodeGetGraph: the handle of the graph within, which ends with its node.
    pub fn child_graph(&self, node: NodeId) -> Result<usize> {
        match self.graph_of(node)?.op(node)? {
            Op::Child(child) => Ok(self.graphs.insert(&child)),
            _ => Err(Error::InvalidValue),
        }
    }

    /// cuGraphNodeFindInClone.
    pub fn find_in_clone(&self, original: NodeId, clone: usize) -> Result<NodeId> {
        let copy = self.graph(clone)?.copy_of(original);
        copy.ok_or(Error::InvalidValue)
    }

    /// The graph that a node is in, with its handle.
    pub fn graph_of(&self, node: NodeId) -> Result<Arc<Graph>> {
        let found = self.graphs.find(|graph| graph.contains(node));
        found.ok_or(Error::InvalidValue)
    }

    /// cuGraphAdd…Node.
    pub fn add_node(&self, graph: usize, after: &[NodeId], node: NewNode) -> Result<NodeId> {
        self.graph(graph)?.add(node.into_op()?, after)
    }

    /// cuGraphAddMemAllocNode: the node and the address of its memory.
    pub fn add_alloc_node(
        &self,
        graph: usize,
        after: &[NodeId],
        ordinal: i32,
        bytes: u64,
    ) -> Result<(NodeId, u64)> {
        let graph = self.graph(graph)?;
        self.gpu(ordinal)?;
        let memories = &self.process.graph_memories;
        let memory = memories.make(&self.process, ordinal as usize, bytes)?;
        let address = memory.address;
        Ok((graph.add(Op::Alloc(memory), after)?, address))
    }

    /// cuGraphAddMemFreeNode of what an allocation node gives.
    pub fn add_free_node(&self, graph: usize, after: &[NodeId], address: u64) -> Result<NodeId> {
        let graph = self.graph(graph)?;
        let known = self.process.graph_memories.at(address);
        known.ok_or(Error::InvalidValue)?;
        graph.add(Op::Free(address), after)
    }

    /// The address and size of an allocation node's memory.
    pub fn alloc_node(&self, node: NodeId) -> Result<(u64, u64)> {
        match self.graph_of(node)?.op(node)? {
            Op::Alloc(memory) => Ok((memory.address, memory.bytes)),
            _ => Err(Error::InvalidValue),
        }
    }

    /// The address that a free node frees.
    pub fn free_node(&self, node: NodeId) -> Result<u64> {
        match self.graph_of(node)?.op(node)? {
            Op::Free(address) => Ok(address),
            _ => Err(Error::InvalidValue),
        }
    }

    /// cuGraphMemcpyNodeGetParams.
    pub fn copy_node(&self, node: NodeId) -> Result<CopyShape> {
        match self.graph_of(node)?.op(node)? {
            Op::Work(Work::Copy(copy)) => CopyShape::of_work(&copy),
            _ => Err(Error::InvalidValue),
        }
    }

    /// cuGraphMemsetNodeGetParams.
    pub fn set_node(&self, node: NodeId) -> Result<SetShape> {
        match self.graph_of(node)?.op(node)? {
            Op::Work(Work::Set(set)) => Ok(SetShape::of_work(&set)),
            _ => Err(Error::InvalidValue),
        }
    }

    /// cuGraphAddDependencies of one pair.
    pub fn add_dependency(&self, graph: usize, from: NodeId, to: NodeId) -> Result<()> {
        self.graph(graph)?.order(from, to)
    }

    /// cuGraphDestroyNode.
    pub fn destroy_node(&self, node: NodeId) -> Result<()> {
        self.graph_of(node)?.remove(node)
    }

    /// cuGraphInstantiate; the handle.
    pub fn instantiate(&self, graph: usize, flags: u64) -> Result<usize> {
        let exec = Exec::new(&self.graph(graph)?, flags)?;
        Ok(self.execs.insert(&exec))
    }

    /// The executable graph with this handle.
    pub fn exec(&self, handle: usize) -> Result<Arc<Exec>> {
        self.execs.get(handle).ok_or(Error::InvalidValue)
    }

    /// cuGraphExec…NodeSetParams.
    pub fn set_exec_node(&self, exec: usize, node: NodeId, to: NewNode) -> Result<()> {
        self.exec(exec)?.replace(node, to.into_op()?)
    }

    /// cuGraphExecUpdate.
    pub fn update_exec(&self, exec: usize, graph: usize) -> Result<()> {
        self.exec(exec)?.update(&*self.graph(graph)?)
    }

    /// cuGraphUpload.
    pub fn upload_graph(&self, context: &Context, exec: usize) -> Result<()> {
        self.exec(exec)?.upload(context)
    }

    /// cuGraphLaunch.
    pub fn launch_graph(
        &self,
        context: &Arc<Context>,
        stream: &Arc<Stream>,
        exec: usize,
    ) -> Result<()> {
        self.exec(exec)?.launch(context, stream)
    }

    /// cuGraphExecDestroy: a launch that still runs ends first.
    pub fn destroy_exec(&self, exec: usize) -> Result<()> {
        let exec = self.execs.remove(exec).ok_or(Error::InvalidValue)?;
        exec.wait();
        drop(exec);
        self.process.graph_memories.prune(&self.process);
        Ok(())
    }

    /// cuDeviceGraphMemTrim.
    pub fn trim_graph_memory(&self, ordinal: i32) -> Result<()> {
        self.gpu(ordinal)?;
        let memories = &self.process.graph_memories;
        memories.trim(&self.process, ordinal as usize);
        Ok(())
    }

    /// cuDeviceGetGraphMemAttribute.
    pub fn graph_memory(&self, ordinal: i32, attribute: GraphMemoryAttribute) -> Result<u64> {
        self.gpu(ordinal)?;
        let memories = &self.process.graph_memories;
        Ok(memories.attribute(ordinal as usize, attribute))
    }

    /// cuDeviceSetGraphMemAttribute to 0.
    pub fn reset_graph_memory(&self, ordinal: i32, attribute: GraphMemoryAttribute) -> Result<()> {
        self.gpu(ordinal)?;
        let memories = &self.process.graph_memories;
        memories.reset(ordinal as usize, attribute)
    }
}
