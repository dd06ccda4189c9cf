//! NVML's view of a GPU's memory: a program must read there what cuMemGetInfo tells it.
//!
//! `nvmlDeviceGetMemoryInfo` counts the driver's reserve as used. Its second form has a field for it,
//! and NVIDIA's own header has said both that `used` includes the reserve and that it does not. So the
//! share of the memory that the driver counts in neither `free` nor `used` stays out of both.

/// nvmlMemory_v2: the version and the size of [`MemoryV2`] in one word.
const VERSION_2: u32 = 2 << 24 | size_of::<MemoryV2>() as u32;

/// nvmlMemory_t. All fields are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// All memory.
    pub total: u64,
    /// What can be allocated.
    pub free: u64,
    /// The rest.
    pub used: u64,
}

/// nvmlMemory_v2_t. All fields but the version are in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryV2 {
    /// nvmlMemory_v2, set by the program.
    pub version: u32,
    /// All memory.
    pub total: u64,
    /// What the driver and the firmware keep.
    pub reserved: u64,
    /// What can be allocated.
    pub free: u64,
    /// What is allocated.
    pub used: u64,
}

/// A struct of NVML that tells how much memory a GPU has.
pub trait MemoryInfo {
    /// Replaces the whole GPU's `free` and `total` bytes with those of the task.
    fn show(&mut self, free: u64, total: u64);
}

impl MemoryInfo for Memory {
    fn show(&mut self, free: u64, total: u64) {
        *self = Self {
            total,
            free,
            used: total.saturating_sub(free),
        };
    }
}

impl MemoryInfo for MemoryV2 {
    fn show(&mut self, free: u64, total: u64) {
        // A newer struct may lay its fields out differently.
        if self.version != VERSION_2 {
            return;
        }
        let counted = self.free.saturating_add(self.used);
        let apart = self.total.saturating_sub(counted);
        self.used = total.saturating_sub(free).saturating_sub(apart);
        (self.total, self.free) = (total, free);
    }
}

/// The 16 bytes of `GPU-` or `MIG-` and a UUID, which the driver gives for the same device. None for
/// any other text, as that of MIG instances before driver 470, which names them by their GPU.
pub fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    const HYPHENS: [usize; 4] = [8, 13, 18, 23];
    let text = text
        .strip_prefix(b"GPU-")
        .or_else(|| text.strip_prefix(b"MIG-"))?;
    if text.len() != 36 || HYPHENS.iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let mut number = 0_u128;
    for (at, byte) in text.iter().enumerate() {
        if !HYPHENS.contains(&at) {
            number = number << 4 | u128::from(char::from(*byte).to_digit(16)?);
        }
    }
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::tests::{CHUNK, bench};

    #[test]
    fn the_structs_are_as_large_as_those_of_nvml() {
        assert_eq!((size_of::<Memory>(), size_of::<MemoryV2>()), (24, 40));
        assert_eq!(VERSION_2, 0x0200_0028);
    }

    #[test]
    fn the_first_form_counts_all_that_is_not_free() {
        let mut memory = Memory {
            total: 100,
            free: 70,
            used: 30,
        };
        memory.show(15, 40);
        let expected = Memory {
            total: 40,
            free: 15,
            used: 25,
        };
        assert_eq!(memory, expected);
    }

    #[test]
    fn the_reserve_stays_where_the_driver_counts_it() {
        let shown = |used| {
            let mut memory = MemoryV2 {
                version: VERSION_2,
                total: 100,
                reserved: 10,
                free: 70,
                used,
            };
            memory.show(15, 40);
            assert_eq!((memory.total, memory.free, memory.reserved), (40, 15, 10));
            memory.used
        };
        assert_eq!(shown(20), 15, "beside the used bytes");
        assert_eq!(shown(30), 25, "among the used bytes");
    }

    #[test]
    fn a_reserve_beyond_what_is_used_leaves_nothing_used() {
        let mut memory = MemoryV2 {
            version: VERSION_2,
            total: 100,
            reserved: 10,
            free: 70,
            used: 20,
        };
        memory.show(38, 40);
        assert_eq!((memory.total, memory.free, memory.used), (40, 38, 0));
    }

    #[test]
    fn a_struct_of_another_version_stays_the_drivers() {
        let driver = MemoryV2 {
            version: VERSION_2 + (1 << 24),
            total: 100,
            reserved: 10,
            free: 70,
            used: 20,
        };
        let mut memory = driver;
        memory.show(15, 40);
        assert_eq!(memory, driver);
    }

    #[test]
    fn a_uuid_is_read_in_either_spelling_of_its_digits() {
        let expected = 0x00fe_dcba_9876_5432_10ab_cdef_0123_4567_u128.to_be_bytes();
        for text in [
            "GPU-00fedcba-9876-5432-10ab-cdef01234567",
            "MIG-00FEDCBA-9876-5432-10AB-CDEF01234567",
        ] {
            assert_eq!(parse_uuid(text.as_bytes()), Some(expected), "{text}");
        }
        for wrong in [
            "",
            "GPU-",
            "00fedcba-9876-5432-10ab-cdef01234567",
            "GPU-00fedcba-9876-5432-10ab-cdef0123456",
            "GPU-00fedcba-9876-5432-10ab-cdef012345678",
            "GPU-00fedcba+9876-5432-10ab-cdef01234567",
            "GPU-00fedcba-9876-5432-10ab-cdef0123456g",
            "GPU-+0fedcba-9876-5432-10ab-cdef01234567",
            "MIG-GPU-00fedcba-9876-5432-10ab-cdef01234567/1/0",
        ] {
            assert_eq!(parse_uuid(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn memory_is_asked_for_by_the_uuid_of_a_managed_gpu() {
        let bench = bench("nvml-uuid", |_| ());
        bench.alloc(CHUNK);
        let device = &bench.agent.devices[0];
        let (free, total) = device.memory_info();
        assert!(free > 0 && free < total, "{free} of {total}");
        let found = bench.agent.memory_info_of(device.uuid);
        assert_eq!(found, Some((free, total)));
        assert_eq!(bench.agent.memory_info_of([0xff; 16]), None);
    }
}
