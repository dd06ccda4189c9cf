//! Removes the entries of ended processes from the programs' maps, which would fill up otherwise.

use std::collections::BTreeSet;

use aya::maps::{HashMap, Map, MapData};
use aya::{Ebpf, Pod};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Allocation, Context, Mapping, Object, Physical};

use super::problem::Problem;
use super::tally::Name;

/// A map with one entry, or several, for each process.
trait Swept: Send {
    /// Removes the entries of all processes that do not live. Returns their number.
    fn sweep(&mut self, is_living: &dyn Fn(Name) -> bool) -> usize;
}

impl<V: Pod + Send> Swept for HashMap<MapData, Object, V> {
    fn sweep(&mut self, is_living: &dyn Fn(Name) -> bool) -> usize {
        // First all keys: a walk starts again from the beginning when the entry it stands on is removed.
        // Keys that cannot be read now are found by the next sweep.
        let keys: BTreeSet<_> = self.keys().filter_map(Result::ok).collect();
        let dead = keys
            .iter()
            .filter(|key| !is_living((key.process, key.since)));
        // Gone already is as good as removed.
        dead.filter(|key| self.remove(key).is_ok()).count()
    }
}

/// All such maps.
pub(super) struct Sweeper {
    maps: Vec<Box<dyn Swept>>,
}

impl Sweeper {
    /// Takes the maps out of a loaded object.
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<Self, Problem> {
        Ok(Self {
            maps: vec![
                swept::<Allocation>(ebpf, maps::ALLOCATIONS)?,
                swept::<Physical>(ebpf, maps::PHYSICAL)?,
                swept::<Mapping>(ebpf, maps::MAPPINGS)?,
                swept::<Context>(ebpf, maps::CONTEXTS)?,
                swept::<u64>(ebpf, maps::PRIMARIES)?,
                swept::<u32>(ebpf, maps::POOLS)?,
            ],
        })
    }

    /// Removes the entries of all processes that do not live. Returns their number.
    pub(super) fn sweep(&mut self, is_living: impl Fn(Name) -> bool) -> usize {
        let maps = self.maps.iter_mut();
        maps.map(|map| map.sweep(&is_living)).sum()
    }
}

fn swept<V: Pod + Send + 'static>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<Box<dyn Swept>, Problem> {
    let map: Map = ebpf.take_map(name).ok_or(Problem::Object { what: name })?;
    Ok(Box::new(HashMap::<_, Object, V>::try_from(map)?))
}
