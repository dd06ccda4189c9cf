//! The whole daemon, from its command line to its end.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::net::SocketType;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::bus::{self, Bus, JoinError, Shared};
use crate::cli::Arguments;
use crate::config::Config;
use crate::dispatch::{self, Parts, Running};
use crate::files::Files;
use crate::runtime::RuntimeDir;
use crate::state::Calibrations;
use crate::{names, sys, systemd};

/// How long the control side may take to end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Serves until SIGTERM or SIGINT. All that can be wrong is found before anything is served, and
/// leaves nothing behind; only a bus that cannot be reached is tried again later.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let files = Arc::new(Files::new(arguments.config.clone()));
    let contents = files.read()?;
    for error in contents.errors {
        tracing::error!("{error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the control side")?;
    // Before there is a socket: a program that finds one may already send a signal.
    let signals = {
        let _inside = runtime.enter();
        Signals::new().context("cannot wait for signals")?
    };
    let mut runtime_dir = RuntimeDir::open(&arguments.runtime_dir)?;
    let agents = runtime_dir.listen("agent.sock", SocketType::SEQPACKET)?;
    let control = runtime_dir.listen(rtswap_dbus::connect::CONTROL_SOCKET, SocketType::STREAM)?;
    sys::descriptor::raise_limit();
    announce(&contents.config, arguments);
    let parts = Parts {
        calibrations: Calibrations::of(&arguments.runtime_dir),
        config: contents.config,
        tasks: contents.tasks,
        listener: agents,
        runtime_dir: arguments.runtime_dir.clone(),
    };
    let mut dispatch = dispatch::start(parts).context("cannot start the dispatch thread")?;
    let stopped = runtime.block_on(serve(
        control.into(),
        arguments,
        files,
        &mut dispatch,
        signals,
    ));
    systemd::tell(NotifyState::Stopping);
    dispatch.handle.stop();
    let sound = dispatch.join();
    // Off the bus before the next daemon finds the folder free.
    runtime.shutdown_timeout(LAST_ANSWERS);
    drop(runtime_dir);
    stopped?;
    if !sound {
        bail!("the dispatch thread has panicked while ending");
    }
    Ok(())
}

/// Serves the control socket and the bus until the daemon is told to end.
async fn serve(
    control: UnixListener,
    arguments: &Arguments,
    files: Arc<Files>,
    dispatch: &mut Running,
    mut signals: Signals,
) -> anyhow::Result<()> {
    let handle = dispatch.handle.clone();
    let shared = Shared::new(
        handle.clone(),
        Arc::clone(&files),
        Calibrations::of(&arguments.runtime_dir),
    );
    let control = tokio::net::UnixListener::from_std(control)?;
    tokio::spawn(bus::control::serve(control, shared.clone()));
    let joined = tokio::select! {
        joined = bus::join(&arguments.bus, &shared) => joined,
        () = signals.end.recv() => return Ok(()),
    };
    let joined = match joined {
        Ok(joined) => joined,
        // Clients of that name would talk to another program.
        Err(error @ JoinError::Taken { .. }) => return Err(error.into()),
        Err(error) => {
            tracing::error!("{error}; trying again");
            None
        }
    };
    if arguments.bus != Bus::None {
        tokio::spawn(bus::stay(arguments.bus.clone(), joined, shared));
    }
    systemd::tell(NotifyState::Ready);
    tokio::spawn(systemd::keep_alive(handle.clone()));
    loop {
        tokio::select! {
            _ = signals.reload.recv() => match files.reload(&handle).await {
                Ok(()) => tracing::info!("SIGHUP: the files are in effect"),
                Err(error) => tracing::error!("SIGHUP: {}", names::show_all(&error.to_string())),
            },
            () = signals.end.recv() => return Ok(()),
            end = &mut dispatch.ended => match end {
                Ok(Ok(())) => bail!("the dispatch thread has stopped by itself"),
                Ok(Err(error)) => bail!("the dispatch thread has failed: {error}"),
                Err(_) => bail!("the dispatch thread has panicked; its last words are above"),
            },
        }
    }
}

/// The signals that the daemon handles.
struct Signals {
    end: End,
    reload: Signal,
}

/// Those that end it.
struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            end: End {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
            },
            reload: signal(SignalKind::hangup())?,
        })
    }
}

impl End {
    async fn recv(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!("{name}: ending");
    }
}

fn announce(config: &Config, arguments: &Arguments) {
    let folder = arguments.runtime_dir.display();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %folder, "rtswapd serves");
    if config.engine.gpus.is_empty() {
        tracing::info!("no GPU is configured: they are learned, with built-in costs");
    }
}
