//! `RTSWAP_TORTURE=every-call`, a test aid: between every two GPU calls of the program all that may
//! leave leaves and comes back. What breaks a program rarely breaks it at once then.
//!
//! It costs nothing when it is off: a bit among the closed gates sends every call to the agent.

use std::time::Duration;

use rtswap_wire::page::Direction;

use crate::agent::Agent;
use crate::cuda::Context;
use crate::device::{Device, Paused};
use crate::gate;
use crate::log::{debug, say};
use crate::memory::{Backing, Memory, Reins};
use crate::work::in_context;

/// Between two questions for a budget that was refused.
const PAUSE: Duration = Duration::from_millis(5);
/// For how many jobs it is tried that end before anything of theirs has left.
const TRIES: u32 = 20;

/// How a process is tortured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torture {
    /// At the entry of each GPU call.
    EveryCall,
}

impl Torture {
    /// From RTSWAP_TORTURE. A value that is not known is said, and counts for nothing.
    pub fn from_env() -> Option<Self> {
        let value = std::env::var_os("RTSWAP_TORTURE").filter(|value| !value.is_empty())?;
        let known = Self::parse(value.to_str().unwrap_or_default());
        if known.is_none() {
            let value = value.display();
            say(format_args!(
                "RTSWAP_TORTURE={value} means nothing: only every-call does"
            ));
        }
        known
    }

    fn parse(value: &str) -> Option<Self> {
        (value == "every-call").then_some(Self::EveryCall)
    }

    /// At the entry of a call on `device`, while the caller is in none: swaps everything out and in
    /// once a job runs. Not while a stream captures, or where work does not end in the drain bound.
    pub(crate) fn inflict(self, agent: &Agent, device: &Device) {
        let Self::EveryCall = self;
        for _ in 0..TRIES {
            device.admit(|| agent.wake.ring());
            let Some(context) = agent.work.context_on(device.ordinal) else {
                return;
            };
            seat_all(agent, device, context);
            // The caller is in no call, so that its job may have ended meanwhile, as too long idle:
            // then the gate is closed.
            if out_and_in(agent, device, context) != Paused::Not || gate::is_open(device.bit) {
                return;
            }
        }
    }
}

/// Swaps everything out and in between two calls of the job that runs, if one does.
fn out_and_in(agent: &Agent, device: &Device, context: Context) -> Paused {
    device.prepare_fingerprints();
    let (mut left, mut moved) = (0, 0);
    let bound = agent.session().drain_bound;
    let mut paused = device.pause(&agent.work, bound, || {
        let mut memory = device.memory();
        if memory.fingerprints() {
            memory.fingerprint(context);
        }
        out(agent, &mut memory, context, &mut moved);
        left = memory.swapped_bytes();
        back(agent, &mut memory, context)
    });
    while paused == Paused::Closed {
        // Somebody was given the budget meanwhile. The job may end while it is asked for, as
        // any job may; then its next one finds the memory.
        if device.lacks_budget() {
            std::thread::sleep(PAUSE);
        }
        paused = device.pause(&agent.work, bound, || {
            back(agent, &mut device.memory(), context)
        });
    }
    debug(format_args!(
        "torture: {left} bytes out and in, {moved} of them copied out"
    ));
    paused
}

/// Pins a slot for each chunk that has none.
fn seat_all(agent: &Agent, device: &Device, context: Context) {
    let _pinning = gate::lock(&device.pinning);
    let (lacking, chunk) = {
        let memory = device.memory();
        let chunk = memory.chunk_bytes();
        let lacking = memory
            .usage()
            .arena_bytes
            .saturating_sub(memory.backing_bytes());
        (lacking.div_ceil(chunk) as usize, chunk)
    };
    if lacking == 0 {
        return;
    }
    let pinned = in_context(agent.driver, context, || {
        Ok(Backing::pin(agent.driver, chunk, lacking))
    });
    if let Ok((segments, _)) = pinned {
        device.memory().grow_backing(segments, context);
    }
}

fn out(agent: &Agent, memory: &mut Memory, context: Context, moved: &mut u64) {
    let all = memory.backing_bytes();
    let mut go_on = |_| Reins::Go;
    // What does not leave stays, and nothing is lost.
    let _ = in_context(agent.driver, context, || {
        Ok(memory.swap(Direction::Out, all, context, moved, &mut go_on))
    });
}

/// Whether all is resident again.
fn back(agent: &Agent, memory: &mut Memory, context: Context) -> bool {
    let mut go_on = |_| Reins::Go;
    let _ = in_context(agent.driver, context, || {
        Ok(memory.swap(Direction::In, 0, context, &mut 0, &mut go_on))
    });
    memory.swapped_bytes() == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;
    use crate::agent::tests::{Bench, CHUNK, CONTEXT, MEMORY, bench, pattern};
    use crate::cuda::Stream;
    use crate::session::fake_daemon::BOUND;

    #[test]
    fn only_what_is_known_tortures() {
        assert_eq!(Torture::parse("every-call"), Some(Torture::EveryCall));
        assert_eq!(Torture::parse("every call"), None);
    }

    /// Tortures under a job that runs; `meanwhile` is done as long as that lasts.
    fn torture(bench: &Bench, mut meanwhile: impl FnMut()) {
        std::thread::scope(|scope| {
            let inflicted = scope.spawn(|| {
                Torture::EveryCall.inflict(bench.agent, &bench.agent.devices[0]);
            });
            let start = Instant::now();
            while !inflicted.is_finished() {
                meanwhile();
                assert!(start.elapsed() < BOUND, "no end of it");
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn everything_leaves_and_comes_back_and_the_accounts_are_as_before() {
        let bench = bench("torture", |terms| terms.idle_us = 10_000_000);
        let bytes = 3 * CHUNK + 5;
        let (at, data) = (bench.alloc(bytes), pattern(3, bytes as usize));
        bench.launch(|| bench.driver.write(at, &data).unwrap());
        let before = bench.usage();
        assert_eq!(before, (CONTEXT + 4 * CHUNK, 0));
        let (out, back) = bench.driver.copied();
        torture(&bench, || ());
        let (out, back) = {
            let (out_now, back_now) = bench.driver.copied();
            (out_now - out, back_now - back)
        };
        assert_eq!((out, back), (4 * CHUNK, 4 * CHUNK));
        assert_eq!(bench.usage(), before);
        assert!(bench.agent.devices[0].runs(), "the job goes on");
        assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
        // Chunks that appear later are pinned for then.
        bench.alloc(2 * CHUNK);
        torture(&bench, || ());
        assert_eq!(bench.driver.copied().0 - out, 6 * CHUNK);
    }

    #[test]
    fn a_job_that_ends_before_its_memory_has_left_is_followed_by_one_that_is_tortured() {
        let bench = bench("torture-late", |terms| terms.idle_us = 2_000);
        bench.alloc(3 * CHUNK);
        bench.launch(|| ());
        let (out, _) = bench.driver.copied();
        let (driver, agent) = (bench.driver, bench.agent);
        let idled = Arc::new(AtomicU32::new(0));
        let idles = Arc::clone(&idled);
        std::thread::scope(|scope| {
            let inflicted = scope.spawn(move || {
                let me = thread::current().id();
                driver.subscribe(Some(Arc::new(move |name| {
                    let pins = thread::current().id() == me && name == "current_context";
                    let first = pins && idles.fetch_add(1, Ordering::Relaxed) == 0;
                    let start = Instant::now();
                    while first && agent.devices[0].runs() {
                        assert!(start.elapsed() < BOUND, "the job never ends");
                        thread::yield_now();
                    }
                })));
                Torture::EveryCall.inflict(agent, &agent.devices[0]);
            });
            bench.grant_until(|| inflicted.is_finished());
        });
        driver.subscribe(None);
        assert!(idled.load(Ordering::Relaxed) > 0, "no call was slow");
        assert_eq!(driver.copied().0 - out, 3 * CHUNK);
    }

    #[test]
    fn a_budget_that_others_took_is_asked_for_again() {
        const CHUNKS: u64 = 40;
        let bench = bench("torture-budget", |terms| terms.idle_us = 10_000_000);
        let bytes = CHUNKS * CHUNK;
        let (at, data) = (bench.alloc(bytes), pattern(4, bytes as usize));
        bench.launch(|| bench.driver.write(at, &data).unwrap());
        let daemon = &bench.daemon.block().daemon;
        let agent = &bench.daemon.block().agent;
        let (start, mut asked) = (Instant::now(), 0);
        // The page keeps a budget at what is held: it must be lowered while something is out.
        while asked == 0 {
            assert!(start.elapsed() < BOUND, "never caught with something out");
            torture(&bench, || {
                if agent.usage().swapped_bytes > CHUNK && asked == 0 {
                    daemon.set_budget(agent, CONTEXT);
                }
                if let Some((seq, wanted)) = agent.wanted()
                    && seq != daemon.answered_want()
                {
                    asked += 1;
                    assert_eq!(wanted, CONTEXT + bytes, "all that the task needs");
                    // No at first.
                    let given = if asked < 3 { CONTEXT } else { MEMORY };
                    daemon.set_budget(agent, given);
                    daemon.answer_want(seq, given >= wanted);
                }
            });
            daemon.set_budget(agent, MEMORY);
        }
        assert!(asked >= 3, "asked again after a no");
        assert_eq!(bench.driver.read(at, data.len()).unwrap(), data);
        assert_eq!(bench.usage(), (CONTEXT + bytes, 0));
    }

    #[test]
    fn work_that_does_not_end_is_waited_for_once_a_call_without_a_daemon_too() {
        const DRAIN: Duration = Duration::from_millis(200);
        let bench = bench("torture-busy", |terms| {
            terms.idle_us = 10_000_000;
            terms.drain_ms = DRAIN.as_millis() as u32;
        });
        bench.alloc(CHUNK);
        bench.launch(|| ());
        bench.agent.devices[0].go_alone();
        bench.driver.set_busy(Stream::LEGACY, true);
        let before = bench.driver.copied();
        let start = Instant::now();
        torture(&bench, || ());
        let took = start.elapsed();
        assert!(took >= DRAIN && took < TRIES / 2 * DRAIN, "{took:?}");
        assert_eq!(bench.driver.copied(), before);
    }

    #[test]
    fn a_capture_is_left_in_peace() {
        let bench = bench("torture-capture", |terms| terms.idle_us = 10_000_000);
        bench.alloc(CHUNK);
        let stream = Stream(0x71);
        let begun = bench.launch(|| {
            bench.agent.begin_capture(stream, || {
                bench.driver.set_capturing(stream, true);
                crate::cuda::Status::SUCCESS
            })
        });
        assert_eq!(begun, crate::cuda::Status::SUCCESS);
        let before = bench.driver.copied();
        torture(&bench, || ());
        assert_eq!(bench.driver.copied(), before);
    }
}
