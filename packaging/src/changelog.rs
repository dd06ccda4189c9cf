//! Debian's changelogs: one entry a package, for the sources as they are; what changed is in CHANGELOG.md.

/// Each package's changelog by its file name; `maintainer` with its address, `date` as RFC 2822 writes it.
pub(crate) fn all(maintainer: &str, date: &str) -> Vec<(String, String)> {
    ["rtswap", "rtswap-simgpu", "librtswap-dev"]
        .map(|package| {
            (
                format!("{package}.changelog"),
                entry(package, maintainer, date),
            )
        })
        .to_vec()
}

fn entry(package: &str, maintainer: &str, date: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{package} ({version}-1) unstable; urgency=medium\n\n  * Packaged from the sources; changelog.gz says what changed.\n\n \
         -- {maintainer}  {date}\n"
    )
}
