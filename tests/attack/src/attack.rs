//! What an attack is: a name, what its processes do, and what must hold besides the victims' own promises.

use std::time::Duration;

use anyhow::Result;

use crate::attacker::Attacker;
use crate::judge::Scene;

/// The stage that an attack needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setting {
    /// A machine with NVML and probes, the packaged unit's limit of descriptors.
    Whole,
    /// The same with a limit of descriptors that is reached in the time of an attack.
    FewDescriptors,
    /// A machine without NVML, whose GPUs no file describes.
    WithoutNvml,
}

/// One attack.
#[derive(Clone, Copy)]
pub(crate) struct Attack {
    /// Names the attack in reports and in docs/security.md.
    pub name: &'static str,
    /// The stage that it is made on.
    pub setting: Setting,
    /// How many processes attack at once, all of one user.
    pub attackers: u32,
    /// The users that they may be: more than one where subordinate ids are lent.
    pub users: u32,
    /// Whether they take all the memory that best-effort may have. Realtime pays for that whoever takes it, so its
    /// victims are compared with those beside an honest program that does.
    pub takes_memory: bool,
    /// How long they attack.
    pub span: Duration,
    /// What a process does as root before it becomes the attacker; most do nothing.
    pub prepare: fn(&mut Attacker) -> Result<()>,
    /// What each process does, as the attacker, until its time is over.
    pub act: fn(&mut Attacker) -> Result<()>,
    /// The least number of jobs of the best-effort victim beside them.
    pub painted: usize,
    /// What must hold besides the promises to the victims and the daemon's bounds.
    pub judge: fn(&Scene) -> Result<()>,
}

/// For what takes some time to build up.
pub(crate) const LONGER: Duration = Duration::from_millis(1_300);

/// What an attack leaves out.
pub(crate) const PLAIN: Attack = Attack {
    name: "",
    setting: Setting::Whole,
    attackers: 1,
    users: 1,
    takes_memory: false,
    span: Duration::from_millis(700),
    prepare: |_| Ok(()),
    act: |_| Ok(()),
    painted: 0,
    judge: |_| Ok(()),
};
