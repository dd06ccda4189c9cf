//! Accounts of single contexts → the bytes of each process on each GPU.

use std::collections::BTreeMap;

use rtswap_policy::units::Bytes;
use rtswap_probe_abi::records::{Account, Bytes as Counted, Kind, NO_DEVICE, Process};

use rtswap_engine::Uuid;
use rtswap_engine::sample::Held;

/// A process, by its id in the initial PID namespace and when the probes first saw it.
pub(super) type Name = (u32, u64);

/// The programs' counters as they were read last.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Processes by their id in the initial PID namespace.
    pub(super) processes: BTreeMap<u32, Process>,
    /// Bytes that are allocated now, by account.
    pub(super) accounts: BTreeMap<Account, Counted>,
    /// GPUs by process and by the CUDA ordinal that it has for them.
    pub(super) gpus: BTreeMap<(Name, u32), Uuid>,
}

impl Books {
    /// Bytes that process `id` holds, by GPU; first those on a GPU that is not known.
    pub(super) fn held(&self, id: u32) -> Vec<Held> {
        let Some(process) = self.processes.get(&id) else {
            return Vec::new();
        };
        let name = (id, process.since);
        let mut sums: BTreeMap<Option<Uuid>, (i64, i64)> = BTreeMap::new();
        let own = self
            .accounts
            .iter()
            .filter(|(account, _)| named(account) == name);
        for (account, counted) in own {
            // An account of no context is on the process's only GPU, if it has one.
            let device = match account.device {
                NO_DEVICE => process.device,
                device => device,
            };
            let gpu = self.gpus.get(&(name, device)).copied();
            let (bytes, managed) = sums.entry(gpu).or_default();
            let counted_managed = counted.live[Kind::Managed as usize];
            *managed += counted_managed;
            *bytes += counted.total() - counted_managed;
        }
        let positive = |bytes: i64| Bytes(bytes.max(0).cast_unsigned());
        let held = sums.into_iter().map(|(gpu, (bytes, managed))| Held {
            gpu,
            bytes: positive(bytes).saturating_sub(Bytes(process.unfreed_bytes)),
            managed: positive(managed),
        });
        held.filter(|held| held.bytes + held.managed > Bytes::ZERO)
            .collect()
    }

    /// Whether the process lives, as far as the counters tell.
    pub(super) fn is_living(&self, (id, since): Name) -> bool {
        let process = self.processes.get(&id);
        process.is_some_and(|process| process.since == since)
    }
}

/// The process that the account belongs to.
pub(super) fn named(account: &Account) -> Name {
    (account.process, account.since)
}

/// Whether every call of the process was followed.
pub(super) fn is_exact(process: &Process) -> bool {
    process.unseen_bytes == 0 && process.unfreed_bytes == 0 && process.unnamed == 0
}

#[cfg(test)]
pub(super) mod tests {
    use rtswap_probe_abi::records::{KINDS, SHARES};

    use super::*;

    const GPU: Uuid = Uuid::of([7; 16]);

    /// A process that has made no call.
    pub(in super::super) fn process(since: u64) -> Process {
        Process {
            since,
            calls: 0,
            failures: 0,
            unseen_calls: 0,
            unseen_bytes: 0,
            unfreed_objects: 0,
            unfreed_bytes: 0,
            unknown_frees: 0,
            lost_news: 0,
            id_here: 5,
            device: NO_DEVICE,
            owner: 0,
            unnamed: 0,
            foreign: 0,
            zero: 0,
            used: [0; SHARES],
            taken: [0; SHARES],
        }
    }

    fn account(since: u64, context: u64, device: u32) -> Account {
        Account {
            since,
            context,
            process: 5,
            device,
        }
    }

    fn counted(kind: Kind, bytes: i64) -> Counted {
        let mut live = [0; KINDS];
        live[kind as usize] = bytes;
        Counted { live }
    }

    fn books() -> Books {
        let mut books = Books::default();
        books.processes.insert(5, process(100));
        books.gpus.insert(((5, 100), 0), GPU);
        books
    }

    fn held(gpu: Option<Uuid>, bytes: u64, managed: u64) -> Held {
        Held {
            gpu,
            bytes: Bytes(bytes),
            managed: Bytes(managed),
        }
    }

    #[test]
    fn contexts_and_kinds_are_added_by_gpu() {
        let mut books = books();
        books
            .accounts
            .insert(account(100, 1, 0), counted(Kind::Plain, 10));
        books
            .accounts
            .insert(account(100, 2, 0), counted(Kind::Managed, 4));
        books
            .accounts
            .insert(account(100, 0, 0), counted(Kind::Physical, 6));
        books
            .accounts
            .insert(account(100, 3, 1), counted(Kind::Array, 3));
        books
            .accounts
            .insert(account(99, 3, 0), counted(Kind::Plain, 1000));
        assert_eq!(books.held(5), [held(None, 3, 0), held(Some(GPU), 16, 4)]);
        assert_eq!(books.held(6), []);
        assert!(books.is_living((5, 100)) && !books.is_living((5, 99)));
    }

    #[test]
    fn memory_of_no_context_is_on_the_only_gpu() {
        let mut books = books();
        books
            .accounts
            .insert(account(100, 0, NO_DEVICE), counted(Kind::Plain, 8));
        assert_eq!(books.held(5), [held(None, 8, 0)]);
        books.processes.get_mut(&5).unwrap().device = 0;
        assert_eq!(books.held(5), [held(Some(GPU), 8, 0)]);
    }

    #[test]
    fn what_may_be_freed_is_not_held_for_certain() {
        let mut books = books();
        books
            .accounts
            .insert(account(100, 1, 0), counted(Kind::Plain, 10));
        books.processes.get_mut(&5).unwrap().unfreed_bytes = 4;
        assert!(!is_exact(&books.processes[&5]));
        assert_eq!(books.held(5), [held(Some(GPU), 6, 0)]);
        let full = Process {
            unnamed: 1,
            ..process(100)
        };
        assert!(is_exact(&process(100)) && !is_exact(&full));
        // A free that was counted before its allocation.
        books
            .accounts
            .insert(account(100, 1, 0), counted(Kind::Plain, -10));
        assert_eq!(books.held(5), []);
    }
}
