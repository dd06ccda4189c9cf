//! The key that signs a repository. gpg does the work; the secret key stays the caller's.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::process::Run;

/// A secret key that gpg can sign with.
pub(crate) struct SigningKey {
    /// A keyring of its own, for a key that is not in the caller's. Dropping it removes it.
    keyring: Option<Keyring>,
    fingerprint: String,
}

impl SigningKey {
    /// The key in the file `key`, or else the one of that id in the caller's keyring.
    pub(crate) fn open(key: &str) -> Result<Self> {
        if !Path::new(key).is_file() {
            let fingerprint = fingerprint(None, &["--", key])?;
            return Ok(Self {
                keyring: None,
                fingerprint,
            });
        }
        let file = std::path::absolute(key)?;
        let keyring = Keyring::create()?;
        gpg(Some(&keyring))
            .args(&["--quiet", "--import"])
            .args(&[&file])
            .succeed()?;
        Self::only_of(keyring).with_context(|| format!("the signing key in {}", file.display()))
    }

    /// A new key that vanishes with this value, created at `epoch` (seconds since 1970): for tests.
    pub(crate) fn throw_away(epoch: u64) -> Result<Self> {
        let keyring = Keyring::create()?;
        at(gpg(Some(&keyring)), epoch)
            .args(&["--quiet", "--passphrase", "", "--quick-generate-key"])
            .args(&["test of rtswap", "ed25519", "sign", "never"])
            .succeed()?;
        Self::only_of(keyring)
    }

    fn only_of(keyring: Keyring) -> Result<Self> {
        let fingerprint = fingerprint(Some(&keyring), &[])?;
        Ok(Self {
            keyring: Some(keyring),
            fingerprint,
        })
    }

    /// The fingerprint, in hexadecimal.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The public key, armored.
    pub(crate) fn public(&self) -> Result<String> {
        self.gpg()
            .args(&["--armor", "--export-options", "export-minimal"])
            .args(&["--export", self.fingerprint()])
            .read()
    }

    /// The secret key, armored.
    #[cfg(test)]
    pub(crate) fn secret(&self) -> Result<String> {
        let export = ["--armor", "--export-secret-keys", self.fingerprint()];
        self.gpg().args(&export).read()
    }

    /// Signs `text` as of `epoch` (seconds since 1970): `signed` gets the text with its signature, `signature` the
    /// signature alone, armored.
    pub(crate) fn sign(
        &self,
        text: &Path,
        epoch: u64,
        signed: &Path,
        signature: &Path,
    ) -> Result<()> {
        for (how, output) in [("--clearsign", signed), ("--detach-sign", signature)] {
            at(self.gpg(), epoch)
                .args(&["--yes", "--armor", "--digest-algo", "SHA512"])
                .args(&["--local-user", self.fingerprint(), "--output"])
                .args(&[output])
                .args(&[how])
                .args(&[text])
                .succeed()?;
        }
        Ok(())
    }

    fn gpg(&self) -> Run {
        gpg(self.keyring.as_ref())
    }
}

/// A folder of gpg's that only its owner reads.
struct Keyring(TempDir);

impl Keyring {
    /// An empty one. In the folder for temporary files, because the path of gpg-agent's socket has little room.
    fn create() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("rtswap-key-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("a folder for the signing key")?;
        Ok(Self(folder))
    }

    fn home(&self) -> PathBuf {
        self.0.path().to_owned()
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        // An agent that is not stopped ends by itself once its folder is gone.
        Run::new("gpgconf", Path::new("/"))
            .args(&["--homedir"])
            .args(&[self.home()])
            .args(&["--kill", "all"])
            .succeeds_quietly();
    }
}

/// gpg with the keys of `keyring`, or the caller's, and without the caller's options: they could change what is written.
fn gpg(keyring: Option<&Keyring>) -> Run {
    let run = Run::new("gpg", Path::new("/")).args(&["--no-options", "--batch"]);
    match keyring {
        Some(keyring) => run.args(&["--homedir"]).args(&[keyring.home()]),
        None => run,
    }
}

/// The clock of this gpg stands at `epoch`, so that what it makes depends on nothing else.
fn at(gpg: Run, epoch: u64) -> Run {
    gpg.args(&["--faked-system-time", &format!("{epoch}!")])
}

/// The fingerprint of the only secret key that `which` selects.
fn fingerprint(keyring: Option<&Keyring>, which: &[&str]) -> Result<String> {
    let listed = gpg(keyring)
        .args(&["--with-colons", "--list-secret-keys"])
        .args(which)
        .read()
        .context("no secret key: give its file, or an id that `gpg --list-secret-keys` shows")?;
    let found = fingerprints(&listed);
    match found[..] {
        [only] => Ok(only.to_owned()),
        [] => bail!("no secret key: give a file made by `gpg --export-secret-keys`"),
        _ => bail!(
            "{} secret keys, not one: give the fingerprint of one in your keyring: {}",
            found.len(),
            found.join(", ")
        ),
    }
}

/// The fingerprints of the primary keys in gpg's list; those of subkeys are left out.
fn fingerprints(listed: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_primary = false;
    for line in listed.lines() {
        let mut fields = line.split(':');
        match fields.next() {
            Some("sec") => is_primary = true,
            Some("fpr") if is_primary => {
                is_primary = false;
                found.extend(fields.nth(8));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "\
sec:u:255:22:1111:1700000000:::u:::scESC:::+::ed25519:::0:
fpr:::::::::AAAA1111:
grip:::::::::CCCC:
uid:u::::1700000000::DDDD::test::::::::::0:
ssb:u:255:22:2222:1700000000::::::s:::+::ed25519::
fpr:::::::::BBBB2222:
sec:u:255:22:3333:1700000000:::u:::scESC:::+::ed25519:::0:
fpr:::::::::EEEE3333:
";

    #[test]
    fn fingerprints_are_those_of_primary_keys() {
        assert_eq!(fingerprints(LISTED), ["AAAA1111", "EEEE3333"]);
        assert_eq!(fingerprints(""), [""; 0]);
    }
}
