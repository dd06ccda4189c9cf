//! The thread that keeps the probes where the drivers are, and reads what they count.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Problem;
use super::watch::Watch;
use rtswap_engine::sample::{ProbeSample, ProbeState};
use rtswap_policy::units::Time;

/// The least time between two readings of the rings, however many news arrive.
const PACE: Duration = Duration::from_millis(20);

/// The longest wait for news after that.
const BEAT: Duration = Duration::from_millis(80);

/// The time between two scans for drivers.
const SCAN: Duration = Duration::from_millis(250);

/// The time between two readings of all counters.
const WHOLE: Duration = Duration::from_secs(1);

/// The longest time between two samples while there are processes, changed or not: the ledger must see
/// whether a difference from an agent's report lasts.
const DELIVER: Duration = Duration::from_millis(200);

/// The handle of the thread, which ends when this is dropped or when nothing takes its samples.
#[derive(Debug)]
pub struct Prober {
    /// A pipe's end: dropping it tells the thread to end.
    _life: OwnedFd,
}

/// Starts the thread. `deliver` takes a sample, and returns whether more are wanted.
pub fn spawn(deliver: impl FnMut(ProbeSample) -> bool + Send + 'static) -> io::Result<Prober> {
    let (ended, life) = pipe_with(PipeFlags::CLOEXEC)?;
    thread::Builder::new()
        .name("probes".into())
        .spawn(move || run(&ended, deliver))?;
    Ok(Prober { _life: life })
}

/// Watches until it is told to end, or cannot go on, which is logged with the reason.
fn run(ended: &OwnedFd, mut deliver: impl FnMut(ProbeSample) -> bool) {
    if let Err(problem) = watch(ended, &mut deliver) {
        tracing::warn!(
            "without eBPF probes: {problem}; memory is known from NVML and from agents only \
             (`probes = false` in [daemon] says that none are wanted)"
        );
        let state = ProbeState::Missing(problem.to_string().into());
        // If the receiver of samples is gone, nobody needs to know.
        let _ = deliver(ProbeSample {
            state,
            complete_at: Time::ZERO,
            processes: Vec::new(),
        });
    }
}

fn watch(ended: &OwnedFd, deliver: &mut impl FnMut(ProbeSample) -> bool) -> Result<(), Problem> {
    let mut watch = Watch::begin()?;
    let mut last = watch.sample()?;
    if !deliver(last.clone()) {
        return Ok(());
    }
    let start = Instant::now();
    let (mut scanned, mut read_whole, mut delivered) = (start, start, start);
    loop {
        if is_ended(ended, &watch)? {
            return Ok(());
        }
        let now = Instant::now();
        let came = watch.take_news()?;
        watch.finish_sweep()?;
        if now - scanned >= SCAN {
            scanned = now;
            watch.scan(false)?;
        }
        if now - read_whole >= WHOLE {
            read_whole = now;
            watch.read_whole()?;
        }
        let sample = watch.sample()?;
        let due = !sample.processes.is_empty() && now - delivered >= DELIVER;
        if came || due || sample != last {
            delivered = now;
            last = sample;
            if !deliver(last.clone()) {
                return Ok(());
            }
        }
    }
}

/// Waits for news or the next beat. True if it is time to end.
fn is_ended(ended: &OwnedFd, watch: &Watch) -> Result<bool, Problem> {
    // Not before the pace allows it, whatever has come.
    let [news, exits] = watch.bells();
    let mut all = [
        PollFd::new(ended, PollFlags::IN),
        PollFd::new(&news, PollFlags::IN),
        PollFd::new(&exits, PollFlags::IN),
    ];
    for (bells, time) in [(1, PACE), (3, BEAT)] {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: time.as_nanos() as i64,
        };
        match poll(&mut all[..bells], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        if !all[0].revents().is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
