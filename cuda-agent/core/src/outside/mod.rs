//! What a program holds on a GPU beyond the arena. It cannot be swapped, so it is left alone and
//! counted: its bytes are taken from the budget before the driver is asked for them, and given back
//! when it is freed or its context ends. Module globals are no part of this: drivers do not tell
//! their size, and what a context is charged covers them.

mod array;

pub use array::ArrayShape;

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::agent::Agent;
use crate::cuda::{Context, Location, Status};
use crate::device::Device;
use crate::gate::lock;
use crate::record::AllocKind;

/// How the driver names what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// Memory, by its address.
    Memory(u64),
    /// A CUarray.
    Array(usize),
    /// A CUmipmappedArray.
    Mipmapped(usize),
}

impl Held {
    /// As what it is recorded.
    fn kind(self) -> AllocKind {
        match self {
            Self::Memory(_) => AllocKind::Driver,
            Self::Array(_) | Self::Mipmapped(_) => AllocKind::Array,
        }
    }
}

/// What is held on one GPU: bytes, and the context that it ends with.
#[derive(Debug, Default)]
pub struct Outside {
    held: Mutex<BTreeMap<Held, (u64, Context)>>,
    /// For memory nodes of graphs; nothing as long as there was none.
    graphs: Mutex<Option<u64>>,
}

impl Agent {
    /// Makes by `make` what takes `bytes` of the current context's GPU. `made` names it once it is
    /// there. `for_good`: it ends with the GPU, not with the context.
    pub fn hold(
        &self,
        bytes: u64,
        for_good: bool,
        mut make: impl FnMut() -> Status,
        made: impl FnOnce() -> Option<Held>,
    ) -> Status {
        let Some((device, context)) = self.current_known() else {
            return make();
        };
        let taken = self.under_pressure(device, || Ok(device.reserve(bytes)?));
        if let Err(status) = taken {
            return status;
        }
        let status: Status = device
            .insist(|| match make() {
                Status::SUCCESS => Ok(()),
                status => Err(status.into()),
            })
            .into();
        match (status == Status::SUCCESS).then(made).flatten() {
            Some(held) => {
                let context = if for_good { Context::NONE } else { context };
                lock(&device.outside.held).insert(held, (bytes, context));
                device.record_alloc(bytes, held.kind());
            }
            None => device.memory().discount_outside(bytes),
        }
        status
    }

    /// The driver freed what was held, if it was.
    pub fn let_go(&self, held: Held) {
        for device in &self.devices {
            let found = lock(&device.outside.held).remove(&held);
            if let Some((bytes, _)) = found {
                device.memory().discount_outside(bytes);
                device.record_free(bytes, held.kind());
            }
        }
    }
}

impl Agent {
    /// Makes by `make` a memory node of a graph, whose memory lies at `place`, or, where that is not
    /// said, on the current context's GPU. Its bytes count there until the driver says what it
    /// reserved for graphs.
    pub fn hold_for_graph(
        &self,
        place: Option<Location>,
        bytes: u64,
        mut make: impl FnMut() -> Status,
    ) -> Status {
        let current = self.current_known().map(|(device, _)| device);
        let device = match place {
            Some(place) if place.kind == Location::DEVICE => self.device(place.id),
            Some(place) if place.is_host() => None,
            // What is not said, or some part of a GPU, which only the driver can tell.
            _ => current,
        };
        let Some(device) = device else {
            return make();
        };
        // Not under pressure: nothing waits for a stream while one captures.
        if let Err(status) = device.reserve(bytes) {
            return Status::from(status);
        }
        let status = make();
        if status == Status::SUCCESS {
            *lock(&device.outside.graphs).get_or_insert_default() += bytes;
        } else {
            device.memory().discount_outside(bytes);
        }
        status
    }

    /// After graphs ran, or gave memory back: what the driver reserved for them counts now. That
    /// may be nothing for now: a graph that was made is launched later, and again after a trim.
    pub fn recount_graphs(&self, device: &Device) {
        let mut graphs = lock(&device.outside.graphs);
        let Some(before) = *graphs else {
            return;
        };
        if let Ok(bytes) = self.driver.graph_memory(device.ordinal) {
            *graphs = Some(bytes);
            drop(graphs);
            device
                .memory()
                .discount_outside(before.saturating_sub(bytes));
            device.count(bytes.saturating_sub(before));
        }
    }
}

impl Device {
    /// A context ended, and what was held in it.
    pub fn let_all_go(&self, context: Context) {
        let mut gone = 0;
        lock(&self.outside.held).retain(|held, &mut (bytes, of)| {
            let stays = of != context;
            if !stays {
                gone += bytes;
                self.record_free(bytes, held.kind());
            }
            stays
        });
        self.memory().discount_outside(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{CHUNK, bench};
    use crate::cuda::{MemoryPool, Stream};
    use crate::driver::fake::FakeDriver;

    #[test]
    fn memory_of_a_graph_counts_as_often_as_the_driver_reserves_it() {
        let bench = bench("graph-memory", |terms| terms.idle_us = 60_000_000);
        bench.alloc(10);
        bench.launch(|| ());
        let (agent, device) = (bench.agent, &bench.agent.devices[0]);
        let (before, _) = bench.usage();
        let made = agent.hold_for_graph(None, CHUNK, || Status::SUCCESS);
        assert_eq!(made, Status::SUCCESS);
        assert_eq!(bench.usage().0, before + CHUNK, "before it is launched");
        // What is asked between the node's birth and its launch, and after each trim.
        for reserved in [0, CHUNK, 0, 2 * CHUNK, 0] {
            bench.driver.set_graph_memory(reserved);
            agent.recount_graphs(device);
            assert_eq!(bench.usage().0, before + reserved, "{reserved}");
        }
    }

    #[test]
    fn memory_of_a_graph_counts_on_the_gpu_where_it_lies() {
        let bench = bench("graph-place", |terms| terms.idle_us = 60_000_000);
        bench.alloc(10);
        bench.launch(|| ());
        let (agent, device) = (bench.agent, &bench.agent.devices[0]);
        let (before, _) = bench.usage();
        let host = |kind| Some(Location { kind, id: 0 });
        let part = Some(Location { kind: 99, id: 1 });
        // Only GPU 0 is managed.
        for (current, place, counts) in [
            (0, host(Location::HOST), false),
            (0, host(Location::HOST_NUMA), false),
            (0, host(Location::HOST_NUMA_CURRENT), false),
            (0, Some(Location::device(1)), false),
            (1, None, false),
            (1, Some(Location::device(0)), true),
            (0, Some(Location::device(0)), true),
            (0, part, true),
            (0, None, true),
        ] {
            // As if there never was a node.
            *lock(&device.outside.graphs) = None;
            bench.driver.set_current_device(current);
            let made = agent.hold_for_graph(place, CHUNK, || Status::SUCCESS);
            assert_eq!(made, Status::SUCCESS);
            let bytes = if counts { CHUNK } else { 0 };
            let (now, _) = bench.usage();
            assert_eq!(now, before + bytes, "{place:?} from GPU {current}");
            // What launched memory takes is counted where there was a node.
            for reserved in [2 * bytes, 0] {
                bench.driver.set_graph_memory(reserved);
                agent.recount_graphs(device);
                assert_eq!(
                    bench.usage().0,
                    before + reserved,
                    "{place:?} from GPU {current}"
                );
            }
        }
    }

    #[test]
    fn what_a_pool_gives_lies_on_its_gpu() {
        let bench = bench("graph-pool", |_| ());
        bench.alloc(10);
        let agent = bench.agent;
        let [made, unknown] = [MemoryPool(0xb1), MemoryPool(0xb2)];
        agent.pool_made(made, 0, false, 0);
        bench.driver.set_current_device(1);
        for (pool, gpu) in [
            (Some(FakeDriver::POOL), Some(0)),
            (Some(made), Some(0)),
            (Some(unknown), None),
        ] {
            assert_eq!(agent.ordered_gpu(Stream::LEGACY, pool), gpu, "{pool:?}");
        }
    }
}
