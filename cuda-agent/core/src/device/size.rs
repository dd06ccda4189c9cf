//! How much memory the program is told that there is.
//!
//! The daemon is asked, since others may be told at the same time: what it answers is kept for this process for a
//! while. A daemon that answers no such questions, or not in time, leaves what its page says of the GPU.

use std::time::{Duration, Instant};

use super::Device;
use crate::futex::{TICK, wait_change};
use crate::gate::lock;
use crate::memory::Memory;
use crate::session::View;

/// How long the answer is waited for. A program that asks before each of many allocations must not stand still
/// because the daemon does.
const ANSWER: Duration = Duration::from_secs(1);

impl Device {
    /// What cuMemGetInfo shows: the bytes that the program may still take, and with what it has. Asks the
    /// daemon.
    pub fn memory_info(&self) -> (u64, u64) {
        let view = self.view();
        self.ask_size(&view);
        let total = self.told_bytes(&view);
        (total.saturating_sub(used_bytes(&self.memory())), total)
    }

    /// What cuDeviceTotalMem shows: all bytes, as the daemon said last. It is asked for each GPU of a machine by
    /// programs that use none of them, so it asks the daemon for nothing.
    pub fn total_memory(&self) -> u64 {
        self.told_bytes(&self.view())
    }

    fn told_bytes(&self, view: &View) -> u64 {
        let daemon = view.daemon();
        let memory = self.memory();
        let (used, most) = (used_bytes(&memory), memory.device_bytes());
        let Some((_, told)) = daemon.size() else {
            return daemon.memory_bytes().min(most);
        };
        let total = told.max(used).min(most);
        // What is free is whole chunks: the last one would cost the program as much as a whole one.
        total - total.saturating_sub(used) % memory.chunk_bytes()
    }

    /// Asks the daemon, and waits for its answer. A program that has no context here only looks, by NVML.
    fn ask_size(&self, view: &View) {
        if !self.is_armed() || view.daemon().size().is_none() {
            return;
        }
        let _one_question = lock(&self.sizing);
        let question = view.agent().ask_size();
        view.session.tell();
        let asked = Instant::now();
        while let Some((answered, _)) = view.daemon().size() {
            let left = ANSWER.saturating_sub(asked.elapsed());
            if answered == question || left.is_zero() || view.session.is_lost() {
                return;
            }
            wait_change(view.daemon().size_word(), answered, left.min(TICK));
        }
    }
}

fn used_bytes(memory: &Memory) -> u64 {
    let usage = memory.usage();
    usage.resident_bytes.saturating_add(usage.swapped_bytes)
}
