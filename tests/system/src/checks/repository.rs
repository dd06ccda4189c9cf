//! apt trusts the repository by the key in its `rtswap.sources`, and by no other.

use anyhow::{Result, ensure};

use crate::machine::Machine;
use crate::report::Report;

/// Where users put the file.
const SOURCES: &str = "/etc/apt/sources.list.d/rtswap.sources";
/// As the system sees the repository.
const REPOSITORY: &str = "/srv/shared/repository";
/// A key that did not sign the repository.
const FOREIGN_KEY: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

pub(super) fn check(report: &mut Report<'_>) {
    report.check("apt refuses a repository that another key signed", refused);
    report.check("apt refuses a repository that was changed", changed);
    report.check("apt takes the signed repository", taken);
}

fn refused(machine: &Machine) -> Result<()> {
    let wrong = format!(
        "sed '/^Signed-By:/,$ d' {REPOSITORY}/rtswap.sources > {SOURCES}
         echo 'Signed-By: {FOREIGN_KEY}' >> {SOURCES}; test -s {FOREIGN_KEY}"
    );
    machine.shell(&wrong)?.ok()?;
    is_refused(machine)
}

fn changed(machine: &Machine) -> Result<()> {
    let release = format!("{REPOSITORY}/dists/stable/InRelease");
    machine
        .shell(&format!(
            "cp {REPOSITORY}/rtswap.sources {SOURCES}
             cp {release} /root/signed; sed -i 's/^Label: .*/Label: other/' {release}"
        ))?
        .ok()?;
    let result = is_refused(machine);
    machine
        .shell(&format!("cp /root/signed {release}; rm /root/signed"))?
        .ok()?;
    result
}

fn taken(machine: &Machine) -> Result<()> {
    update(machine)
}

fn is_refused(machine: &Machine) -> Result<()> {
    let said = machine.run(&UPDATE)?;
    ensure!(said.code == Some(100), "apt-get update: {said:?}");
    ensure!(said.stderr.contains("is not signed"), "{}", said.stderr);
    let known = machine.run(&["apt-cache", "show", "rtswap"])?;
    ensure!(known.code != Some(0), "apt knows it: {}", known.stdout);
    Ok(())
}

/// Debian's own archives are left out: there is no network.
const UPDATE: [&str; 5] = [
    "apt-get",
    "update",
    "-oDir::Etc::SourceList=/etc/apt/sources.list.d/rtswap.sources",
    "-oDir::Etc::SourceParts=/dev/null",
    "-oAPT::Get::List-Cleanup=false",
];

/// Has apt read the repository's lists.
pub(super) fn update(machine: &Machine) -> Result<()> {
    machine.run(&UPDATE)?.ok().map(drop)
}

/// Puts the repository with the next version of the packages in the place of the first.
pub(super) fn publish_next(machine: &Machine) -> Result<()> {
    machine
        .shell(&format!(
            "mv {REPOSITORY} /srv/shared/first; mv /srv/shared/next {REPOSITORY}"
        ))?
        .ok()?;
    update(machine)
}
