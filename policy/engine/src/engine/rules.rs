//! The policy: taken from calls and files, and brought to the tasks that it is about.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use rtswap_policy::task::{Class, TaskSpec, Timing};
use rtswap_policy::units::Bytes;

use super::Engine;
use super::tasks::spec_of;
use crate::error::CallError;
use crate::ids::RegistrationId;
use crate::input::{Caller, PolicyChange};
use crate::output::{Level, LogLine, Output};
use crate::registry::{Registration, TaskDeclaration};
use crate::rules::{ClassRule, Key, Limits, Policy, RuleSet, Rules, Scope, Shape};

impl Engine {
    /// Changes the policy until the files are read again.
    pub(super) fn set_policy(
        &mut self,
        caller: Caller,
        change: PolicyChange,
    ) -> Result<(), CallError> {
        let PolicyChange { scope, set, unset } = change;
        if let Some(complaint) = set.complaint(&scope) {
            return Err(CallError::InvalidArgument(complaint));
        }
        // Last: a caller that may yet be given the right types no password for what is refused anyway.
        if !caller.privileged {
            return Err(CallError::AccessDenied(format!(
                "user {} may not set the policy; root may",
                caller.uid
            )));
        }
        let before = self.policy.clone();
        let rules = self.policy.run_time.entry(scope.clone()).or_default();
        rules.amend(&set);
        for key in &unset {
            rules.unset(*key);
        }
        if rules.is_empty() {
            self.policy.run_time.remove(&scope);
        }
        let forgives = set.class == Some(ClassRule::Declared);
        let refused = self.follow_rules(&scope, &before, forgives);
        if let (Scope::Task { .. }, [refused]) = (&scope, &refused[..]) {
            let refused = refused.clone();
            self.policy = before;
            return Err(CallError::NotSchedulable(format!(
                "nothing has changed: {refused}"
            )));
        }
        self.keep_policy();
        let text = format!(
            "user {} set the policy of {scope}: {}",
            caller.uid,
            told(&set, &unset)
        );
        self.log(LogLine::new(Level::Info, text));
        all_else(&refused)
    }

    /// Takes the rules of the files, and forgets those that were set since.
    pub(super) fn replace_rules(&mut self, file: RuleSet, everybody: Rules) -> Vec<String> {
        let before = self.policy.clone();
        self.policy.file = file;
        self.policy.base = everybody;
        if !self.policy.run_time.is_empty() {
            self.policy.run_time.clear();
            self.keep_policy();
        }
        self.follow_rules(&Scope::Everybody, &before, false)
    }

    fn keep_policy(&mut self) {
        self.note_change();
        self.emit(Output::KeepPolicy(self.policy.run_time.clone()));
    }

    /// Brings the rules to the tasks of a scope of which they say something else than `before`, or than is so. A task that cannot be
    /// what they say stays as it was; returns the reasons. `forgives` has tasks be realtime again that violations
    /// made best-effort.
    fn follow_rules(&mut self, scope: &Scope, before: &Policy, forgives: bool) -> Vec<String> {
        let concerned = self.registry.iter().filter(|entry| match scope {
            Scope::Everybody => true,
            Scope::User(uid) => entry.owner.uid() == *uid,
            Scope::Task { uid, name } => (entry.uid, &entry.task.name) == (*uid, name),
        });
        let concerned: Vec<_> = concerned
            .map(|entry| (entry.id, shape_by(before, entry)))
            .filter(|(id, was)| {
                let entry = self.registry.get(*id);
                let is_other = |entry| self.shape(entry) != *was || !self.is_as_shaped(entry);
                // A deadline that it cannot have does not show in its shape.
                let deadline =
                    |policy: &Policy, it: &Registration| policy.deadline(it.uid, &it.task.name);
                let is_moved = |entry| deadline(&self.policy, entry) != deadline(before, entry);
                forgives || entry.is_some_and(|entry| is_other(entry) || is_moved(entry))
            })
            .collect();
        let mut refused = Vec::new();
        for (id, was) in concerned {
            let Err(reason) = self.follow_rules_of(id, forgives) else {
                continue;
            };
            let Some(entry) = self.registry.get_mut(id) else {
                continue;
            };
            refused.push(format!("{}: {reason}", entry.full_name()));
            // The rules that made it best-effort are gone. A later daemon must not take it for one of the plan, as it
            // would go before tasks that were admitted in its place.
            if was.class == Class::BestEffort && !matches!(scope, Scope::Task { .. }) {
                entry.demoted = true;
                self.unrecorded.note_registration(id);
            }
        }
        refused
    }

    /// Whether the scheduler of its GPU knows a registration by the class that the rules say. One that a violation made
    /// best-effort is known by the class that it had.
    fn is_as_shaped(&self, entry: &Registration) -> bool {
        let home = self.gpus.iter().position(|gpu| Some(gpu.uuid) == entry.gpu);
        let known = home.and_then(|home| {
            let task = self.tasks.on(entry.id, home)?;
            self.gpus[home].scheduler.state().task(task)
        });
        known.is_none_or(|task| task.class == self.scheduled_class(entry))
    }

    fn follow_rules_of(&mut self, id: RegistrationId, forgives: bool) -> Result<(), String> {
        let Some(entry) = self.registry.get_mut(id) else {
            return Ok(());
        };
        let was_demoted = entry.demoted;
        entry.demoted &= !forgives;
        let (uid, declared, name) = (entry.uid, entry.task.class, entry.task.name.clone());
        let is_realtime = |engine: &Self| {
            let entry = engine.registry.get(id);
            entry.is_some_and(|entry| engine.scheduled_class(entry) != Class::BestEffort)
        };
        let impossible = match declared {
            Class::Realtime(timing) if is_realtime(self) => {
                self.deadline_complaint(uid, &name, timing)
            }
            Class::Realtime(_) | Class::BestEffort => None,
        };
        let shaped = impossible.map_or_else(|| self.shape_anew(id), Err);
        if let Some(entry) = self.registry.get_mut(id) {
            entry.demoted = was_demoted && !(forgives && shaped.is_ok());
            if entry.demoted != was_demoted {
                self.unrecorded.note_registration(id);
            }
        }
        shaped
    }

    /// Tells schedulers what a task is by the rules.
    fn shape_anew(&mut self, id: RegistrationId) -> Result<(), String> {
        let Some(entry) = self.registry.get(id) else {
            return Ok(());
        };
        let shape = self.shape(entry);
        let home = self.gpus.iter().position(|gpu| Some(gpu.uuid) == entry.gpu);
        let is_realtime = matches!(shape.class, Class::Realtime(_));
        let tasks: Vec<_> = self.tasks.of(id).collect();
        for (gpu, task) in tasks {
            if self.tasks.get(task).is_some_and(|task| task.has_ended) {
                continue;
            }
            let class = if Some(gpu) == home {
                shape.class
            } else {
                Class::BestEffort
            };
            let Some(entry) = self.registry.get(id) else {
                return Ok(());
            };
            let spec: TaskSpec = spec_of(entry, class, &shape);
            let changed = self.gpus[gpu].change(self.now, task, &spec);
            changed.map_err(|refusal| refusal.to_string())?;
            if is_realtime
                && Some(gpu) == home
                && let Some(group) = self.tasks.group(task)
            {
                group.set_realtime();
                self.note_need(gpu, task);
            }
        }
        self.note_change();
        Ok(())
    }

    /// The text of why a task cannot have the deadline that its rule says; none where it can.
    fn deadline_complaint(&self, uid: u32, name: &str, timing: Timing) -> Option<String> {
        let deadline = self.policy.deadline(uid, name)?;
        let Timing { period, wcet, .. } = timing;
        (!(wcet..=period).contains(&deadline)).then(|| {
            format!(
                "the policy has a deadline of {deadline} for {name}, which is not between its wcet of {wcet} and its \
                 period of {period}"
            )
        })
    }

    /// What schedulers are told of a registration.
    pub(crate) fn shape(&self, entry: &Registration) -> Shape {
        shape_by(&self.policy, entry)
    }

    /// What else the policy says of a registration.
    pub(crate) fn limits(&self, entry: &Registration) -> Limits {
        let user = entry.owner.uid();
        self.policy.limits(user, entry.uid, &entry.task.name)
    }

    /// The class that schedulers are told.
    pub(crate) fn scheduled_class(&self, entry: &Registration) -> Class {
        self.shape(entry).class
    }

    /// Whether a task may be registered by the policy.
    pub(super) fn policy_admits(&self, uid: u32, task: &TaskDeclaration) -> Result<(), CallError> {
        let Class::Realtime(timing) = task.class else {
            return Ok(());
        };
        let user = self.registry.user(uid).uid();
        let name = &task.name;
        if self.policy.forbids_realtime(user, uid, name) {
            return Err(CallError::AccessDenied(format!(
                "the policy makes {name} best-effort: register it without a period, or have root allow deadlines \
                 by `rtswapctl policy set --user {uid} --task {name} class=declared`"
            )));
        }
        if let Some(complaint) = self.deadline_complaint(uid, name, timing) {
            return Err(CallError::InvalidArgument(complaint));
        }
        for (what, declared, rule) in [
            (
                "gpu_memory",
                task.memory.footprint,
                (|it| it.gpu_memory) as fn(&Rules) -> Option<Bytes>,
            ),
            ("pinned_memory", task.memory.swappable, |it| {
                it.pinned_memory
            }),
        ] {
            let caps = self.policy.caps(user, uid, name, rule);
            if let Some(cap) = caps.into_iter().flatten().find(|cap| declared > *cap) {
                return Err(CallError::InvalidArgument(format!(
                    "the policy has {what} be at most {cap} for {name}, and it declares {declared}"
                )));
            }
        }
        Ok(())
    }
}

fn shape_by(policy: &Policy, entry: &Registration) -> Shape {
    let user = entry.owner.uid();
    policy.shape(user, entry.uid, entry.demoted, &entry.task)
}

fn told(set: &Rules, unset: &[Key]) -> String {
    let set = Key::ALL.into_iter().filter_map(|key| {
        let value = set.get(key)?;
        Some(format!("{} = {value}", key.name()))
    });
    let unset = unset.iter().map(|key| format!("no {}", key.name()));
    set.chain(unset).collect::<Vec<_>>().join(", ")
}

/// The error that tells of tasks that stay as they were; none where there are none.
pub(super) fn all_else(refused: &[String]) -> Result<(), CallError> {
    if refused.is_empty() {
        return Ok(());
    }
    Err(CallError::NotSchedulable(format!(
        "all else is in effect, but these stay as they were: {}",
        refused.join("; ")
    )))
}
