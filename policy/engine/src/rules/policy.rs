//! All rules, and which of them holds.

use alloc::vec::Vec;

use rtswap_policy::task::{Class, Timing, Weight};
use rtswap_policy::units::{Bytes, Nanos};

use super::{ClassRule, IdleRule, Key, MAX_TASKS_PER_USER, RuleSet, Rules, Scope, Value};
use crate::config::OnViolation;
use crate::registry::TaskDeclaration;

/// Where a rule is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `SetPolicy`.
    RunTime,
    /// policy.toml.
    PolicyFile,
    /// `[daemon]` of rtswapd.toml.
    DaemonFile,
    /// Nowhere.
    BuiltIn,
}

impl Source {
    /// Its name on D-Bus.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RunTime => "run-time",
            Self::PolicyFile => "policy.toml",
            Self::DaemonFile => "rtswapd.toml",
            Self::BuiltIn => "built-in",
        }
    }
}

/// A rule as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whom it is for.
    pub scope: Scope,
    /// Which one it is.
    pub key: Key,
    /// What it says.
    pub value: Value,
    /// Where that is said.
    pub source: Source,
    /// False where the same is said for the same scope in a place that goes before.
    pub holds: bool,
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Set since the files were read last. These go before those of the file.
    pub run_time: RuleSet,
    /// Those of policy.toml.
    pub file: RuleSet,
    /// What rtswapd.toml says for everybody.
    pub base: Rules,
}

impl Policy {
    /// What is said of a task's class, weight, deadline and idle time, with what it declares.
    pub fn shape(&self, user: u32, uid: u32, demoted: bool, task: &TaskDeclaration) -> Shape {
        let scopes = scopes(user, uid, &task.name);
        let rule = self.find(&scopes, |rules| rules.class);
        let is_demoted = demoted || rule == Some(ClassRule::BestEffort);
        let declared = match task.class {
            Class::Realtime(timing) => Some(self.timing(uid, &task.name, timing)),
            Class::BestEffort => None,
        };
        let weight = self.find(&scopes, |rules| rules.weight);
        let rule = self.find(&scopes, |rules| rules.idle_after);
        let idle_after = rule.and_then(IdleRule::span);
        Shape {
            timing: declared,
            class: match declared.filter(|_| !is_demoted) {
                Some(timing) => Class::Realtime(timing),
                None => Class::BestEffort,
            },
            weight: weight.unwrap_or(task.weight),
            idle_after: idle_after.into_iter().chain(task.idle_after).min(),
        }
    }

    /// What a task's rule says of its deadline.
    pub fn deadline(&self, uid: u32, name: &str) -> Option<Nanos> {
        let name = name.into();
        self.find(&[Scope::Task { uid, name }], |rules| rules.deadline)
    }

    /// The timing of a task by its rule for the deadline, unless it declares that as impossible.
    fn timing(&self, uid: u32, name: &str, declared: Timing) -> Timing {
        let deadline = self.deadline(uid, name);
        let deadline =
            deadline.filter(|deadline| (declared.wcet..=declared.period).contains(deadline));
        Timing {
            deadline: deadline.unwrap_or(declared.deadline),
            ..declared
        }
    }

    /// Whether a rule makes every task of this name best-effort.
    pub fn forbids_realtime(&self, user: u32, uid: u32, name: &str) -> bool {
        let rule = self.find(&scopes(user, uid, name), |rules| rules.class);
        rule == Some(ClassRule::BestEffort)
    }

    /// What follows from a violation of a task.
    pub fn on_violation(&self, user: u32, uid: u32, name: &str) -> OnViolation {
        let said = self.find(&scopes(user, uid, name), |rules| rules.on_violation);
        said.or(self.base.on_violation).unwrap_or(OnViolation::Warn)
    }

    /// The tasks that a user may have.
    pub fn max_tasks(&self, user: u32) -> usize {
        let said = self.find(&of_user(user), |rules| rules.max_tasks);
        said.or(self.base.max_tasks).unwrap_or(MAX_TASKS_PER_USER)
    }

    /// The bytes that a task may have by one of the two rules, by its own and by its user's.
    pub fn caps(
        &self,
        user: u32,
        uid: u32,
        name: &str,
        rule: fn(&Rules) -> Option<Bytes>,
    ) -> [Option<Bytes>; 2] {
        let name = name.into();
        let own = self.find(&[Scope::Task { uid, name }], rule);
        [own, self.find(&of_user(user), rule)]
    }

    /// What the rules alone let a task have and have follow from its violations.
    pub fn limits(&self, user: u32, uid: u32, name: &str) -> Limits {
        let least = |rule| {
            let caps = self.caps(user, uid, name, rule);
            caps.into_iter().flatten().min()
        };
        Limits {
            gpu_memory: least(|rules| rules.gpu_memory),
            pinned_memory: least(|rules| rules.pinned_memory),
            on_violation: self.on_violation(user, uid, name),
        }
    }

    /// Whether a rule caps anything, so that the memory of users must be added up.
    pub fn has_caps(&self) -> bool {
        let mut all = self.run_time.values().chain(self.file.values());
        all.any(|rules| rules.gpu_memory.is_some() || rules.pinned_memory.is_some())
    }

    /// What the first of these scopes says for which something is said.
    fn find<T>(&self, scopes: &[Scope], rule: impl Fn(&Rules) -> Option<T>) -> Option<T> {
        scopes.iter().find_map(|scope| {
            let layers = [&self.run_time, &self.file];
            layers.iter().find_map(|layer| rule(layer.get(scope)?))
        })
    }

    /// All rules, by scope and key; for everybody also those that nobody said.
    pub fn rows(&self) -> Vec<Row> {
        let built_in = Rules {
            max_tasks: Some(MAX_TASKS_PER_USER),
            on_violation: Some(OnViolation::Warn),
            ..Rules::default()
        };
        let everybody = |rules| RuleSet::from([(Scope::Everybody, rules)]);
        let layers = [
            (self.run_time.clone(), Source::RunTime),
            (self.file.clone(), Source::PolicyFile),
            (everybody(self.base), Source::DaemonFile),
            (everybody(built_in), Source::BuiltIn),
        ];
        let mut scopes: Vec<_> = layers.iter().flat_map(|(set, _)| set.keys()).collect();
        scopes.sort();
        scopes.dedup();
        let mut rows = Vec::new();
        for scope in scopes {
            for key in Key::ALL {
                let mut holds = true;
                for (set, source) in &layers {
                    let Some(value) = set.get(scope).and_then(|rules| rules.get(key)) else {
                        continue;
                    };
                    // What is built in is no answer once somebody has said something.
                    if *source == Source::BuiltIn && !holds {
                        continue;
                    }
                    rows.push(Row {
                        scope: scope.clone(),
                        key,
                        value,
                        source: *source,
                        holds,
                    });
                    holds = false;
                }
            }
        }
        rows
    }
}

/// What schedulers are told of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// T, D and C, also while they do not count; none where none is declared.
    pub timing: Option<Timing>,
    /// Its class, with its timing where that counts.
    pub class: Class,
    /// Its weight.
    pub weight: Weight,
    /// How long it keeps its memory on the GPU without a job; none if until others need it.
    pub idle_after: Option<Nanos>,
}

/// What no scheduler is told of a task, and the policy says all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that it may have on each GPU, swapped out or not: the smaller cap of its own and of all tasks of its user
    /// together, whatever the others have of that. None where no rule caps them.
    pub gpu_memory: Option<Bytes>,
    /// Bytes of these that may need pinned memory of the host, likewise.
    pub pinned_memory: Option<Bytes>,
    /// What follows from its violations.
    pub on_violation: OnViolation,
}

/// The narrowest first.
fn scopes(user: u32, uid: u32, name: &str) -> [Scope; 3] {
    let [user, everybody] = of_user(user);
    let name = name.into();
    [Scope::Task { uid, name }, user, everybody]
}

fn of_user(user: u32) -> [Scope; 2] {
    [Scope::User(user), Scope::Everybody]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::TaskOptions;

    #[test]
    fn the_narrowest_scope_holds_and_in_it_what_was_set_at_run_time() {
        let task = Scope::Task {
            uid: 7,
            name: "a".into(),
        };
        let most = |bytes| Rules {
            gpu_memory: Some(Bytes(bytes)),
            ..Rules::default()
        };
        let policy = Policy {
            run_time: RuleSet::from([(Scope::Everybody, most(1)), (Scope::User(7), most(2))]),
            file: RuleSet::from([(Scope::User(7), most(3)), (task, most(4))]),
            base: Rules {
                max_tasks: Some(5),
                ..Rules::default()
            },
        };
        let caps = |uid, name| policy.caps(uid, uid, name, |rules| rules.gpu_memory);
        assert_eq!(caps(7, "a"), [Some(Bytes(4)), Some(Bytes(2))]);
        assert_eq!(caps(7, "b"), [None, Some(Bytes(2))]);
        assert_eq!(caps(8, "a"), [None, Some(Bytes(1))]);
        let least = |uid, name| policy.limits(uid, uid, name).gpu_memory;
        assert_eq!(least(7, "a"), Some(Bytes(2)), "its user has less than it");
        assert_eq!(least(8, "a"), Some(Bytes(1)));
        assert_eq!(policy.limits(7, 7, "a").pinned_memory, None);
        assert_eq!(policy.max_tasks(7), 5);
        assert_eq!(policy.on_violation(7, 7, "a"), OnViolation::Warn);
        let rows = policy.rows();
        let said: Vec<_> = rows
            .iter()
            .map(|row| (row.scope.clone(), row.key, row.source, row.holds))
            .collect();
        assert!(said.contains(&(Scope::User(7), Key::GpuMemory, Source::RunTime, true)));
        assert!(said.contains(&(Scope::User(7), Key::GpuMemory, Source::PolicyFile, false)));
        assert!(said.contains(&(Scope::Everybody, Key::MaxTasks, Source::DaemonFile, true)));
        assert!(said.contains(&(Scope::Everybody, Key::OnViolation, Source::BuiltIn, true)));
        let built_in = said.iter().filter(|row| row.2 == Source::BuiltIn);
        assert_eq!(built_in.count(), 1, "max_tasks is said");
    }

    #[test]
    fn the_shorter_idle_time_counts_of_the_rule_and_the_declaration() {
        let span = |seconds: u64| Some(Nanos(seconds * 1_000_000_000));
        let may_idle = |seconds| Rules {
            idle_after: span(seconds).map(IdleRule::After),
            ..Rules::default()
        };
        let policy = Policy {
            file: RuleSet::from([
                (Scope::Everybody, may_idle(5)),
                (Scope::User(7), may_idle(60)),
            ]),
            ..Policy::default()
        };
        let never = Rules {
            idle_after: Some(IdleRule::Never),
            ..Rules::default()
        };
        let exempt = Policy {
            run_time: RuleSet::from([(Scope::User(8), never)]),
            ..policy.clone()
        };
        let shaped = |policy: &Policy, uid, idle_after| {
            let options = TaskOptions {
                idle_after,
                ..TaskOptions::best_effort("a".into())
            };
            let task = options.check().unwrap();
            policy.shape(uid, uid, false, &task).idle_after
        };
        assert_eq!(shaped(&policy, 8, None), span(5));
        assert_eq!(shaped(&policy, 8, span(9)), span(5));
        assert_eq!(shaped(&policy, 8, span(2)), span(2));
        assert_eq!(shaped(&policy, 7, None), span(60));
        assert_eq!(shaped(&exempt, 8, None), None, "as for nobody");
        assert_eq!(shaped(&exempt, 8, span(9)), span(9), "its own time");
        assert_eq!(shaped(&exempt, 7, None), span(60));
        assert_eq!(shaped(&exempt, 9, None), span(5));
        assert_eq!(shaped(&Policy::default(), 7, span(2)), span(2));
        assert_eq!(shaped(&Policy::default(), 7, None), None);
    }
}
