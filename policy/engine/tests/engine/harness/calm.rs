//! The end of a run: everybody is honest and does at once what is asked, and asks for nothing more.

use rtswap_policy::units::{Bytes, Nanos};

use super::{GPUS, MS, Pair};

/// All that is open must end within so many rounds of at most [`ROUND`].
const ROUNDS: u32 = 2_000;

const ROUND: Nanos = Nanos(20 * MS);

/// What an agent takes for a chunk.
const CHUNK_TIME: Nanos = Nanos(MS / 10);

impl Pair {
    /// Lets all that is open come to its end.
    ///
    /// # Panics
    ///
    /// If a job, a request for budget or a swap operation does not end, or the engine goes on to count
    /// other bytes than pages hold.
    pub(crate) fn calm_down(&mut self) {
        self.world.nvml.strangers = [0; GPUS];
        self.world.fails = false;
        self.see_host(256);
        self.return_all();
        for task in self.engine.status().tasks {
            if task.parked {
                self.set_parked(task.registration, false);
            }
        }
        for _ in 0..ROUNDS {
            let is_busy = self.cooperate();
            if self.is_at_rest() && self.counts_each_byte_once() {
                return;
            }
            let due = self.engine.poll_timeout();
            let rest = due.map_or(ROUND, |due| due - self.world.now);
            let most = if is_busy { CHUNK_TIME } else { ROUND };
            self.pass(rest.clamp(Nanos(1), most), false);
        }
        let held = [0, 1].map(|gpu| self.world.held(gpu));
        panic!(
            "no rest: {:#?}, {held:?} held, {:#?}",
            self.open(),
            self.engine.status()
        );
    }

    /// All agents are honest, and have a session unless they may have none.
    fn return_all(&mut self) {
        for at in (0..self.world.processes.len()).rev() {
            let process = &mut self.world.processes[at];
            process.is_silent = false;
            if process.connection.is_none() || process.is_liar {
                self.hello(at);
            }
            // Its task may not be registered any more.
            if self.world.processes[at].connection.is_none() {
                self.die(at);
            }
        }
    }

    /// Each agent does what it is asked for, once. Returns whether any had something to do.
    fn cooperate(&mut self) -> bool {
        let mut is_busy = false;
        for at in 0..self.world.processes.len() {
            let process = &mut self.world.processes[at];
            for gpu in 0..GPUS {
                let device = &mut process.devices[gpu];
                let answered = device.follow_answer();
                let pinned = device.pin(Bytes::MAX);
                let moved = device.swap();
                let completed = device.complete();
                process.bell |= answered || pinned || moved || completed;
            }
            is_busy |= process.bell;
            self.read_pages(true);
        }
        self.read_pages(false);
        self.ring_timers();
        is_busy
    }

    fn is_at_rest(&mut self) -> bool {
        self.world.nvml.dead.is_empty() && self.open().is_empty()
    }

    /// Whether the engine counts on each GPU what pages hold.
    fn counts_each_byte_once(&mut self) -> bool {
        let status = self.engine.status();
        let mut gpus = status.gpus.iter().enumerate();
        gpus.all(|(gpu, status)| status.used == self.world.held(gpu))
    }

    /// What is open, without what waits for memory that a plan keeps, and says so.
    fn open(&mut self) -> Vec<String> {
        let mut open = Vec::new();
        for process in &self.world.processes {
            for (gpu, device) in process.devices.iter().enumerate() {
                if device.job.is_some() || device.want.is_some() || device.op.is_some() {
                    let text = format!("process {} on GPU {gpu}: {device:?}", process.pid);
                    open.push((process.pid, text));
                }
            }
        }
        if !open.is_empty() {
            let status = self.engine.status();
            let waiting = status.tasks.iter().filter(|task| task.waits.is_some());
            let waits = |pid: &u32| waiting.clone().any(|task| task.processes.contains(pid));
            open.retain(|(pid, _)| !waits(pid));
        }
        open.into_iter().map(|(_, text)| text).collect()
    }
}
