//! Tests of the account as a whole: `nvml` and `probes` by the witness that is looked at; and the
//! samples and claims that all tests of the ledger use. Sizes are in MiB.

mod nvml;
mod probes;

use rtswap_policy::units::{Bytes, Time};

use crate::ledger::{Account, Claim, Terms};
use crate::sample::{GpuSample, Identity, ProcessSample};
use crate::uuid::Uuid;

pub(super) const MIB: u64 = 1 << 20;

pub(super) fn process(pid: u32, mib: u64) -> ProcessSample {
    ProcessSample {
        pid,
        bytes: Some(Bytes(mib * MIB)),
        identity: Some(Identity {
            uid: 1000,
            comm: "program".into(),
            origin: None,
            start_ticks: 0,
        }),
    }
}

/// A GPU on which only the processes use memory.
pub(super) fn sample(total: u64, processes: &[ProcessSample]) -> GpuSample {
    GpuSample {
        uuid: Uuid::of([1; 16]),
        name: "GPU".into(),
        total: Bytes(total * MIB),
        reserved: Bytes::ZERO,
        used: processes.iter().filter_map(|process| process.bytes).sum(),
        utilization: None,
        parent: None,
        caveat: None,
        processes: processes.to_vec(),
    }
}

/// The account of a GPU with 64 MiB, of which 8 are in reserve, in chunks of 2 MiB.
fn account() -> Account {
    Account::new(Terms {
        memory: Bytes(64 * MIB),
        reserve: Bytes(8 * MIB),
        chunk: Bytes(2 * MIB),
    })
}

fn claim(agent: u64, held: u64) -> Claim {
    Claim {
        agent: Some(Bytes(agent * MIB)),
        held: Bytes(held * MIB),
    }
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}
