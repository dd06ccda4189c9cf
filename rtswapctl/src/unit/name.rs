//! The names of systemd's services.

use super::UnitError;

const SUFFIX: &str = ".service";
/// The other kinds of units: a name that ends so is no service.
const OTHERS: [&str; 10] = [
    ".automount",
    ".device",
    ".mount",
    ".path",
    ".scope",
    ".slice",
    ".socket",
    ".swap",
    ".target",
    ".timer",
];
/// systemd's bound on a name, in bytes.
const LONGEST: usize = 255;
/// Stands for any instance of a template where systemd answers for instances alone.
const ANY: &str = "rtswap-any";

/// The whole name of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitName(String);

impl UnitName {
    /// Reads a name as it is typed: `.service` may be left out.
    pub(super) fn parse(typed: &str) -> Result<Self, UnitError> {
        let bad = |why| {
            Err(UnitError::Name {
                typed: typed.to_owned(),
                why,
            })
        };
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || br":_.\@-".contains(&b);
        if typed.contains('/') {
            return bad("name the unit, not its file");
        }
        if !typed.bytes().all(is_letter) {
            return bad(r"a unit's name has only A-Z a-z 0-9 : _ . \ @ -");
        }
        if OTHERS.iter().any(|other| typed.ends_with(other)) {
            return bad("only services start programs of their own; name a service");
        }
        let stem = typed.strip_suffix(SUFFIX).unwrap_or(typed);
        if stem.is_empty() || stem.starts_with('@') {
            return bad("nothing stands before its @ or its suffix");
        }
        if stem.len() + SUFFIX.len() > LONGEST {
            return bad("a unit's name has at most 255 letters");
        }
        let name = format!("{stem}{SUFFIX}");
        if name == "rtswapd.service" {
            return bad("rtswapd serves the agents and has none");
        }
        Ok(Self(name))
    }

    /// With its suffix.
    pub(super) fn full(&self) -> &str {
        &self.0
    }

    fn stem(&self) -> &str {
        self.0.strip_suffix(SUFFIX).unwrap_or(&self.0)
    }

    /// Whether it stands for all instances of a template.
    pub(super) fn is_template(&self) -> bool {
        self.stem().find('@') == Some(self.stem().len() - 1)
    }

    /// What systemd is asked about: itself, or an instance of a template.
    pub(super) fn instance(&self) -> String {
        if self.is_template() {
            format!("{}{ANY}{SUFFIX}", self.stem())
        } else {
            self.0.clone()
        }
    }

    /// What is restarted by systemctl: all instances of a template by a pattern.
    pub(super) fn started(&self) -> String {
        if self.is_template() {
            format!("'{}*{SUFFIX}'", self.stem())
        } else {
            self.0.clone()
        }
    }

    /// A task's name that is like it.
    pub(super) fn task(&self) -> String {
        self.stem().replace(['@', ':', '\\'], "-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_systemctl_reads_them() {
        let full = |typed| UnitName::parse(typed).unwrap().full().to_owned();
        assert_eq!(full("ollama"), "ollama.service");
        assert_eq!(full("ollama.service"), "ollama.service");
        assert_eq!(full("llama@chat"), "llama@chat.service");
        assert_eq!(full("python3.11"), "python3.11.service");
        let longest = "a".repeat(LONGEST - SUFFIX.len());
        assert_eq!(full(&longest).len(), LONGEST);
        let task = |typed| UnitName::parse(typed).unwrap().task();
        assert_eq!(task("llama@chat.service"), "llama-chat");
        assert_eq!(task(r"a\x2db"), "a-x2db");
    }

    #[test]
    fn templates_are_asked_for_by_an_instance() {
        let name = |typed| UnitName::parse(typed).unwrap();
        assert!(name("llama@.service").is_template() && name("llama@").is_template());
        assert!(!name("llama@chat").is_template() && !name("llama").is_template());
        // Only the first @ begins the instance.
        assert!(!name("llama@a@").is_template());
        assert_eq!(name("llama@").instance(), "llama@rtswap-any.service");
        assert_eq!(name("llama@chat").instance(), "llama@chat.service");
        assert_eq!(name("llama@").started(), "'llama@*.service'");
        assert_eq!(name("llama").started(), "llama.service");
    }

    #[test]
    fn what_names_no_service_is_refused_with_the_reason() {
        let wrong = |typed: &str| UnitName::parse(typed).unwrap_err().to_string();
        assert!(wrong("/etc/systemd/system/a.service").ends_with("not its file"));
        assert!(wrong("a.socket").contains("only services"));
        assert!(wrong("a b").contains("only A-Z"));
        assert!(wrong("ä").contains("only A-Z"));
        for empty in ["", ".service", "@", "@x.service"] {
            assert!(wrong(empty).contains("nothing stands before"), "{empty:?}");
        }
        assert!(wrong(&"a".repeat(LONGEST)).contains("at most 255"));
        assert!(wrong("rtswapd").contains("has none"));
    }
}
