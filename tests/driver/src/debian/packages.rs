//! Which packages are wanted of those that the pools have.

use std::collections::BTreeMap;
use std::fmt;

use crate::library::Kind;
use crate::version::Version;

/// The oldest branch that is looked at: cuGetProcAddress, by which today's runtimes find every function, came with 465.
pub(super) const OLDEST_BRANCH: u32 = 470;

/// A package in a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) name: String,
    /// As Debian has it, such as `550.163.01-2`.
    pub(super) version: String,
    /// The driver's own part of it.
    pub(super) driver: Version,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.version)
    }
}

/// Whether a package of this name holds the driver's library: `libcuda1`, `libnvidia-tesla-470-cuda1`, …
pub(super) fn is_named(name: &str, kind: Kind) -> bool {
    let ending = kind.package_ending;
    name == format!("lib{ending}")
        || name == format!("libnvidia-{ending}")
        || name.starts_with("libnvidia-") && name.ends_with(&format!("-{ending}"))
}

/// The newest package of each branch among the lines of `apt-cache madison`, from the oldest branch on.
pub(super) fn newest(madison: &str, kind: Kind) -> Vec<Package> {
    let mut branches: BTreeMap<u32, Package> = BTreeMap::new();
    for package in madison.lines().filter_map(package) {
        let branch = package.driver.branch();
        if !is_named(&package.name, kind) || branch < OLDEST_BRANCH {
            continue;
        }
        let known = branches.get(&branch);
        if known.is_none_or(|known| known.driver < package.driver) {
            branches.insert(branch, package);
        }
    }
    branches.into_values().collect()
}

/// `NAME | VERSION | SOURCE`; nothing for a source package.
fn package(line: &str) -> Option<Package> {
    let mut fields = line.split('|').map(str::trim);
    let (name, version, source) = (fields.next()?, fields.next()?, fields.next()?);
    let upstream = version
        .rsplit_once('-')
        .map_or(version, |(upstream, _)| upstream);
    // An epoch says nothing of the driver.
    let upstream = upstream.split_once(':').map_or(upstream, |(_, rest)| rest);
    source.ends_with("Packages").then_some(Package {
        name: name.to_owned(),
        version: version.to_owned(),
        driver: Version::parse(upstream)?,
    })
}

#[cfg(test)]
mod tests {
    use crate::library::{CUDA, NVML};

    use super::*;

    const MADISON: &str = "\
        libnvidia-tesla-cuda1 | 525.147.05-15~deb12u1 | http://deb.debian.org/debian bookworm/non-free amd64 Packages\n\
        libnvidia-tesla-cuda1 | 525.147.05-19 | http://deb.debian.org/debian sid/non-free amd64 Packages\n\
        libnvidia-tesla-550-cuda1 | 550.54.15-5 | http://deb.debian.org/debian sid/non-free amd64 Packages\n\
        \x20 libcuda1 | 550.163.01-2 | http://deb.debian.org/debian trixie/non-free amd64 Packages\n\
        \x20 libcuda1 | 1:555.58.02-4 | http://deb.debian.org/debian experimental/non-free amd64 Packages\n\
        nvidia-graphics-drivers | 560.1.1-4 | http://deb.debian.org/debian experimental/non-free Sources\n\
        libnvidia-legacy-390xx-cuda1 | 390.157-16 | http://deb.debian.org/debian sid/non-free amd64 Packages\n";

    fn named(packages: &[Package]) -> Vec<String> {
        packages.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_branch_gives_its_newest_package() {
        assert_eq!(
            named(&newest(MADISON, CUDA)),
            [
                "libnvidia-tesla-cuda1=525.147.05-15~deb12u1",
                "libcuda1=550.163.01-2",
                "libcuda1=1:555.58.02-4"
            ]
        );
        assert_eq!(newest(MADISON, NVML), []);
        assert_eq!(newest("N: Unable to locate package\n\n | \n", CUDA), []);
    }

    #[test]
    fn packages_are_known_by_their_names() {
        for name in [
            "libcuda1",
            "libnvidia-tesla-470-cuda1",
            "libnvidia-tesla-cuda1",
        ] {
            assert!(is_named(name, CUDA) && !is_named(name, NVML), "{name}");
        }
        for name in ["libnvidia-ml1", "libnvidia-tesla-535-ml1"] {
            assert!(is_named(name, NVML) && !is_named(name, CUDA), "{name}");
        }
        assert!(!is_named("libcudart1", CUDA) && !is_named("libxml1", NVML));
    }
}
