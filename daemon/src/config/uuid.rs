//! Which GPU, or which MIG instance of one.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// The UUID of a GPU, as `GPU-01234567-89ab-cdef-0123-456789abcdef`, or of a MIG instance, as
/// `MIG-01234567-89ab-cdef-0123-456789abcdef`. The 16 bytes alone tell which: CUDA gives nothing
/// else, and the instance's for a program that runs on one (`cuDeviceGetUuid_v2`).
#[derive(Clone, Copy, Debug)]
pub struct Uuid {
    bytes: [u8; 16],
    is_instance: bool,
}

/// What a text that is no UUID should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UuidError {
    /// It is none of either kind.
    #[error(
        "is not a GPU's UUID, such as GPU-01234567-89ab-cdef-0123-456789abcdef; `nvidia-smi -L` \
         lists them"
    )]
    Gpu,
    /// It begins as an instance's does, and is none.
    #[error(
        "is not a MIG instance's UUID, such as MIG-01234567-89ab-cdef-0123-456789abcdef; \
         `nvidia-smi -L` lists them"
    )]
    Instance,
    /// Drivers before 470 named instances so.
    #[error(
        "names a MIG instance as drivers before 470 did, by its GPU and two numbers; write the \
         instance's own UUID, such as MIG-01234567-89ab-cdef-0123-456789abcdef, which \
         `nvidia-smi -L` lists with a driver from 470 on"
    )]
    OldInstance,
}

const GPU: &str = "GPU-";
const INSTANCE: &str = "MIG-";
const OLD_INSTANCE: &str = "MIG-GPU-";

impl Uuid {
    /// What CUDA gives, which does not say whether it is an instance's: written as a GPU's.
    pub const fn of(bytes: [u8; 16]) -> Self {
        Self {
            bytes,
            is_instance: false,
        }
    }

    /// As CUDA and the wire have it.
    pub const fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// Whether it is written as a MIG instance's.
    pub const fn is_instance(&self) -> bool {
        self.is_instance
    }
}

impl PartialEq for Uuid {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Uuid {}

impl PartialOrd for Uuid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Uuid {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl Hash for Uuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_instance { INSTANCE } else { GPU })?;
        for (at, byte) in self.bytes.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        if text.starts_with(OLD_INSTANCE) {
            return Err(UuidError::OldInstance);
        }
        let (is_instance, digits, wrong) = match text.strip_prefix(INSTANCE) {
            Some(digits) => (true, digits, UuidError::Instance),
            None => (
                false,
                text.strip_prefix(GPU).ok_or(UuidError::Gpu)?,
                UuidError::Gpu,
            ),
        };
        let digits = digits.replace('-', "");
        if digits.len() != 32 || !digits.is_ascii() {
            return Err(wrong);
        }
        let mut bytes = [0; 16];
        for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong)?;
        }
        let uuid = Self { bytes, is_instance };
        // Only the one way to write it, so that equal text means equal GPU.
        (uuid.to_string() == text && bytes != [0; 16])
            .then_some(uuid)
            .ok_or(wrong)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|error| D::Error::custom(format_args!("{text:?} {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "01234567-89ab-cdef-0123-456789abcdef";

    #[test]
    fn uuids_have_one_spelling() {
        for (text, is_instance) in [
            (format!("GPU-{DIGITS}"), false),
            (format!("MIG-{DIGITS}"), true),
        ] {
            let uuid: Uuid = text.parse().unwrap();
            assert_eq!(uuid.to_string(), text);
            assert_eq!(uuid.is_instance(), is_instance);
        }
        for wrong in [
            "",
            "GPU-",
            "GPU-00000000-0000-0000-0000-000000000000",
            "GPU-01234567-89AB-cdef-0123-456789abcdef",
            "GPU-0123456789abcdef0123456789abcdef",
            "GPU-+1234567-89ab-cdef-0123-456789abcdef",
            DIGITS,
        ] {
            assert_eq!(wrong.parse::<Uuid>(), Err(UuidError::Gpu), "{wrong}");
            let instance = format!("MIG-{}", wrong.trim_start_matches("GPU-"));
            if wrong != DIGITS {
                let parsed = instance.parse::<Uuid>();
                assert_eq!(parsed, Err(UuidError::Instance), "{instance}");
            }
        }
    }

    #[test]
    fn the_bytes_alone_tell_which() {
        let gpu: Uuid = format!("GPU-{DIGITS}").parse().unwrap();
        let instance: Uuid = format!("MIG-{DIGITS}").parse().unwrap();
        assert_eq!(gpu, instance);
        assert_eq!(Uuid::of(instance.bytes()), instance);
        assert_eq!(gpu.cmp(&instance), Ordering::Equal);
    }

    #[test]
    fn an_old_name_of_an_instance_is_told_what_to_write() {
        let old = format!("MIG-GPU-{DIGITS}/1/0");
        let error = old.parse::<Uuid>().unwrap_err();
        assert_eq!(error, UuidError::OldInstance);
        assert!(error.to_string().contains("own UUID, such as MIG-"));
    }
}
