//! apt itself reads the repositories, in a folder of its own.

use std::collections::BTreeMap;
use std::io::Write as _;

use tempfile::TempDir;

use super::*;

const EPOCH: u64 = 1_700_000_000;
const PROGRAMS: [&str; 6] = [
    "apt-get",
    "dpkg-deb",
    "dpkg-scanpackages",
    "gpg",
    "gpg-agent",
    "xz",
];

/// Folders for packages, repositories and an apt.
struct Place(TempDir);

impl Place {
    /// None, and it is said, where a program is missing.
    fn create(test: &str) -> Option<Self> {
        let missing = PROGRAMS
            .iter()
            .find(|name| !tools::exists(name, Path::new("/")));
        if let Some(name) = missing {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no {name}");
            return None;
        }
        Some(Self(tempfile::tempdir().unwrap()))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Builds a package with this version and the description `what`.
    fn package(&self, version: &str, what: &str) -> PathBuf {
        self.named("rtswap-test", version, "all", what, "deb")
    }

    fn named(&self, name: &str, version: &str, arch: &str, what: &str, kind: &str) -> PathBuf {
        let built = tempfile::tempdir_in(self.0.path()).unwrap();
        let debian = built.path().join("DEBIAN");
        fs::create_dir(&debian).unwrap();
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nMaintainer: x <x@example.org>\n\
             Description: {what}\n"
        );
        fs::write(debian.join("control"), control).unwrap();
        let deb = self.path(&format!("{what}/{name}_{version}_{arch}.{kind}"));
        fs::create_dir_all(deb.parent().unwrap()).unwrap();
        let built = Run::new("dpkg-deb", Path::new("/"))
            .args(&["--root-owner-group", "--build"])
            .args(&[built.path(), &deb])
            .env("SOURCE_DATE_EPOCH", EPOCH.to_string());
        assert!(built.succeeds_quietly());
        deb
    }

    /// `apt-get ARGUMENTS` of an apt that knows nothing but the file `sources`.
    fn apt(&self, sources: &Path, arguments: &[&str]) -> Run {
        let apt = self.path("apt");
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(apt.join(folder)).unwrap();
        }
        fs::write(apt.join("status"), "").unwrap();
        // The machine's own settings must not count: some trust anything.
        let settings = [
            ("Dir::Etc::Main", Path::new("/dev/null")),
            ("Dir::Etc::Parts", Path::new("/dev/null")),
            ("Dir::Etc::SourceList", sources),
            ("Dir::Etc::SourceParts", Path::new("/dev/null")),
            ("Dir::State::Lists", &apt.join("lists")),
            ("Dir::State::Status", &apt.join("status")),
            ("Dir::Cache", &apt),
            ("Debug::NoLocking", Path::new("true")),
            ("APT::Architecture", Path::new("amd64")),
            ("APT::Sandbox::User", Path::new("root")),
        ];
        let settings = settings.map(|(name, value)| format!("{name} \"{}\";\n", value.display()));
        let file = apt.join("apt.conf");
        fs::write(&file, settings.concat()).unwrap();
        Run::new("apt-get", self.0.path())
            .args(arguments)
            .env("APT_CONFIG", file)
    }

    /// Whether apt takes the lists of the repository that `sources` names.
    fn updates(&self, sources: &Path) -> bool {
        let _ = fs::remove_dir_all(self.path("apt"));
        self.apt(sources, &["update"]).succeeds_quietly()
    }

    /// Which version `apt-get install WHAT` would take.
    fn taken(&self, sources: &Path, what: &str) -> String {
        let said = self.apt(sources, &["install", "--simulate", what]);
        let said = said.read().unwrap();
        let taken = said
            .lines()
            .find(|line| line.starts_with("Inst "))
            .expect(&said);
        let (_, version) = taken.split_once('(').unwrap();
        version.split(' ').next().unwrap().to_owned()
    }
}

fn terms() -> Terms {
    Terms {
        url: None,
        suite: "stable".into(),
        valid_days: None,
    }
}

/// All files below a folder, by their paths in it.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn apt_installs_any_version_and_its_debug_information() {
    let Some(place) = Place::create("apt_installs_any_version") else {
        return;
    };
    let key = SigningKey::throw_away(EPOCH).unwrap();
    let out = place.path("repository");
    let old = place.package("1.9-1", "old");
    let debug = place.named("rtswap-test-dbgsym", "1.9-1", "amd64", "debug", "ddeb");
    write(&out, &[old, debug], &key, &terms(), EPOCH).unwrap();
    let sources = out.join("rtswap.sources");
    assert!(place.updates(&sources));
    assert_eq!(place.taken(&sources, "rtswap-test"), "1.9-1");
    assert_eq!(place.taken(&sources, "rtswap-test-dbgsym"), "1.9-1");

    let new = place.package("1.10-1", "new");
    write(&out, &[new], &key, &terms(), EPOCH + 1).unwrap();
    assert!(place.updates(&sources));
    assert_eq!(place.taken(&sources, "rtswap-test"), "1.10-1");
    assert_eq!(place.taken(&sources, "rtswap-test=1.9-1"), "1.9-1");
    place
        .apt(&sources, &["download", "rtswap-test"])
        .read()
        .unwrap();
    // An apt that read the earlier Release file still finds its lists.
    let by_hash = out.join("dists/stable/main/binary-amd64/by-hash/SHA256");
    assert_eq!(fs::read_dir(by_hash).unwrap().count(), 6);
}

#[test]
fn what_the_key_did_not_sign_is_refused() {
    let Some(place) = Place::create("what_the_key_did_not_sign_is_refused") else {
        return;
    };
    let key = SigningKey::throw_away(EPOCH).unwrap();
    let other = SigningKey::throw_away(EPOCH).unwrap();
    let out = place.path("repository");
    write(
        &out,
        &[place.package("1-1", "a")],
        &key,
        &terms(),
        now().unwrap(),
    )
    .unwrap();
    let sources = out.join("rtswap.sources");
    assert!(place.updates(&sources));

    let url = format!("file:{}", out.display());
    let wrong = place.path("wrong.sources");
    let text = texts::sources(&url, "stable", &other.public().unwrap());
    fs::write(&wrong, text).unwrap();
    assert!(!place.updates(&wrong), "another's key");

    let release = out.join("dists/stable/InRelease");
    let signed = fs::read_to_string(&release).unwrap();
    let changed = signed.replacen("Label: rtswap", "Label: rtswas", 1);
    assert_ne!(signed, changed);
    fs::write(&release, changed).unwrap();
    assert!(!place.updates(&sources), "a changed release");
    // An apt that finds no InRelease reads these.
    fs::remove_file(&release).unwrap();
    assert!(place.updates(&sources), "Release and Release.gpg");

    let expired = Terms {
        valid_days: Some(1),
        ..terms()
    };
    write(&out, &[], &key, &expired, EPOCH).unwrap();
    assert!(!place.updates(&sources), "a release of long ago");
    write(&out, &[], &key, &expired, now().unwrap()).unwrap();
    assert!(place.updates(&sources));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let Some(place) = Place::create("the_same_input_gives_the_same_bytes") else {
        return;
    };
    let key = SigningKey::throw_away(EPOCH).unwrap();
    let mut debs = ["2-1", "10-1", "1-1"].map(|version| place.package(version, "a"));
    let terms = Terms {
        url: Some("https://example.org/apt".into()),
        ..terms()
    };
    let repositories = ["one", "two"].map(|name| {
        debs.reverse();
        write(&place.path(name), &debs, &key, &terms, EPOCH).unwrap();
        contents(&place.path(name))
    });
    // 3 packages, 3 lists and their 3 hashes, 3 files of the release, the sources: and nothing that is left over.
    assert_eq!(repositories[0].len(), 13);
    assert!(repositories[0] == repositories[1]);
}

#[test]
fn a_published_package_is_not_replaced() {
    let Some(place) = Place::create("a_published_package_is_not_replaced") else {
        return;
    };
    let key = SigningKey::throw_away(EPOCH).unwrap();
    let out = place.path("repository");
    let [first, second] = ["first", "second"].map(|what| place.package("1-1", what));
    for _ in 0..2 {
        write(&out, std::slice::from_ref(&first), &key, &terms(), EPOCH).unwrap();
    }
    let before = contents(&out);
    let error = write(&out, &[second], &key, &terms(), EPOCH).unwrap_err();
    assert!(error.to_string().contains("higher version"), "{error}");
    assert!(before == contents(&out));

    let foreign = place.named("rtswap-test", "2-1", "arm64", "foreign", "deb");
    let error = write(&out, &[foreign], &key, &terms(), EPOCH).unwrap_err();
    assert!(error.to_string().contains("(arm64)"), "{error}");
}

#[test]
fn a_key_comes_from_its_file_and_must_be_one() {
    let Some(place) = Place::create("a_key_comes_from_its_file_and_must_be_one") else {
        return;
    };
    let file = place.path("key.asc");
    let keys = [0, 1].map(|_| SigningKey::throw_away(EPOCH).unwrap());
    fs::write(&file, keys[0].secret().unwrap()).unwrap();
    let opened = SigningKey::open(file.to_str().unwrap()).unwrap();
    assert_eq!(opened.fingerprint(), keys[0].fingerprint());

    let two = format!("{}{}", keys[0].secret().unwrap(), keys[1].secret().unwrap());
    fs::write(&file, two).unwrap();
    let error = SigningKey::open(file.to_str().unwrap()).err().unwrap();
    assert!(format!("{error:#}").contains("2 secret keys"), "{error:#}");

    fs::write(&file, keys[0].public().unwrap()).unwrap();
    let error = SigningKey::open(file.to_str().unwrap()).err().unwrap();
    assert!(format!("{error:#}").contains("no secret key"), "{error:#}");
}

#[test]
fn urls_and_suites_fit_into_their_fields() {
    for url in ["https://example.org/apt", "file:/srv/apt"] {
        assert_eq!(parse_url(url).unwrap(), url);
    }
    for url in ["example.org", "https://a b", "file:/a\nTrusted: yes", ""] {
        assert!(parse_url(url).is_err(), "{url:?}");
    }
    assert_eq!(parse_suite("trixie-1").unwrap(), "trixie-1");
    for suite in ["", "../x", "a/b", "-a", "a b"] {
        assert!(parse_suite(suite).is_err(), "{suite:?}");
    }
}
