//! The whole daemon: from its options to its end.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use anyhow::{Context, bail};
use rustix::net::SocketType;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{self, Config};
use crate::dispatch::{self, Parts};
use crate::registry::StateFile;
use crate::runtime::RuntimeDir;
use crate::{bus, sys};

/// What the command line decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file that the user named; else [`config::DEFAULT_FILE`], if it is there.
    pub config: Option<PathBuf>,
    /// The folder of the sockets, the lock and the state.
    pub runtime_dir: PathBuf,
}

/// Serves until SIGTERM or SIGINT. All that can be wrong is found before anything is served, and
/// leaves nothing behind.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let named = options.config.is_some();
    let file = options.config.clone();
    let file = file.unwrap_or_else(|| PathBuf::from(config::DEFAULT_FILE));
    let config = config::load(&file, named)?;
    let tasks_folder = file.with_file_name("tasks.d");
    let (tasks, errors) = config::load_tasks(&tasks_folder);
    for error in errors {
        tracing::error!("{error}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the control side")?;
    // Before there is a socket: whoever sees one may end us.
    let mut ends = {
        let _inside = runtime.enter();
        Ends::new().context("cannot wait for signals")?
    };
    let mut runtime_dir = RuntimeDir::open(&options.runtime_dir)?;
    let agents = runtime_dir.listen("agent.sock", SocketType::SEQPACKET)?;
    let control = runtime_dir.listen(rtswap_dbus::connect::CONTROL_SOCKET, SocketType::STREAM)?;
    sys::descriptor::raise_limit();
    announce(&config, options);
    let parts = Parts {
        config,
        tasks,
        listener: agents,
        state_file: StateFile::new(&options.runtime_dir),
    };
    let mut dispatch = dispatch::start(parts).context("cannot start the dispatch thread")?;
    let handle = dispatch.handle.clone();
    let stopped = runtime.block_on(async {
        let control = tokio::net::UnixListener::from_std(UnixListener::from(control))?;
        let serving = tokio::spawn(bus::control::serve(control, handle));
        tokio::select! {
            name = ends.next() => tracing::info!("{name}: ending"),
            end = &mut dispatch.ended => match end {
                Ok(Ok(())) => bail!("the dispatch thread has stopped by itself"),
                Ok(Err(error)) => bail!("the dispatch thread has failed: {error}"),
                Err(_) => bail!("the dispatch thread has panicked; its last words are above"),
            },
        }
        serving.abort();
        anyhow::Ok(())
    });
    dispatch.handle.stop();
    let sound = dispatch.join();
    stopped?;
    if !sound {
        bail!("the dispatch thread has panicked while ending");
    }
    Ok(())
}

/// The signals that end the daemon.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn announce(config: &Config, options: &Options) {
    let folder = options.runtime_dir.display();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), %folder, "rtswapd serves");
    if config.gpus.is_empty() {
        tracing::info!("no GPU is configured: they are learned, with built-in costs");
    }
}
