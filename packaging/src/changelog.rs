//! Debian's changelogs: one entry a package, for the sources as they are; what changed is in CHANGELOG.md.

/// As in Cargo.toml.
const MAINTAINER: &str = "The rtswap authors <rtswap@packages.example.org>";

/// Each package's changelog by its file name; `date` as RFC 2822 writes it.
pub(crate) fn all(date: &str) -> Vec<(String, String)> {
    ["rtswap", "rtswap-simgpu"]
        .map(|package| (format!("{package}.changelog"), entry(package, date)))
        .to_vec()
}

fn entry(package: &str, date: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{package} ({version}-1) unstable; urgency=medium\n\n  * Packaged from the sources; changelog.gz says what changed.\n\n \
         -- {MAINTAINER}  {date}\n"
    )
}
