//! The administrator's policy: rules for everybody, for a user, or for one task, from a file or set at run time.
//!
//! `policy` has all of them and says which holds.

mod policy;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::fmt;

use rtswap_policy::task::{SHORTEST_IDLE, Weight};
use rtswap_policy::units::{Bytes, Nanos};

use crate::config::OnViolation;

pub use policy::{Limits, Policy, Row, Shape, Source};

/// Tasks that a user may have where nobody says anything.
pub const MAX_TASKS_PER_USER: usize = 512;

/// Whom rules are for. The narrowest one goes before all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the variants' names say it")]
pub enum Scope {
    Everybody,
    /// A user, with the subordinate ids that were given to that user.
    User(u32),
    /// The task of this name of a user.
    Task {
        uid: u32,
        name: String,
    },
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("everybody"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Task { uid, name } => write!(f, "task {name} of user {uid}"),
        }
    }
}

/// What is said for a scope; none of what it leaves to wider ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether what a task declares of deadlines counts.
    pub class: Option<ClassRule>,
    /// D, instead of what the task declares.
    pub deadline: Option<Nanos>,
    /// The weight, instead of what the task declares.
    pub weight: Option<Weight>,
    /// How long a best-effort task without a job keeps its memory on the GPU.
    pub idle_after: Option<IdleRule>,
    /// Bytes that a task, or all tasks of a user, may have on each GPU, swapped out or not.
    pub gpu_memory: Option<Bytes>,
    /// Bytes of these that may need pinned memory of the host.
    pub pinned_memory: Option<Bytes>,
    /// Tasks that a user may have at a time, best-effort ones included.
    pub max_tasks: Option<usize>,
    /// What follows from a violation.
    pub on_violation: Option<OnViolation>,
}

/// What the administrator says of a task's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassRule {
    /// As it declares, also where a wider rule or a violation made it best-effort.
    Declared,
    /// Best-effort, whatever it declares.
    BestEffort,
}

/// What the administrator says of the time that a task without a job keeps its memory on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleRule {
    /// As it declares, also where a wider rule says a span.
    Never,
    /// At most this long, unless it declares a shorter time.
    After(Nanos),
}

/// One rule of [`Rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields of the same names say it")]
pub enum Key {
    Class,
    Deadline,
    Weight,
    IdleAfter,
    GpuMemory,
    PinnedMemory,
    MaxTasks,
    OnViolation,
}

impl Key {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Class,
        Self::Deadline,
        Self::Weight,
        Self::IdleAfter,
        Self::GpuMemory,
        Self::PinnedMemory,
        Self::MaxTasks,
        Self::OnViolation,
    ];

    /// Its name on D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Deadline => "deadline_us",
            Self::Weight => "weight",
            Self::IdleAfter => "idle_after_us",
            Self::GpuMemory => "gpu_memory",
            Self::PinnedMemory => "pinned_memory",
            Self::MaxTasks => "max_tasks",
            Self::OnViolation => "on_violation",
        }
    }

    /// Whether it can be said for this scope.
    const fn fits(self, scope: &Scope) -> bool {
        match self {
            Self::Deadline | Self::Weight => matches!(scope, Scope::Task { .. }),
            Self::MaxTasks => !matches!(scope, Scope::Task { .. }),
            Self::Class
            | Self::IdleAfter
            | Self::GpuMemory
            | Self::PinnedMemory
            | Self::OnViolation => true,
        }
    }
}

/// The value of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants' names say it")]
pub enum Value {
    Word(&'static str),
    Count(u64),
    Size(Bytes),
    Span(Nanos),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Count(count) => write!(f, "{count}"),
            Self::Size(bytes) => write!(f, "{bytes}"),
            Self::Span(span) => write!(f, "{span}"),
        }
    }
}

impl Rules {
    /// What is said under a key.
    pub fn get(&self, key: Key) -> Option<Value> {
        match key {
            Key::Class => self.class.map(|class| Value::Word(class.name())),
            Key::Deadline => self.deadline.map(Value::Span),
            Key::Weight => self.weight.map(|weight| Value::Count(weight.get().into())),
            Key::IdleAfter => self.idle_after.map(|rule| match rule {
                IdleRule::Never => Value::Word(IdleRule::NEVER),
                IdleRule::After(span) => Value::Span(span),
            }),
            Key::GpuMemory => self.gpu_memory.map(Value::Size),
            Key::PinnedMemory => self.pinned_memory.map(Value::Size),
            Key::MaxTasks => self.max_tasks.map(|most| Value::Count(most as u64)),
            Key::OnViolation => self.on_violation.map(|it| Value::Word(it.name())),
        }
    }

    /// Leaves what is said under a key to wider scopes.
    pub fn unset(&mut self, key: Key) {
        match key {
            Key::Class => self.class = None,
            Key::Deadline => self.deadline = None,
            Key::Weight => self.weight = None,
            Key::IdleAfter => self.idle_after = None,
            Key::GpuMemory => self.gpu_memory = None,
            Key::PinnedMemory => self.pinned_memory = None,
            Key::MaxTasks => self.max_tasks = None,
            Key::OnViolation => self.on_violation = None,
        }
    }

    /// Takes over all that `other` says.
    pub fn amend(&mut self, other: &Self) {
        let Self {
            class,
            deadline,
            weight,
            idle_after,
            gpu_memory,
            pinned_memory,
            max_tasks,
            on_violation,
        } = *other;
        self.class = class.or(self.class);
        self.deadline = deadline.or(self.deadline);
        self.weight = weight.or(self.weight);
        self.idle_after = idle_after.or(self.idle_after);
        self.gpu_memory = gpu_memory.or(self.gpu_memory);
        self.pinned_memory = pinned_memory.or(self.pinned_memory);
        self.max_tasks = max_tasks.or(self.max_tasks);
        self.on_violation = on_violation.or(self.on_violation);
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The text of what is wrong with these rules for a scope; none where nothing is.
    pub fn complaint(&self, scope: &Scope) -> Option<String> {
        let said = |key: &Key| self.get(*key).is_some();
        let wrong = Key::ALL.into_iter().filter(said);
        let wrong = wrong.into_iter().find(|key| !key.fits(scope));
        if let Some(key) = wrong {
            let whom = if key == Key::MaxTasks {
                "a user or everybody"
            } else {
                "a task"
            };
            return Some(format!(
                "{} is a rule for {whom}, and not for {scope}",
                key.name()
            ));
        }
        if let Some(IdleRule::After(span)) = self.idle_after
            && let Some(complaint) = idle_complaint(span)
        {
            return Some(complaint);
        }
        (self.deadline == Some(Nanos::ZERO)).then(|| "a deadline of 0 cannot be kept".into())
    }
}

/// The text of what is wrong with an `idle_after` of `span`; none where nothing is.
pub fn idle_complaint(span: Nanos) -> Option<String> {
    (span < SHORTEST_IDLE).then(|| {
        format!(
            "an idle_after of {span} would move memory between jobs: it is at least {SHORTEST_IDLE}"
        )
    })
}

impl ClassRule {
    /// Its name in files and on D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::BestEffort => "best-effort",
        }
    }
}

impl IdleRule {
    /// The name of [`IdleRule::Never`] in files and on D-Bus.
    pub const NEVER: &str = "never";

    /// The longest idle time by this rule; none where it says none.
    pub const fn span(self) -> Option<Nanos> {
        match self {
            Self::Never => None,
            Self::After(span) => Some(span),
        }
    }
}

/// The rules of each scope for which there are some.
pub type RuleSet = BTreeMap<Scope, Rules>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_said_where_they_make_sense() {
        let task = Scope::Task {
            uid: 7,
            name: "a".into(),
        };
        let weight = Rules {
            weight: Weight::new(5),
            ..Rules::default()
        };
        assert_eq!(weight.complaint(&task), None);
        assert_eq!(
            weight.complaint(&Scope::User(7)).unwrap(),
            "weight is a rule for a task, and not for user 7"
        );
        let most = Rules {
            max_tasks: Some(0),
            ..Rules::default()
        };
        assert_eq!(most.complaint(&Scope::Everybody), None);
        assert_eq!(
            most.complaint(&task).unwrap(),
            "max_tasks is a rule for a user or everybody, and not for task a of user 7"
        );
        let at_once = Rules {
            deadline: Some(Nanos::ZERO),
            ..Rules::default()
        };
        assert!(at_once.complaint(&task).is_some());
        let idle = |span| Rules {
            idle_after: Some(IdleRule::After(span)),
            ..Rules::default()
        };
        assert_eq!(idle(SHORTEST_IDLE).complaint(&Scope::Everybody), None);
        assert_eq!(
            idle(Nanos(99_999_000)).complaint(&task).unwrap(),
            "an idle_after of 99.999 ms would move memory between jobs: it is at least 100.000 ms"
        );
    }

    #[test]
    fn what_is_said_is_taken_over_and_taken_back() {
        let mut rules = Rules {
            max_tasks: Some(3),
            gpu_memory: Some(Bytes(5)),
            ..Rules::default()
        };
        rules.amend(&Rules {
            gpu_memory: Some(Bytes(6)),
            class: Some(ClassRule::BestEffort),
            ..Rules::default()
        });
        assert_eq!(rules.get(Key::GpuMemory), Some(Value::Size(Bytes(6))));
        assert_eq!(rules.get(Key::MaxTasks), Some(Value::Count(3)));
        for key in Key::ALL {
            rules.unset(key);
        }
        assert!(rules.is_empty());
    }
}
