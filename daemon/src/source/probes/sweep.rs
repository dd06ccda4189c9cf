//! Removes the entries of ended processes from the programs' maps, which would fill up otherwise: in a thread of its
//! own, because one process can leave so many that news of all others would wait for seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use aya::maps::{HashMap, Map, MapData};
use aya::{Ebpf, Pod};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Allocation, Context, Mapping, Object, Physical, Process};

use super::problem::Problem;
use super::read::table;
use super::tally::Name;

/// Keys that are kept at a time: a process may leave a million.
const AT_ONCE: usize = 1 << 15;

/// The work between two pauses.
const WORK: Duration = Duration::from_millis(1);

/// How much longer a pause is than the work before it: a user whose processes leave much behind keeps a quarter of one
/// processor busy.
const PAUSE: u32 = 3;

/// A map with one entry, or several, for each process.
trait Swept: Send {
    /// Removes the entries of all processes that do not live. Returns their number.
    fn sweep(&mut self, living: &mut Living, pace: &mut Pace) -> usize;
}

/// When the last pause ended.
struct Pace(Instant);

impl Pace {
    /// Pauses where the work has gone on long enough.
    fn keep(&mut self) {
        let work = self.0.elapsed();
        if work >= WORK {
            thread::sleep(work * PAUSE);
            self.0 = Instant::now();
        }
    }
}

impl<V: Pod + Send> Swept for HashMap<MapData, Object, V> {
    fn sweep(&mut self, living: &mut Living, pace: &mut Pace) -> usize {
        let mut swept = 0;
        loop {
            // First keys, then removals: a walk starts again from the beginning when the entry it stands on is removed,
            // and so pauses only where nobody else removes it. Keys that cannot be read now are found by the next sweep.
            let keys = self.keys().filter_map(Result::ok);
            let is_dead = |key: &Object| {
                let is_dead = !living.has((key.process, key.since));
                if is_dead {
                    pace.keep();
                }
                is_dead
            };
            let mut taken = 0;
            let dead = keys.filter(is_dead).take(AT_ONCE);
            let dead: BTreeSet<_> = dead.inspect(|_| taken += 1).collect();
            let mut remove = |key: &Object| {
                pace.keep();
                // Gone already is as good as removed.
                self.remove(key).is_ok()
            };
            let removed = dead.iter().filter(|key| remove(key)).count();
            swept += removed;
            if taken < AT_ONCE || removed == 0 {
                return swept;
            }
        }
    }
}

/// The processes that the programs count for.
struct Living {
    processes: HashMap<MapData, u32, Process>,
    /// Those that were looked up in this sweep: one that does not live never comes back under the same name.
    known: BTreeMap<Name, bool>,
}

impl Living {
    fn has(&mut self, name: Name) -> bool {
        let (id, since) = name;
        let find = || {
            let process = self.processes.get(&id, 0);
            process.is_ok_and(|process| process.since == since)
        };
        *self.known.entry(name).or_insert_with(find)
    }
}

/// All such maps, in their thread.
struct Maps {
    living: Living,
    maps: Vec<Box<dyn Swept>>,
}

impl Maps {
    fn sweep(&mut self) -> usize {
        let maps = self.maps.iter_mut();
        let mut pace = Pace(Instant::now());
        let swept = maps.map(|map| map.sweep(&mut self.living, &mut pace)).sum();
        pace.keep();
        self.living.known.clear();
        swept
    }
}

/// The handle of the thread, which ends when this is dropped.
pub(super) struct Sweeper {
    orders: SyncSender<()>,
    done: Receiver<usize>,
    is_busy: bool,
}

impl Sweeper {
    /// Takes the maps out of a loaded object that has its [`maps::PROCESSES`] still, and starts the thread.
    pub(super) fn start(ebpf: &mut Ebpf) -> Result<Self, Problem> {
        let mut maps = Maps {
            living: Living {
                processes: HashMap::try_from(shared(ebpf, maps::PROCESSES)?)?,
                known: BTreeMap::new(),
            },
            maps: vec![
                swept::<Allocation>(ebpf, maps::ALLOCATIONS)?,
                swept::<Physical>(ebpf, maps::PHYSICAL)?,
                swept::<Mapping>(ebpf, maps::MAPPINGS)?,
                swept::<Context>(ebpf, maps::CONTEXTS)?,
                swept::<u64>(ebpf, maps::PRIMARIES)?,
                swept::<u32>(ebpf, maps::POOLS)?,
            ],
        };
        let (orders, ordered) = sync_channel(1);
        let (tell, done) = sync_channel(1);
        thread::Builder::new()
            .name("probes-sweep".into())
            .spawn(move || while ordered.recv().is_ok() && tell.send(maps.sweep()).is_ok() {})?;
        Ok(Self {
            orders,
            done,
            is_busy: false,
        })
    }

    /// Begins to remove the entries of all processes that do not live, unless a removal goes on.
    pub(super) fn begin(&mut self) {
        if !self.is_busy {
            self.is_busy = self.orders.try_send(()).is_ok();
        }
    }

    /// Whether entries are being removed.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// How many entries were removed, once they all are.
    pub(super) fn take_done(&mut self) -> Result<Option<usize>, Problem> {
        match self.done.try_recv() {
            Ok(swept) => {
                self.is_busy = false;
                Ok(Some(swept))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::other("the thread that clears up has ended").into())
            }
        }
    }
}

/// A second handle of a map.
fn shared(ebpf: &Ebpf, what: &'static str) -> Result<Map, Problem> {
    let Some(Map::HashMap(data)) = ebpf.map(what) else {
        return Err(Problem::Object { what });
    };
    let descriptor = data.fd().as_fd().try_clone_to_owned()?;
    Ok(Map::from_map_data(MapData::from_fd(descriptor)?)?)
}

fn swept<V: Pod + Send + 'static>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<Box<dyn Swept>, Problem> {
    Ok(Box::new(table::<Object, V>(ebpf, name)?))
}
