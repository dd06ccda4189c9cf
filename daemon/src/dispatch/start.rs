//! The start of the dispatch thread: from the files, the first NVML sample, and the state that the
//! previous daemon left.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rtswap_engine::input::{Input, Start, TaskFile};
use rtswap_engine::saved::{Saved, SavedSession};
use rtswap_engine::{ConnectionId, Engine};
use tokio::sync::oneshot;

use super::agents::Agents;
use super::calls::Calls;
use super::message::{self, Notice};
use super::token::Token;
use super::{Dispatcher, Handle};
use crate::agent::connection::Connection;
use crate::config::Config;
use crate::source;
use crate::state::{Calibrations, Keeper, RunTimeRules};
use crate::sys::clock::now;
use crate::sys::peer::{open_process, start_ticks};
use crate::sys::poll::{Poll, Watch};

/// Everything that the thread is started with.
#[derive(Debug)]
pub struct Parts {
    /// The administrator's file.
    pub config: Config,
    /// The administrator's registrations.
    pub tasks: Vec<TaskFile>,
    /// The agent socket: it listens and does not block.
    pub listener: OwnedFd,
    /// What was measured on GPUs.
    pub calibrations: Calibrations,
    /// The runtime folder, with the previous daemon's state.
    pub runtime_dir: PathBuf,
}

/// The running dispatch thread, as the rest of the daemon sees it.
#[derive(Debug)]
pub struct Running {
    /// Sends calls to the thread and receives its snapshots and news.
    pub handle: Handle,
    /// The reason of its end, once it ends. Closed without a value if it panicked.
    pub ended: oneshot::Receiver<Result<(), rustix::io::Errno>>,
    thread: thread::JoinHandle<()>,
}

impl Running {
    /// Waits for its end, once it was told to stop. False if it panicked.
    pub fn join(self) -> bool {
        self.thread.join().is_ok()
    }
}

/// Starts the thread, and those that read NVML and the probes. The first NVML sample is taken here, so
/// that nothing is served without it.
pub fn start(parts: Parts) -> std::io::Result<Running> {
    let (handle, inbox, publisher) = message::channel()?;
    let Config { daemon, engine } = parts.config;
    let configured = engine.gpus.iter().map(|gpu| gpu.uuid);
    let is_open = engine.gpus.is_empty() || engine.gpus.iter().any(|gpu| gpu.memory.is_none());
    let mut read = source::gpu::open(configured.collect(), is_open);
    let nvml = read();
    let dispatch = handle.clone();
    let deliver = move |sample| dispatch.notify(Notice::Nvml(sample));
    let poller = source::gpu::spawn(read, daemon.nvml_period, deliver)?;
    let cgroups = source::cgroups::Cgroups::find();
    let mut host = source::host::Host::begin(Arc::clone(&cgroups));
    let first_look = host.look();
    let dispatch = handle.clone();
    source::host::spawn(host, move |sample| dispatch.notify(Notice::Host(sample)))?;
    let prober = if daemon.probes {
        let dispatch = handle.clone();
        let deliver = move |sample| dispatch.notify(Notice::Probes(sample));
        Some(source::probes::spawn(deliver)?)
    } else {
        None
    };
    let dispatch = handle.clone();
    let (keeper, mut saved) = Keeper::open(&parts.runtime_dir, move |position| {
        // After the thread's end nobody needs to know.
        let _ = dispatch.notify(Notice::Checkpointed(position));
    })?;
    let poll = Poll::new()?;
    let subordinates = engine.subordinates.clone();
    let mut agents = Agents::new(parts.listener, subordinates, now());
    poll.add(inbox.fd(), Token::Wake.into(), Watch::Readable)?;
    poll.add(
        agents.listener.fd(),
        Token::Listener.into(),
        Watch::Readable,
    )?;
    drop_unclaimable(&mut saved);
    let awaited = await_processes(&saved, &mut agents, &poll);
    let mut dispatcher = Dispatcher {
        engine: Engine::new(engine),
        poll,
        inbox,
        agents,
        calls: Calls::default(),
        publisher,
        keeper,
        calibrations: parts.calibrations,
        run_time_rules: RunTimeRules::of(&parts.runtime_dir),
        config: daemon,
        nvml: poller,
        cgroups,
        _prober: prober,
    };
    let start = Start {
        saved,
        calibrations: dispatcher.calibrations.read(),
        awaited,
        tasks: parts.tasks,
        run_time_rules: dispatcher.run_time_rules.read(),
        nvml,
    };
    let begun = now();
    dispatcher.handle(Input::Start(Box::new(start)), begun);
    if let Some(sample) = first_look {
        dispatcher.handle(Input::Host(sample), begun);
    }
    dispatcher.publisher.publish(&mut dispatcher.engine, begun);
    let (end, ended) = oneshot::channel();
    let thread = thread::Builder::new()
        .name("dispatch".into())
        .spawn(move || {
            // If the receiver is gone, nobody needs to know.
            let _ = end.send(dispatcher.run());
        })?;
    Ok(Running {
        handle,
        ended,
        thread,
    })
}

/// Drops the registrations that only one process may claim, where that process is gone.
fn drop_unclaimable(saved: &mut Saved) {
    saved.registrations.retain(|entry| {
        let lives = entry
            .claimant
            .is_none_or(|it| open_again(it.pid, it.start_ticks).is_some());
        if !lives {
            tracing::info!(task = entry.task.name, "its only process is gone");
        }
        lives
    });
}

/// Watches the processes that had a session with the previous daemon and still live. Returns a connection
/// for each, with the index of its session in `saved`.
fn await_processes(saved: &Saved, agents: &mut Agents, poll: &Poll) -> Vec<(ConnectionId, usize)> {
    let mut awaited = Vec::new();
    for (at, session) in saved.sessions.iter().enumerate() {
        let SavedSession {
            pid, start_ticks, ..
        } = *session;
        let Some(process) = open_again(pid, start_ticks) else {
            continue;
        };
        let id = agents.take_id();
        if let Err(error) = poll.add_process(&process, id.0) {
            tracing::error!(pid, %error, "cannot watch a process");
            continue;
        }
        let connection = Connection::awaited(id, process);
        agents.connections.insert(id, connection);
        awaited.push((id, at));
    }
    awaited
}

/// A pidfd of the process `pid` that started at `ticks`, if it still lives.
fn open_again(pid: u32, ticks: u64) -> Option<OwnedFd> {
    // The descriptor first: while it is open, it cannot come to mean a later process with this pid.
    let process = open_process(pid)?;
    (start_ticks(pid) == Some(ticks)).then_some(process)
}
