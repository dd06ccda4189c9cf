//! A rule of the policy as it is typed: `gpu_memory=8GiB`, or `gpu_memory=` to take it back.

use rtswap_taskset::parse_size;

use crate::duration;

/// A rule and what is said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its key on D-Bus.
    pub key: &'static str,
    /// Its value there.
    pub value: RuleValue,
}

/// What is said of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleValue {
    /// That what was set is taken back.
    Nothing,
    /// A word.
    Word(String),
    /// A count, bytes or microseconds.
    Number(u64),
}

/// How a rule's value is typed.
#[derive(Clone, Copy, Debug)]
enum Form {
    OneOf(&'static [&'static str]),
    Number,
    Size,
    Time,
    /// A time, or a word for none.
    TimeOr(&'static str),
}

/// The name of each rule as it is typed, its key on D-Bus, and its form.
const RULES: [(&str, &str, Form); 8] = [
    ("class", "class", Form::OneOf(&["declared", "best-effort"])),
    ("deadline", "deadline_us", Form::Time),
    ("weight", "weight", Form::Number),
    ("idle_after", "idle_after_us", Form::TimeOr("never")),
    ("gpu_memory", "gpu_memory", Form::Size),
    ("pinned_memory", "pinned_memory", Form::Size),
    ("max_tasks", "max_tasks", Form::Number),
    (
        "on_violation",
        "on_violation",
        Form::OneOf(&["warn", "demote", "kill"]),
    ),
];

impl Rule {
    /// Reads a rule; what is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((name, said)) = text.split_once('=') else {
            return Err("a rule has its value behind it, such as gpu_memory=8GiB".into());
        };
        let found = RULES.iter().find(|(known, ..)| *known == name);
        let Some((_, key, form)) = found else {
            let known = RULES.map(|(known, ..)| known).join(", ");
            return Err(format!("{name:?} is no rule; known are {known}"));
        };
        let value = if said.is_empty() {
            RuleValue::Nothing
        } else {
            form.read(said)?
        };
        Ok(Self { key, value })
    }

    /// The name as it is typed of the rule with this key on D-Bus.
    pub fn name(key: &str) -> &str {
        let found = RULES.iter().find(|(_, known, _)| *known == key);
        found.map_or(key, |(name, ..)| *name)
    }
}

impl Form {
    fn read(self, said: &str) -> Result<RuleValue, String> {
        match self {
            Self::OneOf(words) if words.contains(&said) => Ok(RuleValue::Word(said.to_owned())),
            Self::OneOf(words) => Err(format!("say one of {}", words.join(", "))),
            Self::Number => {
                let number = said.parse().map_err(|_| "say a whole number, 0 or more")?;
                Ok(RuleValue::Number(number))
            }
            Self::Size => match parse_size(said) {
                Ok(bytes) => Ok(RuleValue::Number(bytes.0)),
                Err(fault) => Err(fault.to_string()),
            },
            Self::TimeOr(word) if said == word => Ok(RuleValue::Word(word.to_owned())),
            Self::TimeOr(word) if !said.contains(|c: char| c.is_ascii_digit()) => {
                Err(format!("say a time, such as 5min, or {word}"))
            }
            Self::TimeOr(_) => Self::Time.read(said),
            Self::Time => {
                let time = duration::parse(said).map_err(|error| error.to_string())?;
                // No time is made longer by its unit.
                let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                if micros == 0 {
                    return Err("say at least 1us".into());
                }
                Ok(RuleValue::Number(micros))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> (&'static str, u64) {
        match Rule::parse(text).unwrap() {
            Rule {
                key,
                value: RuleValue::Number(number),
            } => (key, number),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rules_are_read() {
        assert_eq!(number("deadline=20ms"), ("deadline_us", 20_000));
        assert_eq!(number("deadline=1500ns"), ("deadline_us", 1));
        assert_eq!(number("gpu_memory=8GiB"), ("gpu_memory", 8 << 30));
        assert_eq!(number("gpu_memory=100M"), ("gpu_memory", 100 << 20));
        assert_eq!(number("pinned_memory=6gib"), ("pinned_memory", 6 << 30));
        assert_eq!(number("max_tasks=0"), ("max_tasks", 0));
        let class = Rule::parse("class=best-effort").unwrap();
        assert_eq!(class.value, RuleValue::Word("best-effort".into()));
        assert_eq!(number("idle_after=1min"), ("idle_after_us", 60_000_000));
        let never = Rule::parse("idle_after=never").unwrap();
        assert_eq!(never.value, RuleValue::Word("never".into()));
        assert!(Rule::parse("deadline=never").is_err());
        let nothing = Rule::parse("weight=").unwrap();
        assert_eq!((nothing.key, nothing.value), ("weight", RuleValue::Nothing));
        assert_eq!(Rule::name("deadline_us"), "deadline");
    }

    #[test]
    fn what_is_no_rule_is_said() {
        let wrong = |text| Rule::parse(text).unwrap_err();
        assert!(wrong("class").contains("gpu_memory=8GiB"));
        assert!(wrong("deadline_us=5").starts_with("\"deadline_us\" is no rule; known are class,"));
        assert_eq!(wrong("class=realtime"), "say one of declared, best-effort");
        assert_eq!(wrong("on_violation=0"), "say one of warn, demote, kill");
        assert_eq!(wrong("weight=-1"), "say a whole number, 0 or more");
        assert!(wrong("deadline=20").contains("20ms"));
        assert_eq!(wrong("deadline=1ns"), "say at least 1us");
        assert_eq!(
            wrong("idle_after=off"),
            "say a time, such as 5min, or never"
        );
        assert!(wrong("idle_after=5").starts_with("a time needs a unit"));
        assert!(wrong("gpu_memory=8 elephants").contains("elephants"));
    }
}
