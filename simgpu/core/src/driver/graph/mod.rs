//! Graphs: nodes and what they come after.
//!
//! Here is the graph that programs build or capture; `exec` is what can be
//! launched, `memory` what allocation nodes give, `owned` what graphs keep for
//! programs, `calls` the driver's calls over them.

mod calls;
mod exec;
mod memory;
mod owned;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

pub use calls::NewNode;
pub use exec::Exec;
pub use memory::GraphMemoryAttribute;
pub(crate) use memory::{GraphMemories, GraphMemory};
pub use owned::{UserEnd, UserObject};

use owned::Kept;

use super::event::Event;
use super::kernel::{Kernel, Launch};
use super::lock;
use super::work::Work;
use crate::{Error, Result};

/// The handle of a node, unique in the process and never used again.
pub type NodeId = usize;

/// Far from anything that is an address, so that a mix-up is noticed.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);

fn next_id() -> usize {
    NEXT.fetch_add(0x10, Relaxed)
}

/// What a node does.
#[derive(Clone)]
pub(crate) enum Op {
    Empty,
    Work(Work),
    Alloc(Arc<GraphMemory>),
    Free(u64),
    Child(Arc<Graph>),
    Record(Arc<Event>),
    Wait(Arc<Event>),
}

impl Op {
    /// A kernel with its arguments.
    pub(crate) fn kernel(kernel: Kernel, args: Vec<u64>) -> Self {
        Self::Work(Work::Launch(Launch { kernel, args }))
    }

    /// Its CUgraphNodeType.
    fn kind(&self) -> u32 {
        match self {
            Self::Work(Work::Launch(_)) => 0,
            Self::Work(Work::Copy(_)) => 1,
            Self::Work(Work::Set(_)) => 2,
            Self::Work(Work::HostCall(_)) => 3,
            Self::Child(_) => 4,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Alloc(_) => 10,
            Self::Free(_) => 11,
            Self::Work(Work::Value(_)) => 12,
            Self::Empty | Self::Work(_) => 5,
        }
    }
}

#[derive(Clone)]
struct Node {
    op: Op,
    after: Vec<NodeId>,
    /// The node that it is a copy of.
    original: Option<NodeId>,
}

/// A graph.
pub struct Graph {
    /// Unique in the process.
    pub id: usize,
    nodes: Mutex<BTreeMap<NodeId, Node>>,
    kept: Mutex<Vec<Kept>>,
}

impl Graph {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            id: next_id(),
            nodes: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    /// Adds a node behind others of the same graph.
    pub(crate) fn add(&self, op: Op, after: &[NodeId]) -> Result<NodeId> {
        let mut nodes = lock(&self.nodes);
        let distinct: BTreeSet<_> = after.iter().collect();
        let known = after.iter().all(|node| nodes.contains_key(node));
        if !known || distinct.len() < after.len() {
            return Err(Error::InvalidValue);
        }
        let id = next_id();
        let after = after.to_vec();
        let original = None;
        nodes.insert(
            id,
            Node {
                op,
                after,
                original,
            },
        );
        Ok(id)
    }

    /// Puts `to` behind `from`; a second time is an error, as is a node alone.
    pub(crate) fn order(&self, from: NodeId, to: NodeId) -> Result<()> {
        let mut nodes = lock(&self.nodes);
        if from == to || !nodes.contains_key(&from) {
            return Err(Error::InvalidValue);
        }
        let node = nodes.get_mut(&to).ok_or(Error::InvalidValue)?;
        if node.after.contains(&from) {
            return Err(Error::InvalidValue);
        }
        node.after.push(from);
        Ok(())
    }

    /// Takes a node out, with all edges to and from it.
    pub(crate) fn remove(&self, id: NodeId) -> Result<()> {
        let mut nodes = lock(&self.nodes);
        nodes.remove(&id).ok_or(Error::InvalidHandle)?;
        for node in nodes.values_mut() {
            node.after.retain(|after| *after != id);
        }
        Ok(())
    }

    /// Whether a node is in it.
    pub(crate) fn contains(&self, id: NodeId) -> bool {
        lock(&self.nodes).contains_key(&id)
    }

    /// All nodes, oldest first.
    pub fn nodes(&self) -> Vec<NodeId> {
        lock(&self.nodes).keys().copied().collect()
    }

    /// The nodes that come after none.
    pub fn roots(&self) -> Vec<NodeId> {
        let nodes = lock(&self.nodes);
        let roots = nodes.iter().filter(|(_, node)| node.after.is_empty());
        roots.map(|(id, _)| *id).collect()
    }

    /// All edges: from and to.
    pub fn edges(&self) -> Vec<(NodeId, NodeId)> {
        let nodes = lock(&self.nodes);
        let edges = |(to, node): (&NodeId, &Node)| {
            let to = *to;
            let from = node.after.clone();
            from.into_iter().map(move |from| (from, to))
        };
        nodes.iter().flat_map(edges).collect()
    }

    /// What a node comes after.
    pub fn dependencies(&self, id: NodeId) -> Result<Vec<NodeId>> {
        let nodes = lock(&self.nodes);
        let node = nodes.get(&id).ok_or(Error::InvalidValue)?;
        Ok(node.after.clone())
    }

    /// CUgraphNodeType of a node.
    pub fn kind(&self, id: NodeId) -> Result<u32> {
        self.op(id).map(|op| op.kind())
    }

    pub(crate) fn op(&self, id: NodeId) -> Result<Op> {
        let nodes = lock(&self.nodes);
        let node = nodes.get(&id).ok_or(Error::InvalidValue)?;
        Ok(node.op.clone())
    }

    /// Everything that a node comes after, itself included.
    pub(crate) fn ancestors(&self, of: &[NodeId]) -> BTreeSet<NodeId> {
        let nodes = lock(&self.nodes);
        let mut seen = BTreeSet::new();
        let mut next = of.to_vec();
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(nodes.get(&id).into_iter().flat_map(|node| &node.after));
            }
        }
        seen
    }

    /// All that is to be done, in an order that the edges allow; a graph in a
    /// circle has none. Child graphs are taken apart.
    fn flatten(&self) -> Result<Vec<(NodeId, Op)>> {
        let mut waiting = lock(&self.nodes).clone();
        let mut ops = Vec::new();
        while !waiting.is_empty() {
            let ready: Vec<_> = waiting
                .iter()
                .filter(|(_, node)| node.after.iter().all(|after| !waiting.contains_key(after)))
                .map(|(id, _)| *id)
                .collect();
            if ready.is_empty() {
                return Err(Error::InvalidValue);
            }
            for id in ready {
                match waiting.remove(&id).map(|node| node.op) {
                    Some(Op::Child(child)) => ops.extend(child.flatten()?),
                    Some(op) => ops.push((id, op)),
                    None => {}
                }
            }
        }
        Ok(ops)
    }

    /// A copy with nodes of its own; memory nodes cannot be copied.
    fn clone_whole(&self) -> Result<Arc<Self>> {
        let nodes = lock(&self.nodes);
        if nodes
            .values()
            .any(|node| matches!(node.op, Op::Alloc(_) | Op::Free(_)))
        {
            return Err(Error::NotSupported);
        }
        let ids: BTreeMap<_, _> = nodes.keys().map(|id| (*id, next_id())).collect();
        let copies = nodes.iter().map(|(id, node)| {
            let after = node.after.iter().map(|after| ids[after]).collect();
            let op = node.op.clone();
            let original = Some(*id);
            let copy = Node {
                op,
                after,
                original,
            };
            (ids[id], copy)
        });
        Ok(Arc::new(Self {
            id: next_id(),
            nodes: Mutex::new(copies.collect()),
            kept: Mutex::new(self.kept()),
        }))
    }

    /// The copy of a node of the graph that this one was cloned from.
    pub fn copy_of(&self, original: NodeId) -> Option<NodeId> {
        let nodes = lock(&self.nodes);
        let copy = |(_, node): &(&NodeId, &Node)| node.original == Some(original);
        nodes.iter().find(copy).map(|(id, _)| *id)
    }

    /// The graphs within it.
    pub(crate) fn children(&self) -> Vec<Arc<Self>> {
        let nodes = lock(&self.nodes);
        let child = |node: &Node| match &node.op {
            Op::Child(child) => Some(child.clone()),
            _ => None,
        };
        nodes.values().filter_map(child).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_flattened_along_its_edges() {
        let graph = Graph::new();
        let [a, b, c] = [0, 1, 2].map(|_| graph.add(Op::Empty, &[]).unwrap());
        graph.order(c, a).unwrap();
        graph.order(a, b).unwrap();
        assert_eq!(graph.order(a, b), Err(Error::InvalidValue));
        assert_eq!(graph.add(Op::Empty, &[a, a]), Err(Error::InvalidValue));
        assert_eq!(graph.add(Op::Empty, &[7]), Err(Error::InvalidValue));
        let order: Vec<_> = graph.flatten().unwrap().iter().map(|(id, _)| *id).collect();
        assert_eq!(order, [c, a, b]);
        assert_eq!(graph.roots(), [c]);
        assert_eq!(graph.ancestors(&[a]), BTreeSet::from([a, c]));
        let copy = graph.clone_whole().unwrap();
        assert_eq!(copy.edges().len(), 2);
        assert!(!copy.contains(a));
        graph.order(b, c).unwrap();
        assert!(graph.flatten().is_err(), "a circle");
        graph.remove(a).unwrap();
        assert_eq!(graph.edges(), [(b, c)]);
    }

    #[test]
    fn child_graphs_are_taken_apart_in_their_place() {
        let child = Graph::new();
        let inner = child.add(Op::Empty, &[]).unwrap();
        let graph = Graph::new();
        let first = graph.add(Op::Empty, &[]).unwrap();
        let middle = graph.add(Op::Child(child), &[first]).unwrap();
        let last = graph.add(Op::Empty, &[middle]).unwrap();
        let order: Vec<_> = graph.flatten().unwrap().iter().map(|(id, _)| *id).collect();
        assert_eq!(order, [first, inner, last]);
        assert_eq!(graph.kind(middle), Ok(4));
    }
}
