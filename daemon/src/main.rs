//! The rtswap daemon.

use std::process::ExitCode;

use rtswap_dbus::text::escape_lines;
use rtswapd::cli::Arguments;
use rtswapd::log::Log;
use rtswapd::privileges;
use rtswapd::serve;
use rtswapd::sys::heap;
use rustix::process::{Signal, set_parent_process_death_signal};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = Arguments::of_process();
    if arguments.ask_driver {
        return rtswapd::source::gpu::answer();
    }
    if arguments.describe_driver {
        return rtswapd::source::gpu::describe();
    }
    if arguments.end_with_parent {
        // Should it fail, the parent still stops this daemon before its own end.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    heap::keep_little();
    let filter = match arguments.log.parse::<EnvFilter>() {
        Ok(filter) => quiet(filter),
        Err(error) => {
            eprintln!("rtswapd: --log {:?}: {error}", arguments.log);
            return ExitCode::from(BAD_INPUT);
        }
    };
    // Before the first thread.
    let reduced = privileges::reduce();
    let log = match Log::start(std::io::stderr()) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("rtswapd: cannot start the thread that logs: {error}");
            return ExitCode::from(FAILED);
        }
    };
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        // What the log writes out, colours are made of.
        .with_ansi(false);
    // systemd's journal stamps each line itself.
    if std::env::var_os("JOURNAL_STREAM").is_some() {
        subscriber.without_time().init();
    } else {
        subscriber.init();
    }
    if let Err(error) = reduced {
        tracing::warn!("CAP_SYS_ADMIN is not needed, and cannot be given back: {error}");
    }
    let end = serve::run(&arguments);
    log.flush();
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rtswapd: {}", escape_lines(&format!("{error:#}")));
            let bad_input = error.is::<rtswapd::config::ConfigError>();
            ExitCode::from(if bad_input { BAD_INPUT } else { FAILED })
        }
    }
}

/// Without the trivia of the library that loads the probes, thousands of lines at each start.
fn quiet(filter: EnvFilter) -> EnvFilter {
    let directives = ["aya::bpf=info", "aya_obj=info"];
    let directives = directives.iter().filter_map(|text| text.parse().ok());
    directives.fold(filter, EnvFilter::add_directive)
}

const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
