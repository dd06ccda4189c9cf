//! What apt reads of a repository besides the list of its packages.

use std::fmt::Write as _;

/// The one component of the repository.
pub(crate) const COMPONENT: &str = "main";
/// What the packages are built for.
pub(crate) const ARCHITECTURE: &str = "amd64";

/// A file that a Release file vouches for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Index {
    /// Its path below the folder of the Release file.
    pub(crate) path: String,
    /// Its size in bytes.
    pub(crate) size: u64,
    /// The SHA-256 of its content, in hexadecimal.
    pub(crate) sha256: String,
}

/// The Release file of `suite` as of `date`, written as RFC 2822 does in UTC. After `until` apt refuses it.
pub(crate) fn release(suite: &str, date: &str, until: Option<&str>, indices: &[Index]) -> String {
    let mut text =
        format!("Origin: rtswap\nLabel: rtswap\nSuite: {suite}\nCodename: {suite}\nDate: {date}\n");
    if let Some(until) = until {
        let _ = writeln!(text, "Valid-Until: {until}");
    }
    let _ = write!(
        text,
        "Acquire-By-Hash: yes\nArchitectures: {ARCHITECTURE}\nComponents: {COMPONENT}\nSHA256:\n"
    );
    for Index { path, size, sha256 } in indices {
        let _ = writeln!(text, " {sha256} {size} {path}");
    }
    text
}

/// The file for /etc/apt/sources.list.d: where the repository is, and the armored public key that must have signed it.
pub(crate) fn sources(url: &str, suite: &str, key: &str) -> String {
    let mut text = format!(
        "Types: deb\nURIs: {url}\nSuites: {suite}\nComponents: {COMPONENT}\nArchitectures: {ARCHITECTURE}\nSigned-By:\n"
    );
    for line in key.lines() {
        // An empty line would end the paragraph.
        let line = if line.is_empty() { "." } else { line };
        let _ = writeln!(text, " {line}");
    }
    text
}

/// dpkg-scanpackages' paragraphs in an order that depends only on them: its own is that of the folder.
pub(crate) fn sorted(paragraphs: &str) -> String {
    let mut all: Vec<&str> = split(paragraphs).collect();
    all.sort_unstable();
    all.iter().fold(String::new(), |mut text, paragraph| {
        let _ = write!(text, "{paragraph}\n\n");
        text
    })
}

/// The names of packages for other architectures, with these.
pub(crate) fn foreign(paragraphs: &str) -> Vec<String> {
    let field = |paragraph: &str, name: &str| {
        let mut lines = paragraph.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.unwrap_or_default().to_owned()
    };
    split(paragraphs)
        .map(|paragraph| {
            let architecture = field(paragraph, "Architecture");
            (field(paragraph, "Package"), architecture)
        })
        .filter(|(_, architecture)| ![ARCHITECTURE, "all"].contains(&architecture.as_str()))
        .map(|(package, architecture)| format!("{package} ({architecture})"))
        .collect()
}

/// How many packages there are.
pub(crate) fn count(paragraphs: &str) -> usize {
    split(paragraphs).count()
}

fn split(paragraphs: &str) -> impl Iterator<Item = &str> {
    let all = paragraphs.split("\n\n").map(str::trim);
    all.filter(|paragraph| !paragraph.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "Package: b\nArchitecture: arm64\n\nPackage: a\nArchitecture: all\n\n";

    #[test]
    fn paragraphs_are_sorted() {
        assert_eq!(
            sorted(TWO),
            "Package: a\nArchitecture: all\n\nPackage: b\nArchitecture: arm64\n\n"
        );
        assert_eq!(sorted(""), "");
        assert_eq!((count(TWO), count("\n")), (2, 0));
    }

    #[test]
    fn another_architecture_is_named() {
        assert_eq!(foreign(TWO), ["b (arm64)"]);
        assert!(foreign("Package: c\nArchitecture: amd64\n").is_empty());
    }

    #[test]
    fn a_key_is_one_field_of_the_sources() {
        let text = sources(
            "https://example.org/x",
            "stable",
            "BEGIN\n\nxyz\n=abc\nEND\n",
        );
        let (fields, key) = text.split_once("Signed-By:\n").unwrap();
        assert!(fields.contains("URIs: https://example.org/x\nSuites: stable\n"));
        assert_eq!(key, " BEGIN\n .\n xyz\n =abc\n END\n");
    }

    #[test]
    fn a_release_vouches_for_its_indices() {
        let index = Index {
            path: "main/x".into(),
            size: 7,
            sha256: "00ff".into(),
        };
        let text = release("s", "now", None, &[index]);
        assert!(text.ends_with("SHA256:\n 00ff 7 main/x\n"), "{text}");
        assert!(!text.contains("Valid-Until"));
        assert!(release("s", "now", Some("then"), &[]).contains("\nValid-Until: then\n"));
    }
}
