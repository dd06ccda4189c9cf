//! What must be so once a run is at rest.

use rtswap_engine::config::Settings;
use rtswap_policy::units::{Bytes, Nanos};

use super::{CAPACITY, MS, Pair};

impl Pair {
    /// Checks that the engine knows each session and registration.
    pub(crate) fn check_at_rest(&mut self) {
        let saved = self.engine.saved();
        for process in &self.world.processes {
            let known = |it: &&_| {
                let it: &rtswap_engine::saved::SavedSession = it;
                process.session == Some((it.registration, it.cookie)) && it.pid == process.pid
            };
            let known = saved.sessions.iter().filter(known).count();
            assert_eq!(known, 1, "the session of {process:?}");
        }
        assert_eq!(saved.sessions.len(), self.world.processes.len());
        for task in 0..self.world.registered.len() {
            self.check_registered(task);
        }
        self.check_usage();
    }

    /// Checks that the engine knows where the bytes of each task are that does not wait: one that does may
    /// hold budget for a process that is not back.
    fn check_usage(&mut self) {
        let tasks = self.engine.status().tasks.into_iter();
        for task in tasks.filter(|task| task.waits.is_none()) {
            let processes = self.world.processes.iter();
            let group = processes.filter(|it| task.processes.contains(&it.pid));
            let usage = group.flat_map(|it| &it.devices).map(|it| it.usage);
            let resident: Bytes = usage.clone().map(|it| it.resident).sum();
            let swapped: Bytes = usage.map(|it| it.swapped).sum();
            let known = (task.memory.resident, task.memory.swapped);
            assert_eq!(known, (resident, swapped), "of {}", task.name);
        }
    }

    /// Checks that the engine counts for each task of which no process ever lied what its processes
    /// hold, and where all of these have a session, what their pages say.
    pub(crate) fn check_budgets(&mut self) {
        let status = self.engine.status();
        for (gpu, counted) in status.gpus.iter().enumerate() {
            let held = self.world.held(gpu);
            assert!(
                held <= counted.used || !self.world.liars.is_empty(),
                "{held} are held on GPU {gpu}, and the engine counts {}",
                counted.used
            );
        }
        for task in status.tasks {
            let is_known = |pid: &u32| {
                let process = self.world.processes.iter().find(|it| it.pid == *pid);
                process.is_some_and(|process| process.connection.is_some())
            };
            let is_liar = self.world.liars.contains(&task.registration);
            if is_liar || !task.processes.iter().all(is_known) {
                continue;
            }
            let pids = task.processes.iter();
            let group = self.world.processes.iter();
            let group = group.filter(|it| pids.clone().any(|pid| *pid == it.pid));
            let devices = group.flat_map(|it| &it.devices);
            let budgets: Bytes = devices.clone().map(|it| it.page.budget).sum();
            // One that is back joins when its task neither runs nor swaps.
            let returns = devices.clone().any(|it| it.returns);
            let counted = task.memory.budget;
            assert!(
                counted == budgets || returns && counted > budgets,
                "pages of {} have {budgets}, the engine counts {counted}",
                task.name
            );
        }
    }

    /// Checks that a task is registered still, unless no process has claimed it for long.
    pub(crate) fn check_registered(&mut self, task: usize) {
        let Some(registered) = self.world.registered[task] else {
            return;
        };
        let saved = self.engine.saved();
        if saved.registrations.iter().all(|it| it.id != registered.id) {
            let unused = self.world.now - registered.used;
            let may_end = if registered.is_former {
                self.world.group(registered.id).next().is_none()
            } else {
                !registered.is_leased && unused >= Settings::default().claim_timeout
            };
            assert!(
                may_end,
                "{registered:?} of task {task} is gone after {unused}"
            );
            self.world.registered[task] = None;
        }
    }

    /// All processes end: then all memory is free.
    pub(crate) fn check_all_is_freed(&mut self) {
        while !self.world.processes.is_empty() {
            self.die(0);
        }
        self.pass(Nanos(2_000 * MS), false);
        for gpu in self.engine.status().gpus {
            assert_eq!((gpu.used, gpu.capacity), (Bytes::ZERO, CAPACITY));
        }
        assert!(
            self.world.links.is_empty(),
            "never forgotten: {:?}",
            self.world.links
        );
    }
}
