//! Registrations: what a task declared, for which user, and how long that lasts.

use rtswap_policy::task::Class;

use super::{Statistics, TaskDeclaration};
use crate::Uuid;
use crate::ids::{Claimant, RegistrationId};
use crate::saved::{SavedOrigin, SavedRegistration};

/// Where a registration comes from, and so what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `Register`: ends `claim_timeout` after its last process.
    Call,
    /// `RegisterWithLease`: ends when the lease is closed.
    Lease,
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
    /// What it declared. Its name is unique for the user.
    pub task: TaskDeclaration,
    /// The GPU of a realtime task.
    pub gpu: Option<Uuid>,
    /// Whether it broke a promise and is scheduled as best-effort for that. The next daemon takes this
    /// over, so only a new registration ends it.
    pub demoted: bool,
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
            task,
            gpu: None,
            demoted: false,
            origin,
            claimant: None,
            statistics: Statistics::default(),
        }
    }

    /// The class that schedulers are told.
    pub fn scheduled_class(&self) -> Class {
        if self.demoted {
            Class::BestEffort
        } else {
            self.task.class
        }
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
            gpu: self.gpu,
            origin: match self.origin {
                Origin::Call | Origin::Lease => SavedOrigin::Call,
                Origin::File => SavedOrigin::File,
                Origin::Session => SavedOrigin::Session,
            },
            claimant: self.claimant,
        }
    }
}
