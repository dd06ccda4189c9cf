//! Which requests for physical memory are served with memory that swaps.

use super::Result;
use crate::agent::Agent;
use crate::cuda::{AllocationProp, Location};
use crate::device::Device;
use crate::log::say;

/// What is there once a module of the kernel is loaded that pins GPU memory for other devices by its
/// address alone, as `ibv_reg_mr` and GDRCopy do: no call of the driver tells of it, so the agent could
/// not keep the memory in place in time. Without such a module memory for RDMA
/// (`gpuDirectRDMACapable`) swaps like any other.
const PINS_BY_ADDRESS: [&str; 4] = [
    "/sys/module/nvidia_peermem",
    "/sys/kernel/mm/memory_peers/nv_mem",
    "/sys/kernel/mm/memory_peers/nv_mem_nc",
    "/sys/module/gdrdrv",
];

/// Whether such memory can be made of pieces: pinned, without compression or a special use, and
/// exportable in no way but those that one allocation can take over later.
pub(super) fn swaps(bytes: u64, prop: &AllocationProp, flags: u64, granularity: u64) -> bool {
    prop.kind == AllocationProp::PINNED
        && prop.location.kind == Location::DEVICE
        && prop.handle_types & !AllocationProp::SHAREABLE == 0
        && (prop.flags == [0; 8] || prop.flags == AllocationProp::RDMA && !is_registered_silently())
        && flags == 0
        && bytes > 0
        && bytes.is_multiple_of(granularity)
}

/// Whether memory of the right kind may be registered for RDMA without a call of the driver.
fn is_registered_silently() -> bool {
    static FOUND: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let found = PINS_BY_ADDRESS
            .iter()
            .find(|path| std::path::Path::new(path).exists());
        if let Some(path) = found {
            say(format_args!(
                "{path} is there: memory that is created for RDMA stays on the GPU"
            ));
        }
        found.is_some()
    });
    *FOUND
}

impl Agent {
    /// Asks the driver once, by the smallest real request, whether it has memory of such a kind at all.
    /// Frameworks fall back on its refusal (without a fabric: 800 or 801), so they must get that one.
    pub(super) fn try_request(&self, device: &Device, prop: &AllocationProp) -> Result<()> {
        let kind = (device.ordinal, prop.handle_types, prop.flags);
        if prop.is_private() || self.book().has_kind(&kind) {
            return Ok(());
        }
        let least = device.memory().granularity();
        self.under_pressure(device, || Ok(device.reserve(least)?))?;
        let tried = device.insist(|| Ok(self.driver.create_as(prop, least)?));
        let tried = tried.and_then(|handle| self.driver.release(handle));
        device.memory().discount_outside(least);
        tried?;
        self.book().add_kind(kind);
        Ok(())
    }
}
