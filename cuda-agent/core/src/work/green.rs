//! Green contexts: views of a GPU's primary context with streams of their own, a NULL stream among
//! them, which a drain must ask as well. What is allocated in one is the primary one's.

use super::{KnownContext, Work, in_context};
use crate::agent::Agent;
use crate::cuda::{Context, Green, Stream};
use crate::gate::lock;

/// A green context of the program.
pub(super) struct KnownGreen {
    green: Green,
    device: i32,
    /// The same as a context that can be current, once the program asked for that.
    context: Option<Context>,
    streams: Vec<Stream>,
}

impl KnownGreen {
    /// Whether it is on this GPU.
    pub(super) fn is_on(&self, device: i32) -> bool {
        self.device == device
    }
}

impl Work {
    /// Learns a green context on a GPU.
    pub fn add_green(&self, green: Green, device: i32) {
        self.use_gpu(device);
        let mut known = lock(&self.known);
        known.greens.retain(|other| other.green != green);
        known.greens.push(KnownGreen {
            green,
            device,
            context: None,
            streams: Vec::new(),
        });
    }

    /// The program can make a green context current as `context`.
    pub fn add_green_context(&self, green: Green, context: Context) {
        let mut known = lock(&self.known);
        let known = &mut *known;
        let Some(found) = known.greens.iter_mut().find(|other| other.green == green) else {
            return;
        };
        found.context = Some(context);
        if known.contexts.iter().all(|other| other.context != context) {
            known.contexts.push(KnownContext {
                context,
                device: found.device,
                primary: false,
                green: true,
                uses: 0,
                barrier: None,
            });
        }
    }

    /// Learns a stream that was just made in a green context.
    pub fn add_green_stream(&self, green: Green, stream: Stream) {
        self.add_stream(stream);
        let mut known = lock(&self.known);
        let mut greens = known.greens.iter_mut();
        if let Some(found) = greens.find(|other| other.green == green) {
            found.streams.push(stream);
        }
    }

    /// Whom memory belongs to that is allocated in `context`: the primary one, if it is green.
    pub fn owner_of(&self, context: Context) -> Context {
        let known = lock(&self.known);
        let mut contexts = known.contexts.iter();
        let green = contexts.find(|other| other.context == context && other.green);
        let Some(device) = green.map(|green| green.device) else {
            return context;
        };
        let mut contexts = known.contexts.iter();
        let primary = contexts.find(|other| other.device == device && other.primary);
        primary.map_or(context, |primary| primary.context)
    }

    /// Whether a context is a green one.
    pub fn is_green(&self, context: Context) -> bool {
        let known = lock(&self.known);
        let mut contexts = known.contexts.iter();
        contexts.any(|other| other.context == context && other.green)
    }
}

impl Agent {
    /// Before the program destroys a green context: its work ends, and is forgotten with its streams.
    /// Its GPU, if it was learnt.
    pub fn end_green(&self, green: Green) -> Option<i32> {
        let work = &self.work;
        let known = {
            let mut known = lock(&work.known);
            let at = known.greens.iter().position(|other| other.green == green)?;
            known.greens.swap_remove(at)
        };
        for stream in known.streams {
            self.stream_gone(stream);
        }
        if let Some(context) = known.context {
            // A broken context has no work left.
            let _ = in_context(self.driver, context, || self.driver.synchronize());
            if let Some(device) = self.device(known.device) {
                device.ordered.end_context(context);
            }
            work.remove_context(context);
        }
        Some(known.device)
    }
}
