//! The shape of policy.toml: the administrator's rules for everybody, for users and for tasks. What was set at run time is
//! kept in the same form.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rtswap_engine::registry::{MAX_NAME, MAX_TASKS, is_name};
use rtswap_engine::rules::{ClassRule, IdleRule, Key, RuleSet, Rules, Scope, Value};
use rtswap_policy::task::Weight;
use serde::de::{Deserialize, Deserializer, Error, IntoDeserializer, Unexpected, Visitor};
use toml::Spanned;

use super::ConfigError;
use super::file::check_version;
use super::trust::trusted;
use super::users::User;
use super::value::{IdleMillis, Millis, Size, Violation, Whole};

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<u64>,
    #[serde(default)]
    everybody: Everybody,
    #[serde(default)]
    user: Vec<Spanned<OfUser>>,
    #[serde(default)]
    task: Vec<Spanned<OfTask>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Everybody {
    class: Option<Class>,
    idle_after_ms: Option<Idle>,
    gpu_memory: Option<Size>,
    pinned_memory: Option<Size>,
    max_tasks: Option<MaxTasks>,
    on_violation: Option<Violation>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OfUser {
    user: Spanned<User>,
    class: Option<Class>,
    idle_after_ms: Option<Idle>,
    gpu_memory: Option<Size>,
    pinned_memory: Option<Size>,
    max_tasks: Option<MaxTasks>,
    on_violation: Option<Violation>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OfTask {
    user: Spanned<User>,
    name: Spanned<String>,
    class: Option<Class>,
    deadline_ms: Option<Spanned<Millis>>,
    weight: Option<Whole<1, { Weight::MOST }>>,
    idle_after_ms: Option<Idle>,
    gpu_memory: Option<Size>,
    pinned_memory: Option<Size>,
    on_violation: Option<Violation>,
}

/// How long tasks may idle on the GPU: milliseconds, or `never` for what they declare alone.
#[derive(Clone, Copy)]
struct Idle(IdleRule);

impl<'de> Deserialize<'de> for Idle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdleVisitor;

        impl Visitor<'_> for IdleVisitor {
            type Value = Idle;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number of milliseconds, or {:?}", IdleRule::NEVER)
            }

            fn visit_i64<E: Error>(self, millis: i64) -> Result<Idle, E> {
                let IdleMillis(span) = IdleMillis::deserialize(millis.into_deserializer())?;
                Ok(Idle(IdleRule::After(span)))
            }

            fn visit_f64<E: Error>(self, millis: f64) -> Result<Idle, E> {
                let IdleMillis(span) = IdleMillis::deserialize(millis.into_deserializer())?;
                Ok(Idle(IdleRule::After(span)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Idle, E> {
                if text == IdleRule::NEVER {
                    return Ok(Idle(IdleRule::Never));
                }
                Err(E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(IdleVisitor)
    }
}

/// There are never more.
type MaxTasks = Whole<0, { MAX_TASKS as u32 }>;

/// What counts of the class that a task declares.
#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Class {
    Declared,
    BestEffort,
}

impl From<Class> for ClassRule {
    fn from(said: Class) -> Self {
        match said {
            Class::Declared => Self::Declared,
            Class::BestEffort => Self::BestEffort,
        }
    }
}

impl Everybody {
    fn rules(&self) -> Rules {
        Rules {
            class: self.class.map(Into::into),
            idle_after: self.idle_after_ms.map(|rule| rule.0),
            gpu_memory: self.gpu_memory.map(|size| size.0),
            pinned_memory: self.pinned_memory.map(|size| size.0),
            max_tasks: self.max_tasks.map(|most| most.0 as usize),
            on_violation: self.on_violation.map(Into::into),
            ..Rules::default()
        }
    }
}

impl OfUser {
    fn rules(&self) -> Rules {
        Rules {
            class: self.class.map(Into::into),
            idle_after: self.idle_after_ms.map(|rule| rule.0),
            gpu_memory: self.gpu_memory.map(|size| size.0),
            pinned_memory: self.pinned_memory.map(|size| size.0),
            max_tasks: self.max_tasks.map(|most| most.0 as usize),
            on_violation: self.on_violation.map(Into::into),
            ..Rules::default()
        }
    }
}

impl OfTask {
    fn rules(&self) -> Rules {
        Rules {
            class: self.class.map(Into::into),
            deadline: self.deadline_ms.as_ref().map(|span| span.get_ref().0),
            weight: self.weight.and_then(|weight| Weight::new(weight.0)),
            idle_after: self.idle_after_ms.map(|rule| rule.0),
            gpu_memory: self.gpu_memory.map(|size| size.0),
            pinned_memory: self.pinned_memory.map(|size| size.0),
            on_violation: self.on_violation.map(Into::into),
            ..Rules::default()
        }
    }
}

/// Reads the rules of the file `path`; a file that does not exist has none.
pub fn load_policy(path: &Path) -> Result<RuleSet, ConfigError> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(RuleSet::new()),
        read => read.map_err(ConfigError::unreadable(path))?,
    };
    // A user that may write the folder could replace the file after the check of its owner.
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    trusted(folder.unwrap_or(Path::new(".")))?;
    trusted(path)?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<RuleSet, ConfigError> {
    let file: File =
        toml::from_str(text).map_err(|error| ConfigError::from_toml(path, text, &error))?;
    check_version(path, text, &file.version)?;
    let wrong = |at, message| ConfigError::at(path, text, at, message);
    let mut all = RuleSet::new();
    let mut put = |scope: Scope, rules, at| {
        if all.contains_key(&scope) {
            return Err(wrong(at, format!("the rules of {scope} are said twice")));
        }
        all.insert(scope, rules);
        Ok(())
    };
    let uid_of = |user: &Spanned<User>| {
        let uid = user.get_ref().uid();
        uid.map_err(|message| wrong(user.span().start, message))
    };
    put(Scope::Everybody, file.everybody.rules(), 0)?;
    for table in &file.user {
        let user = table.get_ref();
        let scope = Scope::User(uid_of(&user.user)?);
        put(scope, user.rules(), table.span().start)?;
    }
    for table in &file.task {
        let task = table.get_ref();
        let name = task.name.get_ref();
        if !is_name(name) {
            let message = format!(
                "{name:?} cannot name a task: a name has 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -"
            );
            return Err(wrong(task.name.span().start, message));
        }
        let scope = Scope::Task {
            uid: uid_of(&task.user)?,
            name: name.clone(),
        };
        let rules = task.rules();
        if let Some(complaint) = rules.complaint(&scope) {
            let at = task.deadline_ms.as_ref().map(|span| span.span().start);
            return Err(wrong(at.unwrap_or(table.span().start), complaint));
        }
        put(scope, rules, table.span().start)?;
    }
    all.retain(|_, rules| !rules.is_empty());
    Ok(all)
}

/// The text of a file that says these rules.
pub(crate) fn write_policy(all: &RuleSet) -> String {
    let mut text = String::from("version = 1\n");
    for (scope, rules) in all {
        let head = match scope {
            Scope::Everybody => "\n[everybody]\n".into(),
            Scope::User(uid) => format!("\n[[user]]\nuser = {uid}\n"),
            Scope::Task { uid, name } => {
                let name = toml::Value::from(name.as_str());
                format!("\n[[task]]\nuser = {uid}\nname = {name}\n")
            }
        };
        text.push_str(&head);
        for key in Key::ALL {
            let Some(value) = rules.get(key) else {
                continue;
            };
            // Times are milliseconds in files, and microseconds on D-Bus.
            let key = key.name();
            let in_file = key.strip_suffix("_us").map(|name| format!("{name}_ms"));
            let name = in_file.as_deref().unwrap_or(key);
            // Writing to a String cannot fail.
            let _ = match value {
                Value::Word(word) => writeln!(text, "{name} = {word:?}"),
                Value::Count(count) => writeln!(text, "{name} = {count}"),
                Value::Size(bytes) => writeln!(text, "{name} = {}", bytes.0),
                Value::Span(span) => writeln!(text, "{name} = {}", span.0 as f64 / 1e6),
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rtswap_engine::config::OnViolation;
    use rtswap_policy::units::{Bytes, Nanos};

    use super::*;

    const ALL: &str = "version = 1\n\
        [everybody]\nclass = \"best-effort\"\nidle_after_ms = 300000\ngpu_memory = \"16GiB\"\npinned_memory = \"32GiB\"\nmax_tasks = 0\n\
        on_violation = \"demote\"\n\
        [[user]]\nuser = \"root\"\nidle_after_ms = \"never\"\ngpu_memory = 5\n\
        [[task]]\nuser = 1000\nname = \"yolo\"\nclass = \"declared\"\ndeadline_ms = 20.5\nweight = 300\n\
        idle_after_ms = 100\ngpu_memory = \"6g\"\npinned_memory = 0\non_violation = \"kill\"\n\
        [[user]]\nuser = 7\n";

    fn read(text: &str) -> Result<RuleSet, String> {
        parse(Path::new("p.toml"), text).map_err(|error| error.to_string())
    }

    fn complaint(text: &str) -> String {
        read(&format!("version = 1\n{text}")).unwrap_err()
    }

    fn yolo() -> Scope {
        Scope::Task {
            uid: 1000,
            name: "yolo".into(),
        }
    }

    #[test]
    fn everything_can_be_said() {
        let all = read(ALL).unwrap();
        let everybody = Rules {
            class: Some(ClassRule::BestEffort),
            idle_after: Some(IdleRule::After(Nanos(300_000_000_000))),
            gpu_memory: Some(Bytes(16 << 30)),
            pinned_memory: Some(Bytes(32 << 30)),
            max_tasks: Some(0),
            on_violation: Some(OnViolation::Demote),
            ..Rules::default()
        };
        assert_eq!(all[&Scope::Everybody], everybody);
        let root = &all[&Scope::User(0)];
        assert_eq!(root.gpu_memory, Some(Bytes(5)));
        assert_eq!(root.idle_after, Some(IdleRule::Never));
        let task = Rules {
            class: Some(ClassRule::Declared),
            deadline: Some(Nanos(20_500_000)),
            weight: Weight::new(300),
            idle_after: Some(IdleRule::After(Nanos(100_000_000))),
            gpu_memory: Some(Bytes(6 << 30)),
            pinned_memory: Some(Bytes::ZERO),
            on_violation: Some(OnViolation::Kill),
            ..Rules::default()
        };
        assert_eq!(all[&yolo()], task);
        assert_eq!(all.len(), 3, "a table that says nothing is no rule");
        assert_eq!(read("version = 1\n"), Ok(RuleSet::new()));
    }

    #[test]
    fn the_shipped_and_the_documented_files_say_what_can_be_said() {
        let shipped = include_str!("../../../packaging/policy.toml");
        assert_eq!(read(shipped), Ok(RuleSet::new()), "all is commented out");
        let (_, lines) = shipped.split_once("version = 1\n").unwrap();
        let is_rule = |line: &&str| line.contains([']', '=']);
        let rules = lines.lines().filter(is_rule).map(|line| &line[2..]);
        let shipped: Vec<_> = ["version = 1"].into_iter().chain(rules).collect();
        let document = include_str!("../../../docs/configuration.md");
        let (_, section) = document.split_once("## The policy\n").unwrap();
        let block = section.split("```toml\n").nth(1).unwrap();
        let documented = block
            .split("```")
            .next()
            .unwrap()
            .replace("\"ann\"", "1000");
        for text in [shipped.join("\n"), documented] {
            let all = read(&text).unwrap();
            let said = |key| all.values().any(|rules| rules.get(key).is_some());
            assert!(Key::ALL.into_iter().all(said), "{text}");
            assert_eq!(all.len(), 3, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut all = read(ALL).unwrap();
        let odd = [1, 1_000, 33_333_000, 86_400_000_000_000];
        for (at, nanos) in odd.into_iter().enumerate() {
            let rules = Rules {
                deadline: Some(Nanos(nanos)),
                ..Rules::default()
            };
            let name = format!("t{at}");
            all.insert(Scope::Task { uid: 0, name }, rules);
        }
        assert_eq!(read(&write_policy(&all)), Ok(all));
        assert_eq!(read(&write_policy(&RuleSet::new())), Ok(RuleSet::new()));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, said) in [
            (
                "[everybody]\ngpu_memry = 3\n",
                "p.toml:3:1: unknown key `gpu_memry`; did you mean `gpu_memory`?",
            ),
            (
                "[everbody]\n",
                "p.toml:2:2: unknown key `everbody`; did you mean `everybody`?",
            ),
            (
                "[everybody]\nweight = 3\n",
                "p.toml:3:1: unknown key `weight`; known here: class, idle_after_ms, gpu_memory, pinned_memory, max_tasks, on_violation",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a\"\nmax_tasks = 3\n",
                "p.toml:5:1: unknown key `max_tasks`; known here: user, name, class, deadline_ms, weight, idle_after_ms, \
                 gpu_memory, pinned_memory, on_violation",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a\"\nweight = 0\n",
                "p.toml:5:10: 0 is not from 1 to 10000",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a\"\nweight = \"5\"\n",
                "p.toml:5:10: invalid type: string \"5\", expected a whole number from 1 to 10000",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a b\"\n",
                "p.toml:4:8: \"a b\" cannot name a task: a name has 1 to 63 of A-Z a-z 0-9 . _ -",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a\"\ndeadline_ms = 0\n",
                "p.toml:5:15: a deadline of 0 cannot be kept",
            ),
            (
                "[everybody]\nidle_after_ms = 99.9\n",
                "p.toml:3:17: an idle_after of 99.900 ms would move memory between jobs: it is at least 100.000 ms",
            ),
            (
                "[everybody]\nidle_after_ms = \"none\"\n",
                "p.toml:3:17: invalid value: string \"none\", expected a number of milliseconds, or \"never\"",
            ),
            (
                "[everybody]\nidle_after_ms = true\n",
                "p.toml:3:17: invalid type: boolean `true`, expected a number of milliseconds, or \"never\"",
            ),
            (
                "[everybody]\nmax_tasks = -1\n",
                "p.toml:3:13: -1 is not from 0 to 4096",
            ),
            (
                "[everybody]\nclass = \"realtime\"\n",
                "p.toml:3:9: unknown variant `realtime`, expected `declared` or `best-effort`",
            ),
            (
                "[[user]]\nuser = \"nobody-of-that-name\"\n",
                "p.toml:3:8: user \"nobody-of-that-name\" is not in /etc/passwd; its number does as well",
            ),
            (
                "[[user]]\nuser = 0\n[[user]]\nuser = \"root\"\n",
                "p.toml:4:1: the rules of user 0 are said twice",
            ),
            (
                "[[task]]\nuser = 0\nname = \"a\"\n[[task]]\nuser = 0\nname = \"a\"\n",
                "p.toml:5:1: the rules of task a of user 0 are said twice",
            ),
            (
                "[everybody]\ngpu_memory = \"8 elephants\"\n",
                "p.toml:3:14: \"8 elephants\" has no unit that is known",
            ),
        ] {
            let told = complaint(text);
            assert!(told.starts_with(said), "{text}: {told}");
        }
        assert_eq!(
            read("version = 2\n").unwrap_err(),
            "p.toml:1:11: version 2 is not known; this rtswapd reads version 1"
        );
        assert!(read("").unwrap_err().contains("missing field `version`"));
        assert!(complaint("[[task]]\nuser = 0\n").contains("missing field `name`"));
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_and_none_is_no_rules() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.toml");
        assert_eq!(load_policy(&path).unwrap(), RuleSet::new());
        fs::write(&path, ALL).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&path, 0o644);
        assert_eq!(load_policy(&path).unwrap().len(), 3);
        mode(&path, 0o664);
        let error = load_policy(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("policy.toml: refused: others may write it (mode 664); chmod go-w it"),
            "{error}"
        );
        mode(&path, 0o644);
        mode(folder.path(), 0o777);
        let error = load_policy(&path).unwrap_err().to_string();
        assert!(
            error.contains("refused: others may write it (mode 777)"),
            "{error}"
        );
    }
}
