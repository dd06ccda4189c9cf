//! What hooked calls write into memory that the program's kernels do not: only then does anybody
//! ask.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Mutex;

use crate::agent::Agent;
use crate::cuda::{
    CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, Graph, GraphExec, Memcpy2D, Memcpy3D, Memcpy3DPeer,
    Status,
};
use crate::driver::Node;
use crate::gate::lock_briefly;
use crate::memory::hints;

/// What a call writes, now or in its stream's order, other than by the program's kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Nothing in memory that has addresses.
    Nothing,
    /// At most these.
    Range {
        /// The first address.
        at: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// What the nodes of an instantiated graph write.
    Graph(GraphExec),
    /// Nothing now; but the instantiated graph is changed, and may write anything from now on.
    Changed(GraphExec),
    /// That cannot be told.
    Anything,
}

/// What instantiated graphs write, where all of their nodes tell: those that were instantiated after the
/// first hint and have not changed since. A launch of one dirties only what its copy and set nodes
/// write, a launch of any other graph every hinted chunk.
#[derive(Debug, Default)]
pub struct Graphs(Mutex<BTreeMap<GraphExec, Vec<Writes>>>);

impl Writes {
    /// What a described copy writes: from the first address of its destination on up to its last
    /// byte. `kind` is a CUmemorytype, whatever the program put there.
    fn described(kind: c_uint, host: usize, device: CUdeviceptr, bytes: usize) -> Self {
        let bytes = bytes as u64;
        let range = |at| Self::Range { at, bytes };
        match kind {
            HOST => range(host as u64),
            DEVICE | UNIFIED => range(device),
            ARRAY => Self::Nothing,
            _ => Self::Anything,
        }
    }

    /// Rows from `at` on: their distance, their values' count and bytes, their number.
    pub fn rows(at: u64, pitch: usize, count: usize, size: usize, height: usize) -> Self {
        let before = pitch.saturating_mul(height.saturating_sub(1));
        let bytes = before.saturating_add(count.saturating_mul(size)) as u64;
        Self::Range { at, bytes }
    }
}

/// How many bytes from the first address on a copy may reach: where it begins in each direction, how
/// far it goes, and the bytes of a step.
fn reach(directions: &[(usize, usize, usize)]) -> usize {
    let last = directions.iter().fold(0usize, |sum, (from, count, step)| {
        let steps = from.saturating_add(count.saturating_sub(1));
        sum.saturating_add(steps.saturating_mul(*step))
    });
    last.saturating_add(1)
}

/// CUmemorytype.
const HOST: c_uint = 1;
const DEVICE: c_uint = 2;
const ARRAY: c_uint = 3;
const UNIFIED: c_uint = 4;

impl From<&Memcpy2D> for Writes {
    fn from(it: &Memcpy2D) -> Self {
        // Where no pitch is given rows follow each other.
        let pitch = it.dst.pitch.max(it.width);
        let bytes = reach(&[(it.dst.x, it.width, 1), (it.dst.y, it.height, pitch)]);
        Self::described(it.dst.kind, it.dst.host, it.dst.device, bytes)
    }
}

impl From<&Memcpy3D> for Writes {
    fn from(it: &Memcpy3D) -> Self {
        let pitch = it.dst.pitch.max(it.width);
        let layer = it.dst.height.max(it.dst.y.saturating_add(it.height));
        let layer = layer.saturating_mul(pitch);
        let bytes = reach(&[
            (it.dst.x, it.width, 1),
            (it.dst.y, it.height, pitch),
            (it.dst.z, it.depth, layer),
        ]);
        Self::described(it.dst.kind, it.dst.host, it.dst.device, bytes)
    }
}

impl From<&Memcpy3DPeer> for Writes {
    fn from(it: &Memcpy3DPeer) -> Self {
        Self::from(&it.0)
    }
}

impl From<&CUDA_MEMSET_NODE_PARAMS> for Writes {
    fn from(it: &CUDA_MEMSET_NODE_PARAMS) -> Self {
        let size = it.elementSize as usize;
        Self::rows(it.dst, it.pitch, it.width, size, it.height)
    }
}

impl Agent {
    /// rtswap_hint_read_only: the program's kernels do not write `bytes` from `at` on until they
    /// are freed. Nothing where no arena is.
    pub fn hint_read_only(&self, at: u64, bytes: u64) {
        for device in self.devices.iter().filter(|device| device.holds(at)) {
            device.memory().hint_read_only(at, bytes);
        }
    }

    /// Notes what a call is about to write, once it has entered.
    pub fn note_writes(&self, writes: Writes) {
        let here = |writes: Writes| {
            for device in &self.devices {
                match writes {
                    Writes::Range { at, bytes } => device.hints.written(at, bytes),
                    Writes::Nothing | Writes::Changed(_) => {}
                    Writes::Graph(_) | Writes::Anything => device.hints.all_written(),
                }
            }
        };
        match writes {
            Writes::Graph(exec) => match lock_briefly(&self.graphs.0).get(&exec) {
                Some(known) => known.iter().copied().for_each(here),
                None => here(Writes::Anything),
            },
            Writes::Changed(exec) => self.forget_graph(exec),
            _ => here(writes),
        }
    }

    /// A graph was instantiated. What its nodes write is looked up only where somebody asks by now:
    /// of one that was there before the first hint it cannot be told.
    pub fn learn_graph(&self, exec: GraphExec, graph: Graph) {
        if !hints::any() {
            return;
        }
        let mut writes = Vec::new();
        let told = self.add_writes_of(graph, &mut writes);
        let mut known = lock_briefly(&self.graphs.0);
        match told {
            Ok(()) => known.insert(exec, writes),
            Err(_) => known.remove(&exec),
        };
    }

    /// An instantiated graph changes, or goes.
    pub fn forget_graph(&self, exec: GraphExec) {
        lock_briefly(&self.graphs.0).remove(&exec);
    }

    /// Adds what the nodes of a graph write. Kernels among them are as those of other launches: the
    /// program says of them that they do not write what it hinted.
    fn add_writes_of(&self, graph: Graph, writes: &mut Vec<Writes>) -> Result<(), Status> {
        for node in self.driver.graph_nodes(graph)? {
            match node {
                Node::Writes(Writes::Nothing) => {}
                Node::Writes(told) => writes.push(told),
                Node::Child(child) => self.add_writes_of(child, writes)?,
                Node::Other => return Err(Status::NOT_SUPPORTED),
            }
        }
        Ok(())
    }

    /// rtswap_hint_writable, and where the program gets `bytes` at `at` as new memory: whatever it said
    /// of them before, its kernels may write there from their next launch on.
    pub fn forget_hints(&self, at: u64, bytes: u64) {
        if hints::any() {
            for device in &self.devices {
                device.hints.forget(at, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::bench;

    /// What is known of an instantiated graph.
    fn known(agent: &Agent, exec: GraphExec) -> Option<Vec<Writes>> {
        lock_briefly(&agent.graphs.0).get(&exec).cloned()
    }

    #[test]
    fn a_graph_writes_what_its_nodes_and_those_within_write() {
        let bench = bench("graph-writes", |_| ());
        let (agent, driver) = (bench.agent, bench.driver);
        let at = bench.alloc(100);
        agent.hint_read_only(at, 100);
        let range = |at, bytes| Writes::Range { at, bytes };
        let (one, two) = (range(at, 76), range(at + 7, 9));
        let (whole, within, odd) = (Graph(1), Graph(2), Graph(3));
        let kernel = Node::Writes(Writes::Nothing);
        driver.add_graph(whole, vec![Node::Writes(one), kernel, Node::Child(within)]);
        driver.add_graph(within, vec![Node::Writes(two)]);
        driver.add_graph(odd, vec![Node::Writes(one), Node::Other]);
        let exec = GraphExec(0x10);
        agent.learn_graph(exec, whole);
        assert_eq!(known(agent, exec), Some(vec![one, two]));
        agent.note_writes(Writes::Changed(exec));
        assert_eq!(known(agent, exec), None, "its update may write anything");
        agent.learn_graph(exec, within);
        assert_eq!(known(agent, exec), Some(vec![two]));
        // The handle is another graph's by now, of which not all is known.
        agent.learn_graph(exec, odd);
        assert_eq!(known(agent, exec), None);
    }

    fn copy() -> Memcpy3D {
        // SAFETY: numbers only, for which zeros are valid.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn a_copy_to_memory_of_an_unknown_kind_may_write_anything() {
        let mut copy = copy();
        for kind in [0, 5, u32::MAX] {
            copy.dst.kind = kind;
            assert_eq!(Writes::from(&copy), Writes::Anything);
        }
    }

    #[test]
    fn a_described_copy_writes_from_the_first_byte_that_it_may_to_the_last() {
        let mut copy = copy();
        copy.dst.kind = DEVICE;
        (copy.dst.device, copy.dst.pitch, copy.dst.height) = (1000, 16, 4);
        (copy.width, copy.height, copy.depth) = (9, 3, 2);
        let range = |bytes| Writes::Range { at: 1000, bytes };
        assert_eq!(Writes::from(&copy), range(64 + 32 + 9));
        (copy.dst.x, copy.dst.y, copy.dst.z) = (5, 1, 1);
        assert_eq!(Writes::from(&copy), range(64 + 64 + 48 + 14));
        assert_eq!(Writes::rows(1000, 64, 3, 4, 2), range(64 + 12));
    }
}
