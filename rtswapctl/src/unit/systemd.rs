//! What systemd knows of a service, by systemctl.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use super::UnitError;
use super::name::UnitName;

const SYSTEM_UNITS: &str = "/etc/systemd/system";
/// Everything that is asked of a service.
const PROPERTIES: &str = "Id,LoadState,Transient,User,DynamicUser,Environment,EnvironmentFiles,UnsetEnvironment,\
    RootDirectory,RootImage,RestrictAddressFamilies,SystemCallFilter,SystemCallErrorNumber,InaccessiblePaths,TemporaryFileSystem,ProtectHome,PrivateTmp";

/// The system's manager, or that of the user.
#[derive(Clone, Copy, Debug)]
pub(super) struct Systemd {
    /// Whether it is the user's.
    pub(super) is_user: bool,
}

/// The properties of a service, as `systemctl show` prints them.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties(BTreeMap<String, Vec<String>>);

impl Systemd {
    /// The manager of units that this process may change.
    pub(super) fn of(is_user: bool) -> Result<Self, UnitError> {
        if is_user || rustix::process::geteuid().is_root() {
            Ok(Self { is_user })
        } else {
            Err(UnitError::NotRoot)
        }
    }

    /// The folder of the units that the administrator, or the user, writes.
    pub(super) fn units(self) -> Result<PathBuf, UnitError> {
        if !self.is_user {
            return Ok(SYSTEM_UNITS.into());
        }
        let folder = |name| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let home = || Some(folder("HOME")?.join(".config"));
        let config = folder("XDG_CONFIG_HOME").or_else(home);
        Ok(config.ok_or(UnitError::NoHome)?.join("systemd/user"))
    }

    /// The command that detaches a service.
    pub(super) fn removal(self, name: &UnitName) -> String {
        if self.is_user {
            format!("rtswapctl detach --user {}", name.full())
        } else {
            format!("sudo rtswapctl detach {}", name.full())
        }
    }

    /// How systemctl is called for this manager, in front of a verb.
    pub(super) fn systemctl(self) -> &'static str {
        if self.is_user {
            "systemctl --user"
        } else {
            "systemctl"
        }
    }

    /// Asks for a service that can be started.
    pub(super) fn service(self, name: &UnitName) -> Result<Properties, UnitError> {
        let property = format!("--property={PROPERTIES}");
        let instance = name.instance();
        let text = self.call(&["show", "--no-pager", &property, "--", &instance])?;
        let properties = Properties::parse(&text);
        let unit = name.full().to_owned();
        match properties.one("LoadState") {
            "loaded" if properties.is("Transient") => Err(UnitError::Transient(unit)),
            "loaded" => Ok(properties),
            "not-found" => Err(UnitError::NotFound {
                unit,
                systemctl: self.systemctl(),
            }),
            state => Err(UnitError::NotLoaded {
                unit,
                state: state.to_owned(),
            }),
        }
    }

    /// Has the manager read its files again.
    pub(super) fn reload(self) -> Result<(), UnitError> {
        self.call(&["daemon-reload"]).map(drop)
    }

    fn call(self, arguments: &[&str]) -> Result<String, UnitError> {
        let failed = |why| UnitError::Systemctl {
            call: format!("{} {}", self.systemctl(), arguments[0]),
            why,
        };
        let mut command = Command::new("systemctl");
        if self.is_user {
            command.arg("--user");
        }
        let output = command.args(arguments).env("LC_ALL", "C").output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(
                said.lines().next().unwrap_or("it failed").to_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Properties {
    pub(super) fn parse(text: &str) -> Self {
        let mut properties: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let values = properties.entry(key.to_owned()).or_default();
            values.push(value.to_owned());
        }
        Self(properties)
    }

    /// The value of a property; empty where it is not set.
    pub(super) fn one(&self, key: &str) -> &str {
        self.all(key).first().map_or("", String::as_str)
    }

    /// The values of a property that is printed once for each.
    pub(super) fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether a property is `yes`.
    pub(super) fn is(&self, key: &str) -> bool {
        self.one(key) == "yes"
    }

    /// The words of a list, which systemctl quotes as a shell does.
    pub(super) fn words(&self, key: &str) -> Vec<String> {
        shlex::split(self.one(key)).unwrap_or_default()
    }

    /// The value that `Environment=` gives a variable; the last one holds.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let words = self.words("Environment").into_iter().rev();
        let mut values = words.filter_map(|word| {
            let (key, value) = word.split_once('=')?;
            (key == name).then(|| value.to_owned())
        });
        values.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_read_as_systemctl_quotes_them() {
        let properties = Properties::parse(
            "Environment=A=1 LD_PRELOAD=/old.so \"LD_PRELOAD=/usr/\\$LIB/a.so /b.so\" \"B=x=\\\"y\\\"\"\n\
             EnvironmentFiles=/etc/default/a (ignore_errors=yes)\nEnvironmentFiles=/b (ignore_errors=no)\n\
             DynamicUser=yes\nUser=\n",
        );
        let preload = properties.variable("LD_PRELOAD");
        assert_eq!(preload.as_deref(), Some("/usr/$LIB/a.so /b.so"));
        assert_eq!(properties.variable("B").as_deref(), Some("x=\"y\""));
        assert_eq!(properties.variable("LD"), None);
        assert_eq!(properties.all("EnvironmentFiles").len(), 2);
        assert!(properties.is("DynamicUser") && !properties.is("PrivateTmp"));
        assert_eq!((properties.one("User"), properties.one("None")), ("", ""));
    }
}
