//! `Manager1.SetPolicy` and `Manager1.Policy`: what changes of the policy, and what it says, as JSON.

use std::collections::HashMap;

use rtswap_engine::config::OnViolation;
use rtswap_engine::input::PolicyChange;
use rtswap_engine::registry::{MAX_NAME, MAX_TASKS, is_name};
use rtswap_engine::rules::{ClassRule, IdleRule, Key, Row, Rules, Scope, Value};
use rtswap_policy::task::Weight;
use serde::Serialize;
use zbus::{OwnedVariant, Variant};

use super::options::{integer, size, text, time, weight};
use super::viewer::Viewer;

/// Reads what `SetPolicy` is given by the user `caller`. The error says which option is wrong, and why.
pub(super) fn read(
    caller: u32,
    options: HashMap<String, OwnedVariant>,
) -> Result<PolicyChange, String> {
    let (mut user, mut task) = (None, None);
    let (mut set, mut unset) = (Rules::default(), Vec::new());
    for (key, value) in options {
        let value: &Variant<'_> = &value;
        match key.as_str() {
            "user" => user = Some(uid(value)?),
            "task" => task = Some(name(value)?),
            _ => {
                let rule = rule(&key)?;
                if matches!(value, Variant::Str(text) if text.is_empty()) {
                    unset.push(rule);
                } else {
                    put(&mut set, rule, &key, value)?;
                }
            }
        }
    }
    if set.is_empty() && unset.is_empty() {
        return Err(format!("no rule is said; {}", known()));
    }
    let scope = match (user, task) {
        (user, Some(name)) => Scope::Task {
            uid: user.unwrap_or(caller),
            name,
        },
        (Some(uid), None) => Scope::User(uid),
        (None, None) => Scope::Everybody,
    };
    // The options come in no order.
    unset.sort_unstable();
    Ok(PolicyChange { scope, set, unset })
}

fn known() -> String {
    let keys = Key::ALL.map(Key::name).join(", ");
    format!("known are {keys}, with user and task for whom they are")
}

fn rule(name: &str) -> Result<Key, String> {
    let found = Key::ALL.into_iter().find(|key| key.name() == name);
    found.ok_or_else(|| format!("option {name:?} is not known; {}", known()))
}

fn put(rules: &mut Rules, rule: Key, key: &str, value: &Variant<'_>) -> Result<(), String> {
    match rule {
        Key::Class => {
            let known = [ClassRule::Declared, ClassRule::BestEffort];
            rules.class = Some(word(key, value, known, ClassRule::name)?);
        }
        Key::Deadline => rules.deadline = Some(time(key, value)?),
        Key::Weight => rules.weight = Weight::new(weight(key, value)?),
        Key::IdleAfter => rules.idle_after = Some(idle(key, value)?),
        Key::GpuMemory => rules.gpu_memory = Some(size(key, value)?),
        Key::PinnedMemory => rules.pinned_memory = Some(size(key, value)?),
        Key::MaxTasks => {
            let most = integer(value).and_then(|most| usize::try_from(most).ok());
            let most = most.filter(|most| *most <= MAX_TASKS);
            let wrong = || format!("{key} must be an integer from 0 to {MAX_TASKS}");
            rules.max_tasks = Some(most.ok_or_else(wrong)?);
        }
        Key::OnViolation => {
            let known = [OnViolation::Warn, OnViolation::Demote, OnViolation::Kill];
            rules.on_violation = Some(word(key, value, known, OnViolation::name)?);
        }
    }
    Ok(())
}

/// A time, or the word for none.
fn idle(key: &str, value: &Variant<'_>) -> Result<IdleRule, String> {
    if matches!(value, Variant::Str(word) if word.as_str() == IdleRule::NEVER) {
        return Ok(IdleRule::Never);
    }
    let span = time(key, value).map_err(|wrong| format!("{wrong}, or {}", IdleRule::NEVER))?;
    Ok(IdleRule::After(span))
}

/// One of some words.
fn word<T: Copy, const N: usize>(
    key: &str,
    value: &Variant<'_>,
    known: [T; N],
    name: fn(T) -> &'static str,
) -> Result<T, String> {
    let said = text(key, value).unwrap_or_default();
    let found = known.into_iter().find(|word| name(*word) == said);
    found.ok_or_else(|| format!("{key} must be one of {}", known.map(name).join(", ")))
}

fn uid(value: &Variant<'_>) -> Result<u32, String> {
    let uid = integer(value).and_then(|uid| u32::try_from(uid).ok());
    // The largest is no user: system calls take it for none.
    let uid = uid.filter(|uid| *uid != u32::MAX);
    uid.ok_or_else(|| "user must be the number of a user, an integer".into())
}

fn name(value: &Variant<'_>) -> Result<String, String> {
    match value {
        Variant::Str(name) if is_name(name) => Ok(name.as_str().to_owned()),
        _ => Err(format!(
            "task must be the name of a task: text of 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -"
        )),
    }
}

/// The JSON, version 1.
#[derive(Debug, Serialize)]
struct Policy<'a> {
    version: u32,
    rules: Vec<Rule<'a>>,
}

#[derive(Debug, Serialize)]
struct Rule<'a> {
    scope: &'static str,
    user: Option<u32>,
    task: Option<&'a str>,
    key: &'static str,
    value: Said,
    source: &'static str,
    holds: bool,
}

/// A word, or a number: bytes, microseconds or a count, as the key has it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Said {
    Word(&'static str),
    Number(u64),
}

/// The user that a rule is for; none if it is for everybody.
pub(super) fn owner(row: &Row) -> Option<u32> {
    match row.scope {
        Scope::Everybody => None,
        Scope::User(uid) | Scope::Task { uid, .. } => Some(uid),
    }
}

fn sees(viewer: Viewer, row: &Row) -> bool {
    owner(row).is_none_or(|uid| viewer.sees(uid))
}

/// Whether the rules that `viewer` may see are others than `before`; all rules without a viewer.
pub(super) fn has_changed(before: &[Row], now: &[Row], viewer: Option<Viewer>) -> bool {
    let is_seen = |row: &&Row| viewer.is_none_or(|viewer| sees(viewer, row));
    !before.iter().filter(is_seen).eq(now.iter().filter(is_seen))
}

/// The JSON of the rules that `viewer` may see.
pub(super) fn json(rows: &[Row], viewer: Viewer) -> String {
    let seen = rows.iter().filter(|row| sees(viewer, row));
    let policy = Policy {
        version: 1,
        rules: seen.map(of_row).collect(),
    };
    serde_json::to_string(&policy).expect("plain data with text keys")
}

fn of_row(row: &Row) -> Rule<'_> {
    let (scope, task) = match &row.scope {
        Scope::Everybody => ("everybody", None),
        Scope::User(_) => ("user", None),
        Scope::Task { name, .. } => ("task", Some(name.as_str())),
    };
    Rule {
        scope,
        user: owner(row),
        task,
        key: row.key.name(),
        value: match row.value {
            Value::Word(word) => Said::Word(word),
            Value::Count(count) => Said::Number(count),
            Value::Size(bytes) => Said::Number(bytes.0),
            Value::Span(span) => Said::Number(span.0.div_ceil(1000)),
        },
        source: row.source.name(),
        holds: row.holds,
    }
}

#[cfg(test)]
mod tests {
    use rtswap_policy::units::{Bytes, Nanos};

    use super::*;

    fn read_all(options: &[(&str, Variant<'_>)]) -> Result<PolicyChange, String> {
        let options = options.iter().map(|(key, value)| {
            let value = OwnedVariant::try_from(value.try_clone().unwrap()).unwrap();
            ((*key).to_owned(), value)
        });
        read(1000, options.collect())
    }

    fn scope(options: &[(&str, Variant<'_>)]) -> Scope {
        let mut all = vec![("class", Variant::from("declared"))];
        all.extend(
            options
                .iter()
                .map(|(key, value)| (*key, value.try_clone().unwrap())),
        );
        read_all(&all).unwrap().scope
    }

    #[test]
    fn whom_rules_are_for() {
        let name = "yolo".to_owned();
        assert_eq!(scope(&[]), Scope::Everybody);
        for uid in [Variant::U8(7), Variant::I64(7), Variant::U32(7)] {
            assert_eq!(scope(&[("user", uid)]), Scope::User(7));
        }
        let task = Variant::from("yolo");
        let own = Scope::Task {
            uid: 1000,
            name: name.clone(),
        };
        assert_eq!(scope(&[("task", task.try_clone().unwrap())]), own);
        let others = Scope::Task { uid: 0, name };
        assert_eq!(scope(&[("task", task), ("user", Variant::U64(0))]), others);
    }

    #[test]
    fn every_rule_is_set_and_an_empty_text_takes_it_back() {
        let change = read_all(&[
            ("class", Variant::from("best-effort")),
            ("deadline_us", Variant::I32(20_000)),
            ("weight", Variant::U16(300)),
            ("idle_after_us", Variant::U32(100_000)),
            ("gpu_memory", Variant::from("6GiB")),
            ("pinned_memory", Variant::U64(5)),
            ("max_tasks", Variant::U8(0)),
            ("on_violation", Variant::from("kill")),
        ]);
        let rules = Rules {
            class: Some(ClassRule::BestEffort),
            deadline: Some(Nanos(20_000_000)),
            weight: Weight::new(300),
            idle_after: Some(IdleRule::After(Nanos(100_000_000))),
            gpu_memory: Some(Bytes(6 << 30)),
            pinned_memory: Some(Bytes(5)),
            max_tasks: Some(0),
            on_violation: Some(OnViolation::Kill),
        };
        assert_eq!(
            change.map(|change| (change.set, change.unset)),
            Ok((rules, vec![]))
        );
        let never = read_all(&[("idle_after_us", Variant::from("never"))]);
        assert_eq!(never.unwrap().set.idle_after, Some(IdleRule::Never));
        let nothing = Key::ALL.map(|key| (key.name(), Variant::from("")));
        let change = read_all(&nothing).unwrap();
        assert_eq!(change.unset, Key::ALL);
        assert!(change.set.is_empty());
    }

    #[test]
    fn nonsense_is_named() {
        let wrong = |key, value| read_all(&[(key, value)]).unwrap_err();
        assert!(
            read_all(&[])
                .unwrap_err()
                .starts_with("no rule is said; known are class,")
        );
        assert!(wrong("user", Variant::U32(7)).starts_with("no rule is said"));
        assert!(wrong("deadline", Variant::U32(7)).starts_with("option \"deadline\" is not known"));
        assert_eq!(
            wrong("class", Variant::from("realtime")),
            "class must be one of declared, best-effort"
        );
        assert_eq!(
            wrong("on_violation", Variant::U8(1)),
            "on_violation must be one of warn, demote, kill"
        );
        for value in [Variant::I16(-1), Variant::U32(4097), Variant::from("3")] {
            assert_eq!(
                wrong("max_tasks", value),
                "max_tasks must be an integer from 0 to 4096"
            );
        }
        for value in [
            Variant::from("ann"),
            Variant::I32(-1),
            Variant::U32(u32::MAX),
            Variant::U64(1 << 32),
        ] {
            assert!(wrong("user", value).starts_with("user must be the number"));
        }
        for value in [Variant::from("a b"), Variant::from(""), Variant::U8(1)] {
            assert!(wrong("task", value).starts_with("task must be the name"));
        }
        assert_eq!(
            wrong("idle_after_us", Variant::from("none")),
            "idle_after_us must be an integer from 1 to 86400000000 (a day), in microseconds, or never"
        );
        for (key, value) in [
            ("deadline_us", Variant::U8(0)),
            ("idle_after_us", Variant::U8(0)),
            ("weight", Variant::U16(10_001)),
            ("gpu_memory", Variant::from("8 elephants")),
            ("pinned_memory", Variant::F64(1.0)),
        ] {
            assert!(wrong(key, value).starts_with(&format!("{key} must be ")));
        }
    }
}
