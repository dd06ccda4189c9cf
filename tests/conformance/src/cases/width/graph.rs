//! Graphs and their nodes.

use super::objects::Object::{Alloc, Child, Copy, Exec, Free, Graph, Set};
use super::query::Arg::{Fields, Gives, Is, Of, Room};
use super::query::Query;

pub(super) const QUERIES: &[Query] = &[
    Query::new("cuGraphGetNodes", &[Of(Graph), Is(0), Gives(8)]),
    Query::new("cuGraphGetNodes", &[Of(Graph), Gives(16), Room(2)]),
    Query::new("cuGraphGetRootNodes", &[Of(Graph), Is(0), Gives(8)]),
    Query::new("cuGraphGetRootNodes", &[Of(Graph), Gives(8), Room(1)]),
    Query::new("cuGraphGetEdges", &[Of(Graph), Is(0), Is(0), Gives(8)]),
    Query::new(
        "cuGraphGetEdges",
        &[Of(Graph), Gives(16), Gives(16), Room(2)],
    ),
    Query::new(
        "cuGraphGetEdges_v2",
        &[Of(Graph), Gives(16), Gives(16), Gives(16), Room(2)],
    ),
    Query::new("cuGraphNodeGetDependencies", &[Of(Copy), Is(0), Gives(8)]),
    Query::new("cuGraphNodeGetDependencies", &[Of(Copy), Gives(8), Room(1)]),
    Query::new(
        "cuGraphNodeGetDependencies_v2",
        &[Of(Copy), Gives(8), Gives(8), Room(1)],
    ),
    Query::new("cuGraphNodeGetType", &[Of(Copy), Gives(4)]),
    // CUDA_MEMCPY3D: two types of memory have 32 bits in words of 64.
    Query::new(
        "cuGraphMemcpyNodeGetParams",
        &[
            Of(Copy),
            Fields(200, &[0..36, 40..64, 72..124, 128..152, 160..200]),
        ],
    ),
    Query::new("cuGraphMemsetNodeGetParams", &[Of(Set), Gives(40)]),
    Query::new("cuGraphChildGraphNodeGetGraph", &[Of(Child), Gives(8)]),
    Query::new("cuGraphMemAllocNodeGetParams", &[Of(Alloc), Gives(120)]),
    Query::new("cuGraphMemFreeNodeGetParams", &[Of(Free), Gives(8)]),
    Query::new("cuGraphExecGetFlags", &[Of(Exec), Gives(8)]),
];
