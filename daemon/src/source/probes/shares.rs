//! What each owner has taken of the maps: the programs add to it, the daemon takes away what ended processes had.

use std::collections::BTreeMap;

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Process, SHARES, Share, Taken};

use super::problem::Problem;
use super::read::{table, take};

/// The maps in which that is.
pub struct Shares {
    owners: HashMap<MapData, u32, Taken>,
    all: Array<MapData, Taken>,
}

impl Shares {
    /// Takes the maps out of a loaded object.
    pub fn new(ebpf: &mut Ebpf) -> Result<Self, Problem> {
        Ok(Self {
            owners: table(ebpf, maps::OWNERS)?,
            all: Array::try_from(take(ebpf, maps::TAKEN)?)?,
        })
    }

    /// Makes it what the living processes have. What the programs add meanwhile may be lost, and is found the next
    /// time: the shares are bounds, and the maps have their own.
    pub fn settle<'a>(&mut self, living: impl Iterator<Item = &'a Process>) -> Result<(), Problem> {
        let (owners, all) = sums(living);
        let known: Vec<u32> = self.owners.keys().filter_map(Result::ok).collect();
        for owner in known {
            if !owners.contains_key(&owner) {
                // Gone already is as good as removed.
                let _ = self.owners.remove(&owner);
            }
        }
        for (owner, taken) in owners {
            self.owners.insert(owner, taken, 0)?;
        }
        self.all.set(0, all, 0)?;
        Ok(())
    }
}

/// What each owner has taken for its processes, and all together.
fn sums<'a>(living: impl Iterator<Item = &'a Process>) -> (BTreeMap<u32, Taken>, Taken) {
    const NONE: Taken = Taken {
        entries: [0; SHARES],
    };
    let (mut owners, mut all) = (BTreeMap::new(), NONE);
    for process in living {
        let mut taken = process.taken;
        taken[Share::Processes as usize] = 1;
        let own = owners.entry(process.owner).or_insert(NONE);
        for sum in [own, &mut all] {
            for (sum, taken) in sum.entries.iter_mut().zip(taken) {
                *sum = sum.saturating_add(taken);
            }
        }
    }
    (owners, all)
}

#[cfg(test)]
mod tests {
    use super::super::tally::tests;
    use super::*;

    #[test]
    fn what_the_processes_of_an_owner_took_is_added() {
        let process = |owner, taken| Process {
            owner,
            used: [9; SHARES],
            taken,
            ..tests::process(1)
        };
        let living = [
            process(7, [0, 4, 256, 0, 0, 2, 0, 0]),
            process(7, [0, 4, 512, 0, 64, 2, 0, 0]),
            process(8, [0, 4, u32::MAX, 0, 0, 2, 0, 0]),
        ];
        let (owners, all) = sums(living.iter());
        let taken = |entries| Taken { entries };
        assert_eq!(
            owners,
            BTreeMap::from([
                (7, taken([2, 8, 768, 0, 64, 4, 0, 0])),
                (8, taken([1, 4, u32::MAX, 0, 0, 2, 0, 0])),
            ])
        );
        assert_eq!(all, taken([3, 12, u32::MAX, 0, 64, 6, 0, 0]));
    }
}
