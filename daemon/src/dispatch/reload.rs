//! The administrator's files again, under running tasks.
//!
//! What is wrong with any of them is found before anything changes. Then the registrations of
//! tasks.d become what their files say; one that cannot be had stays as it was, and is told.

use std::collections::BTreeSet;

use rtswap_dbus::Error;
use rtswap_policy::task::Class;
use rtswap_policy::units::Time;

use super::Dispatcher;
use crate::config::{Config, TaskFile};
use crate::registry::{Checked, Origin, Registration, RegistrationId};

impl Dispatcher {
    /// Takes the files in.
    pub(super) fn reload(
        &mut self,
        config: &Config,
        tasks: Vec<TaskFile>,
        now: Time,
    ) -> Result<(), Error> {
        if config.gpus != self.config.gpus || config.scheduler != self.config.scheduler {
            return Err(Error::InvalidArgument(
                "[[gpu]] and [scheduler] are read at the start only, and have changed: nothing is \
                 reloaded; restart rtswapd, which running tasks outlive"
                    .into(),
            ));
        }
        let wanted = check(tasks).map_err(Error::InvalidArgument)?;
        self.registry
            .set_max_per_user(config.daemon.max_tasks_per_user);
        self.config.daemon = config.daemon;
        self.nvml.set_period(config.daemon.nvml_period());
        self.unsaved = true;
        self.unpublished = true;
        let named: BTreeSet<_> = wanted
            .iter()
            .map(|(uid, task)| (*uid, &*task.name))
            .collect();
        let files = self.registry.iter().filter(|entry| is_file(entry));
        let gone: Vec<_> = files
            .filter(|entry| !named.contains(&(entry.uid, &*entry.name)))
            .map(|entry| entry.id)
            .collect();
        for id in gone {
            tracing::info!(task = self.registration_name(id), "its file is gone");
            self.end_registration(id, now);
        }
        let refused: Vec<_> = wanted
            .into_iter()
            .filter_map(|(uid, task)| {
                let name = task.name.clone();
                let refused = self.take_file(uid, task, now).err()?;
                Some(format!("{name}: {refused}"))
            })
            .collect();
        if refused.is_empty() {
            tracing::info!("the files are reloaded");
            return Ok(());
        }
        Err(Error::NotSchedulable(format!(
            "all else is in effect, but these stay as they were: {}",
            refused.join("; ")
        )))
    }

    /// Makes one registration what its file says.
    fn take_file(&mut self, uid: u32, task: Checked, now: Time) -> Result<(), Error> {
        let Some(before) = self.registry.find(uid, &task.name) else {
            self.registry.admits(uid, &task.name)?;
            return self.place_file(None, uid, task, false, now);
        };
        let Some(entry) = self.registry.get(before).filter(|entry| is_file(entry)) else {
            return self.registry.admits(uid, &task.name);
        };
        if self.says(entry, &task) {
            return Ok(());
        }
        let session = self.sessions_of(before).next();
        let process = session.map(|(_, session)| session.peer.pid);
        if let Some(pid) = process.or_else(|| self.recovery.process(before)) {
            return Err(Error::Busy(format!(
                "it runs as process {pid}; reload again when that has ended"
            )));
        }
        let old = Checked {
            name: entry.name.clone(),
            class: entry.class,
            memory: entry.memory,
            gpu: entry.gpu.map(|uuid| uuid.to_string()),
        };
        let demoted = entry.demoted;
        self.end_registration(before, now);
        let Err(refused) = self.place_file(Some(before), uid, task, false, now) else {
            return Ok(());
        };
        // There may be less capacity than when it was admitted.
        match self.place_file(Some(before), uid, old, demoted, now) {
            Ok(()) => Err(refused),
            Err(error) => Err(Error::NotSchedulable(format!(
                "{refused}; what it was before cannot be had any more either, so it is ended: {error}"
            ))),
        }
    }

    /// Whether an entry is what its file says. One that was refused at the start is not.
    fn says(&self, entry: &Registration, task: &Checked) -> bool {
        let there = match task.class {
            Class::BestEffort => true,
            Class::Realtime(_) => self.find_gpu(task.gpu.as_deref()).map_or_else(
                |_| self.unplaced.get(&entry.id) == Some(&task.gpu),
                |gpu| Some(self.gpus[gpu].uuid) == entry.gpu,
            ),
        };
        entry.class == task.class && entry.memory == task.memory && there
    }

    /// Registers it, under its number from before where it has one.
    fn place_file(
        &mut self,
        number: Option<RegistrationId>,
        uid: u32,
        task: Checked,
        demoted: bool,
        now: Time,
    ) -> Result<(), Error> {
        let realtime = matches!(task.class, Class::Realtime(_));
        let wanted = task.gpu.clone();
        let gpu = match self.find_gpu(wanted.as_deref()) {
            Ok(gpu) => Some(gpu),
            // Until an agent tells of one.
            Err(_) if self.gpus.is_empty() || !realtime => None,
            Err(error) => return Err(error),
        };
        let uuid = gpu.map(|gpu| self.gpus[gpu].uuid);
        let id = match number {
            None => self.registry.add(uid, task, uuid, Origin::File).id,
            Some(id) => {
                let registration = Registration {
                    id,
                    uid,
                    name: task.name,
                    class: task.class,
                    memory: task.memory,
                    gpu: uuid,
                    origin: Origin::File,
                    process: None,
                    demoted,
                    claim_until: None,
                };
                self.registry.insert(registration).id
            }
        };
        match gpu {
            None => {
                self.unplaced.insert(id, wanted);
            }
            Some(gpu) if realtime => self.place(id, gpu, now).map_err(|reason| {
                self.registry.remove(id);
                self.statistics.remove(&id);
                Error::NotSchedulable(reason)
            })?,
            Some(_) => {}
        }
        Ok(())
    }
}

fn is_file(entry: &Registration) -> bool {
    matches!(entry.origin, Origin::File)
}

/// Every declaration checked, and no name there twice.
fn check(tasks: Vec<TaskFile>) -> Result<Vec<(u32, Checked)>, String> {
    let mut checked: Vec<(u32, Checked)> = Vec::new();
    for TaskFile { uid, declaration } in tasks {
        let name = declaration.name.clone();
        let task = declaration
            .check()
            .map_err(|complaint| format!("tasks.d, {name}: {complaint}"))?;
        if checked
            .iter()
            .any(|(other, same)| *other == uid && same.name == name)
        {
            return Err(format!("tasks.d: user {uid} has two tasks named {name}"));
        }
        checked.push((uid, task));
    }
    Ok(checked)
}
