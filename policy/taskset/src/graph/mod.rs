//! The file of a dataflow graph, as JSON: the tensors and operators of one iteration of a model. `read` knows the keys and
//! their rules, `wrong` finds the place where a graph cannot run, `digest` has the number by which a plan knows its graph.

mod digest;
mod read;
#[cfg(test)]
pub(crate) mod tests;
mod wrong;

pub use digest::digest;
pub use read::read_graph;
pub(crate) use read::tensor_numbers;

use rtswap_planner::graph::Graph;

/// A graph and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphFile {
    /// The name of the model, for people: not empty, at most [`crate::MAX_NAME`] characters, all visible.
    pub name: String,
    /// The graph. A tensor without a name has an empty one.
    pub graph: Graph,
}
