//! `rtswapctl attach` and `detach` with a systemctl that answers from a file: what is written, and what is left.
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Prints `show` for the verb show, and writes down how it was called.
const SYSTEMCTL: &str = "#!/bin/sh
echo \"$*\" >> \"$FAKE/calls\"
case \"$*\" in
*daemon-reload*) [ ! -e \"$FAKE/broken\" ] || { echo 'no reload today' >&2; exit 1; } ;;
*show*) cat \"$FAKE/show\" ;;
esac
";
/// What stands for `/etc`, where the system's units are: a folder of the test's own, seen by the command alone.
const OWN_ETC: &str = "mount --bind \"$FAKE/etc\" /etc && exec \"$@\"";

struct Fake {
    folder: TempDir,
    is_system: bool,
}

impl Fake {
    /// A user's systemd, and units in a folder of the test's own.
    fn of_user(show: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Self {
            folder,
            is_system: false,
        };
        let systemctl = fake.path("bin/systemctl");
        fs::create_dir(fake.path("bin")).unwrap();
        fs::create_dir(fake.path("etc")).unwrap();
        fs::write(&systemctl, SYSTEMCTL).unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(fake.path("show"), show).unwrap();
        let (code, agent) = (fake.path("agent.c"), fake.path("agent.so"));
        fs::write(&code, "int rtswap_job_begin(void) { return 0; }").unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-nostdlib", "-o"])
            .args([&agent, &code]);
        assert!(compiler.status().unwrap().success());
        fake
    }

    /// The system's; `None` where this machine makes no namespaces, which is said.
    fn of_system(show: &str) -> Option<Self> {
        let fake = Self {
            is_system: true,
            ..Self::of_user(show)
        };
        let works = fake
            .command(&["--version"])
            .output()
            .unwrap()
            .status
            .success();
        if !works {
            eprintln!("SKIPPED system units: unshare makes no user and mount namespace here");
        }
        works.then_some(fake)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_rtswapctl");
        let mut command = if self.is_system {
            let mut command = Command::new("unshare");
            command.args([
                "--map-root-user",
                "--mount",
                "sh",
                "-c",
                OWN_ETC,
                "sh",
                program,
            ]);
            command
        } else {
            Command::new(program)
        };
        let path = std::env::var("PATH").unwrap();
        command
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("FAKE", self.folder.path())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("RTSWAP_AGENT", self.path("agent.so"))
            .env("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent")
            .env_remove("RTSWAP_RUNTIME_DIR");
        command
    }

    fn says(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let said = text(&output);
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }

    fn refuses(&self, arguments: &[&str], code: i32, why: &str) {
        let output = self.command(arguments).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }

    /// Every file below a folder.
    fn files(&self, folder: &str) -> Vec<String> {
        let mut folders = vec![self.path(folder)];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push(
                        path.strip_prefix(self.folder.path())
                            .unwrap()
                            .display()
                            .to_string(),
                    );
                }
            }
        }
        files.sort();
        files
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_users_service_gets_the_agent_and_loses_it_again() {
    let fake = Fake::of_user(
        "Id=comfyui.service\nLoadState=loaded\nEnvironment=A=1 \"LD_PRELOAD=/a.so /b.so\"\n",
    );
    let said = fake.says(&["attach", "--user", "comfyui"]);
    assert!(said.contains("best-effort task by itself"), "{said}");
    assert!(
        said.contains("systemctl --user restart comfyui.service"),
        "{said}"
    );
    let drop_in = fake.path("config/systemd/user/comfyui.service.d/50-rtswap.conf");
    let agent = fake.path("agent.so").canonicalize().unwrap();
    assert_eq!(
        read(&drop_in),
        format!(
            "# Written by rtswapctl attach; remove it by: rtswapctl detach --user comfyui.service\n[Service]\n\
             Environment=\"LD_PRELOAD={}:/a.so:/b.so\"\n",
            agent.display()
        )
    );
    assert!(
        fake.calls().ends_with("--user daemon-reload\n"),
        "{}",
        fake.calls()
    );

    fake.says(&["detach", "--user", "comfyui"]);
    assert_eq!(fake.files("config"), [""; 0]);
    assert!(!drop_in.parent().unwrap().exists());
    assert_eq!(fake.calls().matches("daemon-reload").count(), 2);
    fake.refuses(
        &["detach", "--user", "comfyui"],
        1,
        "comfyui.service is not attached",
    );
}

#[test]
fn a_service_that_cannot_have_the_agent_stays_as_it_was() {
    let fake = Fake::of_user("Id=a.service\nLoadState=loaded\nRestrictAddressFamilies=AF_INET\n");
    fake.refuses(&["attach", "--user", "a"], 1, "lacks AF_UNIX");
    fs::write(fake.path("show"), "LoadState=not-found\n").unwrap();
    let lists = "there is no a.service; systemctl --user list-unit-files";
    fake.refuses(&["attach", "--user", "a"], 1, lists);
    fs::write(fake.path("show"), "LoadState=masked\n").unwrap();
    fake.refuses(&["attach", "--user", "a"], 1, "calls it masked");
    fs::write(fake.path("show"), "LoadState=loaded\nTransient=yes\n").unwrap();
    fake.refuses(&["attach", "--user", "a"], 1, "rtswapctl run");
    fs::write(fake.path("show"), "LoadState=loaded\n").unwrap();
    fake.refuses(
        &["attach", "--user", "a", "--name", "b"],
        2,
        "can have no --name",
    );
    fs::write(fake.path("broken"), "").unwrap();
    fake.refuses(&["attach", "--user", "a"], 1, "no reload today");
    assert_eq!(fake.files("config"), [""; 0]);
}

#[test]
fn another_daemon_is_named_in_the_drop_in() {
    let fake = Fake::of_user("Id=a.service\nLoadState=loaded\n");
    fake.says(&["--runtime-dir", "/run/other", "attach", "--user", "a"]);
    let drop_in = read(&fake.path("config/systemd/user/a.service.d/50-rtswap.conf"));
    assert!(
        drop_in.contains("\nEnvironment=\"RTSWAP_RUNTIME_DIR=/run/other\"\n"),
        "{drop_in}"
    );
}

#[test]
fn a_system_service_gets_a_registration_too() {
    let loaded = "Id=ollama.service\nLoadState=loaded\nUser=ollama\n";
    let Some(fake) = Fake::of_system(loaded) else {
        return;
    };
    let said = fake.says(&["attach", "ollama", "--weight", "200"]);
    assert!(said.contains("the task ollama of ollama"), "{said}");
    let files = [
        "etc/rtswap/tasks.d/ollama.service.toml",
        "etc/systemd/system/ollama.service.d/50-rtswap.conf",
    ];
    assert_eq!(fake.files("etc"), files);
    let registration = read(&fake.path(files[0]));
    let declared = "version = 1\nname = \"ollama\"\nuser = \"ollama\"\nweight = 200\n";
    assert!(registration.ends_with(declared), "{registration}");
    let drop_in = read(&fake.path(files[1]));
    assert!(drop_in.contains("After=rtswapd.service\n"), "{drop_in}");
    assert!(
        drop_in.contains("\nEnvironment=\"RTSWAP_TASK=ollama\"\n"),
        "{drop_in}"
    );

    // Its user is another one now, and unknown before it starts.
    fs::write(fake.path("show"), format!("{loaded}DynamicUser=yes\n")).unwrap();
    let said = fake.says(&["attach", "ollama"]);
    assert!(said.contains("DynamicUser="), "{said}");
    assert_eq!(fake.files("etc"), files[1..]);
    assert!(!read(&fake.path(files[1])).contains("RTSWAP_TASK"));

    fs::write(fake.path("show"), loaded).unwrap();
    fake.says(&["attach", "ollama"]);
    let before = read(&fake.path(files[0]));
    fs::write(fake.path("broken"), "").unwrap();
    fake.refuses(
        &["attach", "ollama", "--weight", "50"],
        1,
        "no reload today",
    );
    assert_eq!(read(&fake.path(files[0])), before);
    fs::remove_file(fake.path("broken")).unwrap();
    fake.says(&["detach", "ollama.service"]);
    assert_eq!(fake.files("etc"), [""; 0]);
}

#[test]
fn what_names_no_service_is_refused_before_systemd_is_asked() {
    let fake = Fake::of_user("");
    fake.refuses(&["attach", "a.socket"], 2, "only services");
    fake.refuses(&["detach", "--user", "../a"], 2, "not its file");
    assert_eq!(fake.calls(), "");
}
