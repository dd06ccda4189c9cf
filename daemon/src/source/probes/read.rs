//! Reads what the programs counted: the counters are the truth, the rings say where to look first.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd as _, BorrowedFd};

use aya::maps::{HashMap, Map, MapData, PerCpuArray, RingBuf};
use aya::{Ebpf, Pod};
use rtswap_probe_abi::maps;
use rtswap_probe_abi::records::{Account, Bytes, End, Exit, Lost, News, Object, Process};

use super::problem::Problem;
use super::shares::Shares;
use super::tally::{Books, Name, named};
use rtswap_engine::Uuid;

/// News taken from the ring at a time. If there are more, all counters are read instead.
const AT_ONCE: usize = 1 << 17;

/// The maps that are read.
pub(super) struct Reader {
    processes: HashMap<MapData, u32, Process>,
    bytes: HashMap<MapData, Account, Bytes>,
    devices: HashMap<MapData, Object, [u8; 16]>,
    lost: PerCpuArray<MapData, u64>,
    shares: Shares,
    news: RingBuf<MapData>,
    exits: RingBuf<MapData>,
    /// The counters as they were read last.
    pub(super) books: Books,
    /// Processes that ended and still have entries in the maps, for the next sweep, with what was known of them last.
    ended: BTreeMap<Name, Option<Process>>,
    /// [`Lost::News`] as of the last full reading.
    lost_news: u64,
}

/// The news since the last reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    /// The memory of some process changed.
    pub(super) changed: bool,
    /// A process ended, or executed another program.
    pub(super) ended: bool,
    /// Processes that executed another program.
    pub(super) executed: Vec<u32>,
}

impl Reader {
    /// Takes the maps out of a loaded object.
    pub(super) fn new(ebpf: &mut Ebpf) -> Result<Self, Problem> {
        Ok(Self {
            processes: table(ebpf, maps::PROCESSES)?,
            bytes: table(ebpf, maps::BYTES)?,
            devices: table(ebpf, maps::DEVICES)?,
            lost: PerCpuArray::try_from(take(ebpf, maps::LOST)?)?,
            shares: Shares::new(ebpf)?,
            news: RingBuf::try_from(take(ebpf, maps::NEWS)?)?,
            exits: RingBuf::try_from(take(ebpf, maps::EXITS)?)?,
            books: Books::default(),
            ended: BTreeMap::new(),
            lost_news: 0,
        })
    }

    /// Readable when much changed, and when a process ended.
    pub(super) fn bells(&self) -> [BorrowedFd<'_>; 2] {
        [self.news.as_fd(), self.exits.as_fd()]
    }

    /// Takes the news, and reads the counters that they name.
    pub(super) fn take_news(&mut self) -> Result<Came, Problem> {
        let mut came = Came::default();
        let mut touched = BTreeSet::new();
        let mut taken = 0;
        while taken < AT_ONCE
            && let Some(record) = self.news.next()
        {
            taken += 1;
            // A record of another kind is not of a changed account.
            if let Some(news) = News::read(&record) {
                touched.insert(Account {
                    since: news.since,
                    context: news.context,
                    process: news.process,
                    device: news.device,
                });
            }
        }
        while let Some(record) = self.exits.next() {
            let Some(exit) = Exit::read(&record) else {
                continue;
            };
            came.ended = true;
            if exit.end == End::Executed as u32 {
                came.executed.push(exit.id_here);
            }
            // Otherwise other threads of the process may go on. The next look at all processes tells.
            if exit.end != End::FirstThread as u32 {
                self.ended.entry((exit.process, exit.since)).or_default();
            }
        }
        came.changed = !touched.is_empty() || came.ended;
        if self.lost(Lost::News)? != self.lost_news || taken == AT_ONCE {
            came.changed = true;
            self.read_all()?;
            return Ok(came);
        }
        for account in touched {
            let id = account.process;
            match found(self.processes.get(&id, 0))? {
                Some(process) if process.since == account.since => {
                    if let Some(bytes) = found(self.bytes.get(&account, 0))? {
                        self.books.accounts.insert(account, bytes);
                    }
                    self.learn(&account)?;
                    self.books.processes.insert(id, process);
                }
                _ => {}
            }
        }
        self.forget_ended();
        Ok(came)
    }

    /// Reads every counter, also those that lost news were about.
    pub(super) fn read_all(&mut self) -> Result<(), Problem> {
        self.lost_news = self.lost(Lost::News)?;
        // Accounts before processes: one without its process is then of a dead one.
        let accounts: Vec<_> = self.bytes.iter().filter_map(Result::ok).collect();
        let processes: Vec<_> = self.processes.iter().filter_map(Result::ok).collect();
        let before = std::mem::replace(&mut self.books.processes, processes.into_iter().collect());
        for (id, process) in before {
            if !self.books.is_living((id, process.since)) {
                let last = self.ended.entry((id, process.since)).or_default();
                last.get_or_insert(process);
            }
        }
        self.books.accounts.clear();
        for (account, bytes) in accounts {
            if self.books.is_living(named(&account)) {
                self.books.accounts.insert(account, bytes);
                self.learn(&account)?;
            } else {
                self.ended.entry(named(&account)).or_default();
            }
        }
        self.forget_ended();
        Ok(())
    }

    /// Whether ended processes have entries in the maps.
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Gives back what the owners of ended processes had taken for them. Not while their entries are being removed.
    pub(super) fn settle(&mut self) -> Result<(), Problem> {
        let ended = self.ended.values().flatten();
        self.shares
            .settle(self.books.processes.values().chain(ended))
    }

    /// Removes the counters of processes that ended; their other entries are the sweeper's.
    pub(super) fn sweep(&mut self) {
        let keys: Vec<_> = self.bytes.keys().filter_map(Result::ok).collect();
        for key in keys {
            if !self.is_living(named(&key)) {
                // Gone already is as good as removed.
                let _ = self.bytes.remove(&key);
            }
        }
        let keys: Vec<_> = self.devices.keys().filter_map(Result::ok).collect();
        for key in keys {
            if !self.is_living((key.process, key.since)) {
                let _ = self.devices.remove(&key);
            }
        }
        self.ended.clear();
    }

    /// Whether the programs still count for a process. What is not in the kernel's map never comes
    /// back under the same name.
    fn is_living(&self, (id, since): Name) -> bool {
        let process = self.processes.get(&id, 0);
        process.is_ok_and(|process| process.since == since)
    }

    /// Records the end of a process of which the kernel did not tell: it is no longer counted.
    pub(super) fn record_end(&mut self, id: u32) {
        if let Some(process) = self.books.processes.get(&id) {
            self.ended.entry((id, process.since)).or_default();
            // Gone already is as good as removed.
            let _ = self.processes.remove(&id);
        }
        self.forget_ended();
    }

    /// The number of lost records of one kind, on all CPUs together.
    pub(super) fn lost(&self, what: Lost) -> Result<u64, Problem> {
        Ok(self.lost.get(&(what as u32), 0)?.iter().sum())
    }

    /// The UUID of an account's GPU, if the process asked for it.
    fn learn(&mut self, account: &Account) -> Result<(), Problem> {
        let name = named(account);
        let own = self
            .books
            .processes
            .get(&name.0)
            .map(|process| process.device);
        for device in [Some(account.device), own].into_iter().flatten() {
            if self.books.gpus.contains_key(&(name, device)) {
                continue;
            }
            let object = Object {
                since: account.since,
                name: u64::from(device),
                process: account.process,
                zero: 0,
            };
            if let Some(uuid) = found(self.devices.get(&object, 0))? {
                self.books.gpus.insert((name, device), Uuid::of(uuid));
            }
        }
        Ok(())
    }

    fn forget_ended(&mut self) {
        let Self { books, ended, .. } = self;
        if ended.is_empty() {
            return;
        }
        for ((id, since), last) in ended.iter_mut() {
            if books.is_living((*id, *since)) {
                *last = books.processes.remove(id);
            }
        }
        let has_ended = |name: &Name| ended.contains_key(name);
        books
            .accounts
            .retain(|account, _| !has_ended(&named(account)));
        books.gpus.retain(|(name, _), _| !has_ended(name));
    }
}

pub(super) fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, Problem> {
    ebpf.take_map(name).ok_or(Problem::Object { what: name })
}

pub(super) fn table<K: Pod, V: Pod>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<HashMap<MapData, K, V>, Problem> {
    Ok(HashMap::try_from(take(ebpf, name)?)?)
}

/// None where the map has no such key.
fn found<V>(result: Result<V, aya::maps::MapError>) -> Result<Option<V>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(aya::maps::MapError::KeyNotFound) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
