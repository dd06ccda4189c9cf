//! What the program has in flight. This file knows its contexts, `streams` its streams and their
//! captures, `green` contexts that are views of others; `drain` tells whether all is done, `flight`
//! keeps it from running too far ahead, `missed` notes what could not be noted at once.

mod drain;
mod flight;
mod green;
mod missed;
mod streams;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cuda::{CaptureMode, Context, Event, Stream};
use crate::driver::{Driver, Result};
use crate::gate::{self, Life, lock};
use flight::Flight;
use green::KnownGreen;
use missed::Missed;
pub use streams::Capture;
use streams::KnownStream;

/// The contexts and streams of the program.
pub struct Work {
    driver: &'static dyn Driver,
    /// Held while contexts are waited for, so that none ends meanwhile.
    draining: Mutex<()>,
    known: Mutex<Known>,
    missed: Mutex<BTreeMap<Stream, Missed>>,
    flight: Flight,
    /// The GPUs that the program has or had contexts on, a bit each.
    gpus: AtomicU64,
}

#[derive(Default)]
struct Known {
    /// Threads whose own stream captures. It ends with the thread, if that does not end it.
    per_thread: Vec<Life>,
    contexts: Vec<KnownContext>,
    greens: Vec<KnownGreen>,
    streams: BTreeMap<Stream, KnownStream>,
    /// Work of streams that the program destroyed before it was done.
    leftovers: Vec<(Context, Event)>,
}

impl Known {
    /// Whether a thread captures on its own stream.
    fn thread_captures(&mut self) -> bool {
        self.per_thread.retain(|life| life.goes_on());
        !self.per_thread.is_empty()
    }

    /// The GPU of a context.
    fn device_of(&self, context: Context) -> Option<i32> {
        let found = self.contexts.iter().find(|other| other.context == context);
        found.map(|found| found.device)
    }
}

struct KnownContext {
    context: Context,
    device: i32,
    primary: bool,
    /// A view of the primary one.
    green: bool,
    /// How often the program retained it, if it is the primary one.
    uses: u32,
    barrier: Option<Event>,
}

impl Work {
    /// Nothing yet.
    pub fn new(driver: &'static dyn Driver) -> Self {
        Self {
            driver,
            draining: Mutex::default(),
            known: Mutex::default(),
            missed: Mutex::default(),
            flight: Flight::default(),
            gpus: AtomicU64::new(0),
        }
    }

    /// Learns a context; false if it is known already.
    pub fn add_context(&self, context: Context, device: i32, primary: bool) -> bool {
        self.use_gpu(device);
        let mut known = lock(&self.known);
        if known.contexts.iter().any(|other| other.context == context) {
            return false;
        }
        known.contexts.push(KnownContext {
            context,
            device,
            primary,
            green: false,
            uses: 0,
            barrier: None,
        });
        true
    }

    /// The program retained a primary context, which may have been learnt as any context before.
    pub fn use_primary(&self, context: Context) {
        let mut known = lock(&self.known);
        if let Some(found) = known
            .contexts
            .iter_mut()
            .find(|other| other.context == context)
        {
            found.primary = true;
            found.uses += 1;
        }
    }

    /// The program gives one use of a primary context back: true if that was the last.
    pub fn give_up_primary(&self, context: Context) -> bool {
        let mut known = lock(&self.known);
        let found = known
            .contexts
            .iter_mut()
            .find(|other| other.context == context);
        found.is_some_and(|found| {
            found.uses = found.uses.saturating_sub(1);
            found.uses == 0
        })
    }

    /// The program makes or has a context on a GPU, managed or not. Once it has several, each call
    /// looks up which gates are its own.
    pub fn use_gpu(&self, device: i32) {
        let bit = 1 << device.rem_euclid(64);
        let before = self.gpus.fetch_or(bit, Ordering::Relaxed);
        if before & !bit != 0 {
            gate::tell_apart();
        }
    }

    fn barrier_of(&self, context: Context) -> Option<Event> {
        let known = lock(&self.known);
        let found = known.contexts.iter().find(|other| other.context == context);
        found?.barrier
    }

    fn keep_barrier(&self, context: Context, event: Event) {
        let mut known = lock(&self.known);
        let mut contexts = known.contexts.iter_mut();
        if let Some(found) = contexts.find(|other| other.context == context) {
            found.barrier = Some(event);
        }
    }

    /// The GPU of a context.
    pub fn device_of(&self, context: Context) -> Option<i32> {
        lock(&self.known).device_of(context)
    }

    /// Forgets a context that the program is about to destroy.
    pub fn remove_context(&self, context: Context) {
        let _whole = lock(&self.draining);
        let mut known = self.caught_up();
        let known = &mut *known;
        let primary = |other: &&KnownContext| other.context == context && other.primary;
        if let Some(device) = known.contexts.iter().find(primary).map(|it| it.device) {
            // Its views end with it.
            known.greens.retain(|green| !green.is_on(device));
            known
                .contexts
                .retain(|other| !(other.green && other.device == device));
        }
        known.contexts.retain(|other| other.context != context);
        known.streams.retain(|_, stream| stream.context != context);
        known.leftovers.retain(|(other, _)| *other != context);
        self.flight.end_context(context);
    }

    /// The context that the agent works in: the primary one if the program has it.
    pub fn context_on(&self, device: i32) -> Option<Context> {
        let known = lock(&self.known);
        let contexts = known.contexts.iter();
        let mut here = contexts.filter(|other| other.device == device && !other.green);
        let first = here.next()?;
        let best = if first.primary {
            first
        } else {
            here.find(|other| other.primary).unwrap_or(first)
        };
        Some(best.context)
    }

    /// The primary context of a GPU.
    pub fn primary_on(&self, device: i32) -> Option<Context> {
        let known = lock(&self.known);
        let mut primaries = known.contexts.iter().filter(|other| other.primary);
        primaries
            .find(|other| other.device == device)
            .map(|other| other.context)
    }

    /// All contexts of a GPU.
    pub fn contexts_on(&self, device: i32) -> Vec<Context> {
        let known = lock(&self.known);
        let here = known.contexts.iter().filter(|other| other.device == device);
        here.map(|other| other.context).collect()
    }
}

/// Runs `call` with `context` current, and makes the one before current again. What `call` gave is
/// given on in any case: it may own something. Where the one before has gone meanwhile, none is
/// current: so the thread's next call fails, as it would have, instead of working in ours.
pub fn in_context<T>(
    driver: &dyn Driver,
    context: Context,
    call: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let before = driver.current_context()?;
    if before == Some(context) {
        return call();
    }
    driver.set_context(Some(context))?;
    let result = call();
    if driver.set_context(before).is_err() {
        let _ = driver.set_context(None);
    }
    result
}

/// Runs `call` in a mode in which it breaks no capture of another thread.
pub(crate) fn relaxed<T>(driver: &dyn Driver, call: impl FnOnce() -> T) -> T {
    // A driver without captures has none to break.
    let before = driver.exchange_capture_mode(CaptureMode::RELAXED);
    let result = call();
    if let Ok(before) = before {
        let _ = driver.exchange_capture_mode(before);
    }
    result
}

#[cfg(test)]
mod tests;
