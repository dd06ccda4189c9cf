//! Graphs that can be launched. Their work is done one after another in an
//! order that the edges allow: branches do not overlap here.

use std::sync::{Arc, Mutex};

use super::owned::Kept;
use super::{Graph, NodeId, Op, next_id};
use crate::driver::context::Context;
use crate::driver::fence::Fence;
use crate::driver::lock;
use crate::driver::stream::Stream;
use crate::driver::work::Work;
use crate::{Error, Result};

/// CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.
const AUTO_FREE: u64 = 1;
/// All flags of cuGraphInstantiate; upload and device launch change nothing.
const FLAGS: u64 = 15;

/// An executable graph.
pub struct Exec {
    /// Unique in the process.
    pub id: usize,
    /// The flags it was instantiated with.
    pub flags: u64,
    /// The graph it was made from, as it was then.
    graph: Arc<Graph>,
    _kept: Vec<Kept>,
    state: Mutex<State>,
}

struct State {
    ops: Vec<(NodeId, Op)>,
    /// Launches of one graph come one after another, whatever their streams.
    last: Option<Arc<Fence>>,
}

impl Exec {
    pub(super) fn new(graph: &Arc<Graph>, flags: u64) -> Result<Arc<Self>> {
        if flags & !FLAGS != 0 {
            return Err(Error::InvalidValue);
        }
        let ops = graph.flatten()?;
        Ok(Arc::new(Self {
            id: next_id(),
            flags,
            graph: graph.clone(),
            _kept: graph.kept(),
            state: Mutex::new(State { ops, last: None }),
        }))
    }

    /// Replaces what a node does by something of the same kind.
    pub(super) fn replace(&self, node: NodeId, op: Op) -> Result<()> {
        let mut state = lock(&self.state);
        let place = state.ops.iter_mut().find(|(id, _)| *id == node);
        let (_, old) = place.ok_or(Error::InvalidValue)?;
        if old.kind() != op.kind() {
            return Err(Error::InvalidValue);
        }
        *old = op;
        Ok(())
    }

    /// Takes over what another graph of the same shape does.
    pub(super) fn update(&self, graph: &Graph) -> Result<()> {
        let new = graph.flatten()?;
        let mut state = lock(&self.state);
        let kinds = |ops: &[(NodeId, Op)]| ops.iter().map(|(_, op)| op.kind()).collect::<Vec<_>>();
        if kinds(&new) != kinds(&state.ops) {
            return Err(Error::GraphExecUpdateFailure);
        }
        for ((_, old), (_, op)) in state.ops.iter_mut().zip(new) {
            *old = op;
        }
        Ok(())
    }

    /// cuGraphUpload: memory is put in place before the launch.
    pub(super) fn upload(&self, context: &Context) -> Result<()> {
        let process = &context.executor.process;
        let state = lock(&self.state);
        let mut ops = state.ops.iter();
        ops.try_for_each(|(_, op)| match op {
            Op::Alloc(memory) => memory.upload(process),
            _ => Ok(()),
        })
    }

    /// cuGraphLaunch; on a capturing stream it becomes a node there.
    pub(super) fn launch(&self, context: &Arc<Context>, stream: &Arc<Stream>) -> Result<()> {
        if let Some(capture) = context.capture_of(stream)? {
            return capture
                .record(stream, Op::Child(self.graph.clone()))
                .map(drop);
        }
        context.check()?;
        let process = &context.executor.process;
        let mut state = lock(&self.state);
        for (_, op) in &state.ops {
            match op {
                Op::Alloc(memory) => memory.launch(process, self.flags & AUTO_FREE != 0)?,
                Op::Wait(event) => event.hold_back_now(context, stream)?,
                _ => {}
            }
        }
        let works = state.ops.iter().filter_map(|(_, op)| match op {
            Op::Work(work) => Some(work.clone()),
            _ => None,
        });
        let work = Work::Graph(works.collect());
        let done = context.submit(stream, work, state.last.take())?;
        for (_, op) in &state.ops {
            match op {
                Op::Free(address) => {
                    let memory = process.graph_memories.at(*address);
                    memory
                        .ok_or(Error::InvalidValue)?
                        .free(Some(done.clone()))?;
                }
                // Reached at the end of the graph, which is later than on silicon.
                Op::Record(event) => event.set_mark(context, done.clone()),
                _ => {}
            }
        }
        state.last = Some(done);
        context.count_graph_launch();
        Ok(())
    }

    /// Waits for the last launch.
    pub(super) fn wait(&self) {
        let last = lock(&self.state).last.clone();
        if let Some(last) = last {
            last.wait();
        }
    }
}
