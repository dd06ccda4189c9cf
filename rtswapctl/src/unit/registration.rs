//! The file in `tasks.d` that registers a service's task: without it rtswapd refuses processes that come by its name.

use std::fmt::Write;
use std::time::Duration;

use rtswap_dbus::{Options, Size};
use rtswap_policy::units::Nanos;
use rtswap_taskset::exact_millis;

use super::MARK;

/// A task and what it declares.
#[derive(Debug)]
pub(super) struct Registration<'a> {
    /// The command that removes it.
    pub(super) removal: &'a str,
    /// The task's name.
    pub(super) name: &'a str,
    /// The user that the service runs as, by name or number.
    pub(super) user: &'a str,
    /// What it declares.
    pub(super) declared: &'a Options,
}

impl Registration<'_> {
    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{MARK}; remove it by: {}\n", self.removal);
        let user = match self.user.parse::<u32>() {
            Ok(uid) => uid.to_string(),
            Err(_) => quoted(self.user),
        };
        let _ = writeln!(
            text,
            "version = 1\nname = {}\nuser = {user}",
            quoted(self.name)
        );
        let declared = self.declared;
        let values = [
            ("class", declared.class.as_deref().map(quoted)),
            ("period_ms", declared.period.map(millis)),
            ("deadline_ms", declared.deadline.map(millis)),
            ("wcet_ms", declared.wcet.map(millis)),
            ("footprint", declared.footprint.as_ref().map(size)),
            ("swappable", declared.swappable.as_ref().map(size)),
            ("weight", declared.weight.map(|weight| weight.to_string())),
            ("idle_after_ms", declared.idle_after.map(millis)),
            ("gpu", declared.gpu.as_deref().map(quoted)),
        ];
        for (key, value) in values {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        text
    }
}

/// A string of TOML: those of JSON are.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn millis(span: Duration) -> String {
    exact_millis(Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
}

fn size(size: &Size) -> String {
    match size {
        Size::Bytes(bytes) => bytes.to_string(),
        Size::Text(text) => quoted(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(user: &str, declared: &Options) -> String {
        let registration = Registration {
            removal: "sudo rtswapctl detach yolo.service",
            name: "yolo",
            user,
            declared,
        };
        registration.text()
    }

    #[test]
    fn a_best_effort_task_needs_a_name_and_a_user() {
        assert_eq!(
            text("robot", &Options::default()),
            "# Written by rtswapctl attach; remove it by: sudo rtswapctl detach yolo.service\n\
             version = 1\nname = \"yolo\"\nuser = \"robot\"\n"
        );
        assert!(text("1000", &Options::default()).contains("\nuser = 1000\n"));
    }

    #[test]
    fn what_is_declared_keeps_its_value() {
        let declared = Options {
            period: Some(Duration::from_micros(33_333)),
            wcet: Some(Duration::from_millis(8)),
            footprint: Some(Size::Bytes(6_657_199_308)),
            swappable: Some(Size::Bytes(1 << 30)),
            weight: Some(200),
            idle_after: Some(Duration::from_millis(1500)),
            gpu: Some("GPU-a".into()),
            class: Some("realtime".into()),
            ..Options::default()
        };
        let text = text("robot", &declared);
        let said = "class = \"realtime\"\nperiod_ms = 33.333\nwcet_ms = 8\nfootprint = 6657199308\n\
                    swappable = 1073741824\nweight = 200\nidle_after_ms = 1500\ngpu = \"GPU-a\"\n";
        assert!(text.ends_with(said), "{text}");
    }
}
