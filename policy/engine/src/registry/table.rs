//! Registrations: what a task declared, for which user, and how long that lasts; by number and by
//! (user, name).

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use rtswap_policy::task::Class;

use super::{Statistics, TaskDeclaration};
use crate::Uuid;
use crate::error::CallError;
use crate::ids::{Claimant, RegistrationId};
use crate::owners::{Owner, Subordinates, has_room};
use crate::saved::{SavedOrigin, SavedRegistration};

/// Where a registration comes from, and so what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `Register`: ends `claim_timeout` after its last process.
    Call,
    /// `RegisterWithLease`: ends when the lease is closed.
    Lease,
    /// `RegisterWithLease` of the daemon before, with which the lease ended: ends with its last process.
    FormerLease,
    /// A file in `tasks.d`: stays as long as the file.
    File,
    /// A process without a registration: ends with it.
    Session,
}

/// A registered task, with or without processes.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The number that the daemon gave it.
    pub id: RegistrationId,
    /// The user id; processes of this user may claim the registration.
    pub uid: u32,
    /// Who answers for it.
    pub owner: Owner,
    /// What it declared. Its name is unique for the user.
    pub task: TaskDeclaration,
    /// The GPU of a realtime task.
    pub gpu: Option<Uuid>,
    /// Whether it broke a promise and is scheduled as best-effort for that. The next daemon takes this
    /// over, so only a new registration ends it.
    pub demoted: bool,
    /// Whether it stays off the GPU until it is resumed. The next daemon takes this over.
    pub parked: bool,
    /// What ends it.
    pub origin: Origin,
    /// The only process that may claim it.
    pub claimant: Option<Claimant>,
    /// What its jobs and swaps came to.
    pub statistics: Statistics,
}

impl Registration {
    /// A fresh one.
    pub fn new(id: RegistrationId, uid: u32, task: TaskDeclaration, origin: Origin) -> Self {
        Self {
            id,
            uid,
            owner: Owner::User(uid),
            task,
            gpu: None,
            demoted: false,
            parked: false,
            origin,
            claimant: None,
            statistics: Statistics::default(),
        }
    }

    /// The name by which schedulers and texts know it: that of each user's tasks, with `@` and the user. A
    /// shell makes of it what the reader of a text may see.
    pub fn full_name(&self) -> String {
        format!("{}@{}", self.task.name, self.uid)
    }

    /// The text for a parked task; none for any other.
    pub fn parked_text(&self) -> Option<String> {
        let name = &self.task.name;
        self.parked
            .then(|| format!("parked: rtswapctl resume {name} brings it back"))
    }

    /// Whether it declared a deadline.
    pub fn is_realtime(&self) -> bool {
        matches!(self.task.class, Class::Realtime(_))
    }

    /// What the next daemon needs of it.
    pub fn saved(&self) -> SavedRegistration {
        SavedRegistration {
            id: self.id,
            uid: self.uid,
            task: TaskDeclaration {
                gpu: None,
                ..self.task.clone()
            },
            demoted: self.demoted,
            parked: self.parked,
            gpu: self.gpu,
            origin: match self.origin {
                Origin::Call | Origin::Lease | Origin::FormerLease => SavedOrigin::Call,
                Origin::File => SavedOrigin::File,
                Origin::Session => SavedOrigin::Session,
            },
            is_leased: matches!(self.origin, Origin::Lease | Origin::FormerLease),
            claimant: self.claimant,
        }
    }
}

/// Registrations at a time.
pub const MAX_TASKS: usize = 4096;

/// All of them.
#[derive(Debug)]
pub struct Registry {
    by_id: BTreeMap<RegistrationId, Registration>,
    by_name: BTreeMap<(u32, String), RegistrationId>,
    /// How many each owner has.
    counts: BTreeMap<Owner, usize>,
    subordinates: Subordinates,
    next: u64,
}

impl Registry {
    /// None yet; numbers start at `next`.
    pub fn new(next: u64, subordinates: Subordinates) -> Self {
        Self {
            by_id: BTreeMap::new(),
            by_name: BTreeMap::new(),
            counts: BTreeMap::new(),
            subordinates,
            next: next.max(1),
        }
    }

    /// The number that the next registration gets.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Who answers for what a user registers.
    pub fn user(&self, uid: u32) -> Owner {
        Owner::User(self.subordinates.user(uid))
    }

    /// Whether `uid` may add a task of this name for `owner`, where each owner may have `most`.
    pub fn admits(
        &self,
        owner: &Owner,
        uid: u32,
        name: &str,
        most: usize,
    ) -> Result<(), CallError> {
        if let Some(id) = self.find(uid, name) {
            return Err(CallError::Busy(format!(
                "user {uid} has a task named {name} already ({id}); end it with Unregister or take \
                 another name"
            )));
        }
        if self.by_id.len() >= MAX_TASKS {
            return Err(CallError::Busy(format!(
                "{MAX_TASKS} tasks are registered, which is the most; end some"
            )));
        }
        let own = self.counts.get(owner).copied().unwrap_or_default();
        if own >= most {
            return Err(CallError::Busy(format!(
                "{owner} has {own} tasks, and may have {most}; end some, or have root raise max_tasks in the \
                 policy"
            )));
        }
        if *owner != Owner::User(0) && !has_room(own, self.by_id.len(), MAX_TASKS) {
            return Err(CallError::Busy(format!(
                "{owner} has {own} tasks of {}, of {MAX_TASKS} at most: one owner may have half of \
                 what the others leave; end some",
                self.by_id.len()
            )));
        }
        Ok(())
    }

    /// Adds one under a fresh number, after [`Self::admits`].
    pub fn add(&mut self, uid: u32, task: TaskDeclaration, origin: Origin) -> &mut Registration {
        let id = RegistrationId(self.next);
        self.insert(Registration::new(id, uid, task, origin))
    }

    /// Puts one back that a state file kept.
    pub fn insert(&mut self, mut registration: Registration) -> &mut Registration {
        let id = registration.id;
        if let Owner::User(uid) = registration.owner {
            registration.owner = self.user(uid);
        }
        self.next = self.next.max(id.0.saturating_add(1));
        let name = (registration.uid, registration.task.name.clone());
        if self.by_name.insert(name, id).is_none() {
            *self.counts.entry(registration.owner.clone()).or_default() += 1;
        }
        self.by_id.entry(id).insert_entry(registration).into_mut()
    }

    /// Removes a registration and returns it.
    pub fn remove(&mut self, id: RegistrationId) -> Option<Registration> {
        let registration = self.by_id.remove(&id)?;
        let name = (registration.uid, registration.task.name.clone());
        if self.by_name.remove(&name).is_some()
            && let Some(count) = self.counts.get_mut(&registration.owner)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&registration.owner);
            }
        }
        Some(registration)
    }

    /// One by its number.
    pub fn get(&self, id: RegistrationId) -> Option<&Registration> {
        self.by_id.get(&id)
    }

    /// One by its number.
    pub fn get_mut(&mut self, id: RegistrationId) -> Option<&mut Registration> {
        self.by_id.get_mut(&id)
    }

    /// One by its user and name.
    pub fn find(&self, uid: u32, name: &str) -> Option<RegistrationId> {
        self.by_name.get(&(uid, name.to_owned())).copied()
    }

    /// Those of one origin, by number.
    pub fn of_origin(&self, origin: Origin) -> impl Iterator<Item = &Registration> {
        self.iter().filter(move |entry| entry.origin == origin)
    }

    /// All, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.by_id.values()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::registry::TaskOptions;

    fn checked(name: &str) -> TaskDeclaration {
        TaskOptions::best_effort(name.into()).check().unwrap()
    }

    #[test]
    fn a_name_is_one_users_own() {
        let mut registry = Registry::new(7, Subordinates::default());
        let id = registry.add(5, checked("a"), Origin::Call).id;
        assert_eq!(id, RegistrationId(7));
        assert_eq!(
            registry
                .admits(&Owner::User(5), 5, "a", 2)
                .unwrap_err()
                .to_string(),
            "user 5 has a task named a already (/org/rtswap/task/7); end it with Unregister or \
             take another name"
        );
        assert!(registry.admits(&Owner::User(6), 6, "a", 2).is_ok());
        registry.add(5, checked("b"), Origin::Call);
        assert_eq!(
            registry
                .admits(&Owner::User(5), 5, "c", 2)
                .unwrap_err()
                .to_string(),
            "user 5 has 2 tasks, and may have 2; end some, or have root raise max_tasks in the policy"
        );
        registry.remove(id);
        assert!(registry.admits(&Owner::User(5), 5, "a", 2).is_ok());
        let id = registry.add(5, checked("a"), Origin::Call).id;
        assert_eq!(id, RegistrationId(9), "numbers are not reused");
    }
}
