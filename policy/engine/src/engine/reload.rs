//! The administrator's files again, under running tasks.
//!
//! An error in any of them is found before anything changes. Then the registrations of tasks.d become
//! what their files say; one that cannot be had stays as it was, and the answer says so.
//!
//! `tasks.d`, policy.toml and `[daemon]` can change under running tasks. `[[gpu]]` and `[scheduler]` cannot: δ, the
//! test and the volumes of admitted tasks follow from them. A change of these is refused, with the
//! advice to restart, which running tasks outlive.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rtswap_policy::task::Class;

use super::Engine;
use super::rules::all_else;
use crate::config::Config;
use crate::error::CallError;
use crate::ids::RegistrationId;
use crate::input::TaskFile;
use crate::output::{Level, LogLine};
use crate::registry::{Origin, Registration, TaskDeclaration};

impl Engine {
    pub(super) fn reload(
        &mut self,
        config: &Config,
        tasks: Vec<TaskFile>,
    ) -> Result<(), CallError> {
        if config.gpus != self.config.gpus || config.scheduler != self.config.scheduler {
            return Err(CallError::InvalidArgument(
                "[[gpu]] and [scheduler] are read at the start only, and have changed: nothing is \
                 reloaded; restart rtswapd, which running tasks outlive"
                    .into(),
            ));
        }
        let wanted = check(tasks).map_err(CallError::InvalidArgument)?;
        self.config.settings = config.settings;
        self.set_nvml_timer();
        self.note_change();
        self.end_removed(&wanted);
        let mut refused = self.replace_rules(config.rules.clone(), config.everybody);
        for (uid, task) in wanted {
            let name = task.name.clone();
            if let Err(error) = self.take_file(uid, task) {
                refused.push(format!("{name}: {error}"));
            }
        }
        if refused.is_empty() {
            self.log(LogLine::new(Level::Info, "the files are reloaded"));
        }
        all_else(&refused)
    }

    /// Ends the registrations of files that are there no more.
    fn end_removed(&mut self, wanted: &[(u32, TaskDeclaration)]) {
        let named: BTreeSet<_> = wanted
            .iter()
            .map(|(uid, task)| (*uid, &*task.name))
            .collect();
        let gone = self
            .registry
            .of_origin(Origin::File)
            .filter(|entry| !named.contains(&(entry.uid, &*entry.task.name)));
        let gone: Vec<_> = gone.map(|entry| entry.id).collect();
        for id in gone {
            self.log(self.line(Level::Info, id, "its file is gone"));
            self.end_registration(id);
        }
    }

    /// Makes one registration what its file says.
    fn take_file(&mut self, uid: u32, task: TaskDeclaration) -> Result<(), CallError> {
        let Some(before) = self.registry.find(uid, &task.name) else {
            self.admits(uid, &task.name)?;
            let id = self.registry.add(uid, task, Origin::File).id;
            return self.place_file(id);
        };
        let file = |entry: &&Registration| entry.origin == Origin::File;
        let Some(entry) = self.registry.get(before).filter(file) else {
            return self.admits(uid, &task.name);
        };
        if self.says(entry, &task) {
            return Ok(());
        }
        let session = self.sessions.of(before).next();
        let process = session.map(|(_, session)| session.peer.pid);
        let awaited = || Some(self.recovery.of(before).next()?.1.pid);
        if let Some(pid) = process.or_else(awaited) {
            return Err(CallError::Busy(format!(
                "it runs as process {pid}; reload again when that has ended"
            )));
        }
        let mut old = Registration::new(before, uid, entry.task.clone(), Origin::File);
        old.demoted = entry.demoted;
        old.parked = entry.parked;
        if let Some(uuid) = entry.gpu {
            old.task.gpu = Some(uuid.to_string());
        }
        self.end_registration(before);
        let mut new = Registration::new(before, uid, task, Origin::File);
        new.parked = old.parked;
        self.registry.insert(new);
        let Err(refused) = self.place_file(before) else {
            return Ok(());
        };
        // There may be less capacity than when it was admitted.
        self.registry.insert(old);
        self.place_file(before).map_err(|error| {
            CallError::NotSchedulable(format!(
                "{refused}; what it was before cannot be had any more either, so it is ended: {error}"
            ))
        })?;
        Err(refused)
    }

    /// Whether an entry is what its file says. One that was refused at the start is not.
    fn says(&self, entry: &Registration, task: &TaskDeclaration) -> bool {
        let there = match task.class {
            Class::BestEffort => true,
            Class::Realtime(_) => self.find_gpu(task.gpu.as_deref()).map_or_else(
                |_| entry.gpu.is_none() && entry.task.gpu == task.gpu,
                |gpu| Some(self.gpus[gpu].uuid) == entry.gpu,
            ),
        };
        let now = &entry.task;
        let is_same = (now.class, now.memory) == (task.class, task.memory);
        is_same && (now.weight, now.idle_after) == (task.weight, task.idle_after) && there
    }

    /// Finds the GPU of a file's new registration, and drops the registration where it cannot be had.
    fn place_file(&mut self, id: RegistrationId) -> Result<(), CallError> {
        let placed = self.try_place_file(id);
        if placed.is_err() {
            self.registry.remove(id);
        }
        self.unrecorded.note_registration(id);
        placed
    }

    fn try_place_file(&mut self, id: RegistrationId) -> Result<(), CallError> {
        let Some(entry) = self.registry.get(id) else {
            return Ok(());
        };
        let realtime = entry.is_realtime();
        let gpu = match self.find_gpu(entry.task.gpu.as_deref()) {
            Ok(gpu) => gpu,
            // Until an agent tells of one.
            Err(_) if self.gpus.is_empty() || !realtime => return Ok(()),
            Err(error) => return Err(error),
        };
        self.set_home(id, gpu);
        if realtime {
            self.place(id, gpu).map_err(CallError::NotSchedulable)?;
        }
        Ok(())
    }
}

/// Every declaration checked, and no name there twice.
fn check(tasks: Vec<TaskFile>) -> Result<Vec<(u32, TaskDeclaration)>, String> {
    let mut checked: Vec<(u32, TaskDeclaration)> = Vec::new();
    for TaskFile { uid, options } in tasks {
        let name = options.name.clone();
        let task = options
            .check()
            .map_err(|complaint| format!("tasks.d, {name}: {complaint}"))?;
        let is_same = |(other, it): &(u32, TaskDeclaration)| *other == uid && it.name == name;
        if checked.iter().any(is_same) {
            return Err(format!("tasks.d: user {uid} has two tasks named {name}"));
        }
        checked.push((uid, task));
    }
    Ok(checked)
}
