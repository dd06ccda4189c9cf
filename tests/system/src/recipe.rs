//! What the system that is booted consists of.

use std::time::Duration;

use rtswap_system::rootfs::Recipe;

/// A Debian that the packages are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
}

impl Suite {
    const fn codename(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}

/// What the packages recommend, and what the checks need besides.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,polkitd,python3-dbus,libsystemd-dev,procps,sudo,tmux,podman,crun,uidmap";
/// Units that are for real hardware, terminals or the network.
const MASKED: &str = "console-getty.service getty.target systemd-modules-load.service modprobe@.service \
    sys-kernel-debug.mount sys-kernel-config.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount \
    sys-fs-fuse-connections.mount systemd-journald-audit.socket systemd-networkd.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer";

/// An image for containers, of Debian 11: glibc 2.31. It has a loader, a C library and a shell.
pub(crate) fn image() -> Recipe {
    Recipe {
        suite: "bullseye",
        packages: "libc6",
        hooks: Vec::new(),
        bound: Duration::from_mins(4),
    }
}

/// A system that boots in namespaces, with two users.
pub(crate) fn recipe(suite: Suite) -> Recipe {
    let hooks = [
        "chroot \"$1\" useradd --create-home tester && chroot \"$1\" useradd --create-home other".into(),
        format!(
            "mkdir -p \"$1/etc/systemd/system\" && cd \"$1/etc/systemd/system\" && for unit in {MASKED}; do ln -sf /dev/null \"$unit\"; done"
        ),
        "printf '127.0.0.1 localhost rtswap-test\\n' > \"$1/etc/hosts\" && echo rtswap-test > \"$1/etc/hostname\"".into(),
    ];
    Recipe {
        suite: suite.codename(),
        packages: PACKAGES,
        hooks: hooks.into(),
        bound: Duration::from_mins(4),
    }
}
