//! The UUID of a GPU or of a MIG instance, and its one spelling.

use alloc::string::ToString;
use core::cmp::Ordering;
use core::fmt;
use core::str::FromStr;

/// The UUID of a GPU, as `GPU-01234567-89ab-cdef-0123-456789abcdef`, or of a MIG instance, as
/// `MIG-01234567-89ab-cdef-0123-456789abcdef`. Only the 16 bytes are compared, because CUDA gives
/// no more (`cuDeviceGetUuid_v2`): to a program on a MIG instance, the instance's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Uuid {
    bytes: [u8; 16],
    is_instance: bool,
}

/// Why a text is no UUID, and what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UuidError {
    /// The text is neither kind of UUID.
    #[error(
        "is not a GPU's UUID, such as GPU-01234567-89ab-cdef-0123-456789abcdef; `nvidia-smi -L` \
         lists them"
    )]
    Gpu,
    /// The text begins as the UUID of a MIG instance does, but goes on otherwise.
    #[error(
        "is not a MIG instance's UUID, such as MIG-01234567-89ab-cdef-0123-456789abcdef; \
         `nvidia-smi -L` lists them"
    )]
    Instance,
    /// The text is the name that drivers before 470 gave to a MIG instance.
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
    /// A UUID from the bytes that CUDA gives. They do not tell an instance from a GPU, so
    /// [`Self::is_instance`] is false and the UUID is written as a GPU's.
    pub const fn of(bytes: [u8; 16]) -> Self {
        Self {
            bytes,
            is_instance: false,
        }
    }

    /// The 16 bytes, in the order that CUDA and the wire use.
    pub const fn bytes(&self) -> [u8; 16] {
        self.bytes
    }

    /// Whether the UUID is written as a MIG instance's, with the prefix `MIG-`.
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
        let number = u128::from_str_radix(&digits.replace('-', ""), 16).map_err(|_| wrong)?;
        let bytes = number.to_be_bytes();
        let uuid = Self { bytes, is_instance };
        // Accept one spelling only, so that equal text means equal GPU.
        (uuid.to_string() == text && bytes != [0; 16])
            .then_some(uuid)
            .ok_or(wrong)
    }
}

#[cfg(test)]
mod tests {
    use std::format;

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
    fn only_the_bytes_are_compared() {
        let gpu: Uuid = format!("GPU-{DIGITS}").parse().unwrap();
        let instance: Uuid = format!("MIG-{DIGITS}").parse().unwrap();
        assert_eq!(gpu, instance);
        assert_eq!(Uuid::of(instance.bytes()), instance);
        assert_eq!(gpu.cmp(&instance), Ordering::Equal);
    }

    #[test]
    fn the_error_for_an_old_name_says_what_to_write() {
        let old = format!("MIG-GPU-{DIGITS}/1/0");
        let error = old.parse::<Uuid>().unwrap_err();
        assert_eq!(error, UuidError::OldInstance);
        assert!(error.to_string().contains("own UUID, such as MIG-"));
    }
}
