//! Tests of what people may see, as pure scenes: `tasks`, `gpus`, `processes` and `plan` are those of
//! the files above, `engine` is the whole; and the GPUs, samples and sessions that all of them use. Sizes are in MiB.

mod engine;
mod gpus;
mod plan;
mod processes;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use rtswap_policy::scheduler::Usage;
use rtswap_policy::task::TaskId;
use rtswap_policy::units::{Bytes, Time};

use crate::Uuid;
use crate::config::{Config, GpuConfig, SchedulerConfig, Settings};
use crate::engine::Gpu;
use crate::groups::ProcessId;
use crate::ids::{ConnectionId, Cookie, RegistrationId};
use crate::input::{Block, Kept, Peer};
use crate::ledger::Claim;
use crate::rules::{RuleSet, Rules};
use crate::sample::{GpuSample, Identity, ProcessSample};
use crate::sessions::{Device, Session, SessionId};

const GIB: u64 = 1024;

fn mib(mib: u64) -> Bytes {
    Bytes(mib << 20)
}

fn uuid(number: u8) -> Uuid {
    Uuid::of([number; 16])
}

/// Built-in values, without a GPU.
fn config() -> Config {
    Config {
        settings: Settings::default(),
        scheduler: SchedulerConfig::default(),
        gpus: Vec::new(),
        subordinates: crate::owners::Subordinates::default(),
        max_sessions: 10_000,
        everybody: Rules::default(),
        rules: RuleSet::new(),
    }
}

/// GPU `number` with 1 GiB, which NVML has not shown yet.
fn gpu(number: u8) -> Gpu {
    let described = GpuConfig::learned(uuid(number)).completed(mib(GIB), Bytes::ZERO);
    Gpu::new(described, None, &config())
}

/// Shows GPU `number` to its account with these processes, of which those with a claim have an agent.
fn show(gpu: &mut Gpu, number: u8, processes: &[ProcessSample], claims: &[(u32, u64)]) {
    let sample = GpuSample {
        uuid: uuid(number),
        name: "GPU".into(),
        total: mib(GIB),
        reserved: Bytes::ZERO,
        used: processes.iter().filter_map(|process| process.bytes).sum(),
        utilization: Some(7),
        parent: None,
        caveat: None,
        processes: processes.to_vec(),
    };
    let claim = |bytes| Claim {
        agent: Some(mib(bytes)),
        held: mib(bytes),
    };
    let claims: BTreeMap<_, _> = claims
        .iter()
        .map(|(pid, mib)| (*pid, claim(*mib)))
        .collect();
    gpu.account
        .reconcile(Time::ZERO, sample, &claims, &BTreeSet::new());
}

fn identity(comm: &str, origin: Option<&str>) -> Identity {
    Identity {
        uid: 1000,
        comm: comm.into(),
        origin: origin.map(Into::into),
        start_ticks: 5,
    }
}

/// A process as NVML shows it.
fn shown(pid: u32, bytes: u64) -> ProcessSample {
    ProcessSample {
        pid,
        bytes: Some(mib(bytes)),
        identity: Some(identity("shown", Some("nginx.service"))),
    }
}

fn session_id(registration: u64, process: u64) -> SessionId {
    SessionId {
        registration: RegistrationId(registration),
        process: ProcessId(process),
    }
}

/// A connected session that has `resident[i]` MiB on GPU i, and is on no GPU where that is none.
fn session(pid: u32, resident: &[Option<u64>]) -> Session {
    let device = |resident: &Option<u64>| {
        let usage = Usage {
            resident: mib(resident.unwrap_or_default()),
            ..Usage::default()
        };
        let kept = Kept {
            for_processes: usage.resident,
            ..Kept::default()
        };
        Device {
            task: resident.map(|_| TaskId(1)),
            block: Block {
                usage,
                kept,
                ..Block::default()
            },
            ..Device::default()
        }
    };
    Session {
        peer: Peer {
            pid,
            uid: 1000,
            comm: "agent".into(),
            start_ticks: 5,
            unit: None,
        },
        owner: crate::owners::Owner::User(1000),
        cookie: Cookie(1),
        connection: ConnectionId(u64::from(pid)),
        is_connected: true,
        began: Time::ZERO,
        undrained_since: None,
        lost_since: None,
        has_dodged: false,
        dodges: 0,
        stopped_since: None,
        notified: None,
        refused: None,
        devices: resident.iter().map(device).collect(),
    }
}

/// One that cannot be talked to.
fn lost(pid: u32) -> Session {
    Session {
        is_connected: false,
        ..session(pid, &[Some(1)])
    }
}
