//! What clients of NVML ask it for: lists taken from the clients themselves, in `nvml/`.

use std::collections::BTreeSet;

/// A program or library that uses NVML.
#[derive(Debug)]
pub struct Client {
    /// Its name as the report has it.
    pub row: &'static str,
    /// The branch whose NVML it comes with and takes for granted.
    pub branch: Option<u32>,
    text: &'static str,
}

/// All whose names are looked at.
pub const CLIENTS: &[Client] = &[
    Client {
        row: "NVML for nvtop",
        branch: None,
        text: include_str!("../nvml/nvtop.txt"),
    },
    Client {
        row: "NVML for nvidia-smi",
        branch: Some(550),
        text: include_str!("../nvml/nvidia-smi.txt"),
    },
    Client {
        row: "NVML for nvidia-ml-py",
        branch: None,
        text: include_str!("../nvml/nvidia-ml-py.txt"),
    },
    Client {
        row: "NVML for nvml-wrapper",
        branch: None,
        text: include_str!("../nvml/nvml-wrapper.txt"),
    },
];

/// What simgpu's NVML lacks, and why.
pub const ABSENT: &[(&str, &[&str])] = &[
    (
        "tables without a documented layout: nvidia-smi refuses any NVML but its own",
        &["nvmlInternalGetExportTable"],
    ),
    (
        "newer than the driver that simgpu stands for: clients take them as not found, as with any older driver",
        NEWER,
    ),
];

/// What no driver up to [`NEWEST_KNOWN`](crate::version::NEWEST_KNOWN) has.
pub const NEWER: &[&str] = &[
    "nvmlDeviceGetAccountingStats_v2",
    "nvmlDeviceGetAdaptiveTgpModeInfo_v1",
    "nvmlDeviceGetBBXTimeData_v1",
    "nvmlDeviceGetBankRemapperStatus_v1",
    "nvmlDeviceGetGpuFabricInfo_v4",
    "nvmlDeviceGetHostname_v1",
    "nvmlDeviceGetMemoryLimits_v1",
    "nvmlDeviceGetNvLinkTelemetrySamples_v1",
    "nvmlDeviceGetRemappedRows_v2",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetVgpuSchedulerLog_v2",
    "nvmlDeviceGetVgpuSchedulerState_v2",
    "nvmlDevicePerfMetricsGetSamples_v1",
    "nvmlDeviceReadPRMCounters_v1",
    "nvmlDeviceSetAdaptiveTgpMode_v1",
    "nvmlDeviceSetHostname_v1",
    "nvmlDeviceSetMemoryLimits_v1",
    "nvmlDeviceSetNvlinkBwModeAsync_v1",
    "nvmlDeviceSetRusdSettings_v1",
    "nvmlDeviceSetVgpuSchedulerState_v2",
    "nvmlDeviceVgpuForceGspUnload",
    "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1",
    "nvmlEventSetGetContextCount_v1",
    "nvmlEventSetGetContextData_v1",
    "nvmlEventSetGetContextInfo_v1",
    "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1",
    "nvmlEventSetRegisterGpuOperationalEvents_v1",
    "nvmlEventSetWait_v3",
    "nvmlGpuInstanceGetVgpuSchedulerLog_v2",
    "nvmlGpuInstanceGetVgpuSchedulerState_v2",
    "nvmlGpuInstanceSetVgpuSchedulerState_v2",
    "nvmlSystemGetCPER_v1",
];

impl Client {
    /// The functions that it looks up.
    pub fn names(&self) -> BTreeSet<&'static str> {
        let lines = self.text.lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(str::split_whitespace).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_list_says_where_it_is_from_and_has_names_alone() {
        for client in CLIENTS {
            assert!(client.text.starts_with("# "), "{}", client.row);
            let first = client.text.lines().next().unwrap_or_default();
            let is_of = |branch| first.contains(&format!(" {branch}."));
            assert!(client.branch.is_none_or(is_of), "{first}");
            let names = client.names();
            assert!(
                names.contains("nvmlShutdown") && names.len() > 30,
                "{}",
                client.row
            );
            assert!(
                names.iter().all(|name| name.starts_with("nvml")),
                "{}",
                client.row
            );
        }
    }

    #[test]
    fn what_is_absent_is_named_once_and_used_by_a_client() {
        let mut seen = BTreeSet::new();
        for name in ABSENT.iter().flat_map(|(_, names)| *names) {
            assert!(seen.insert(*name), "{name} is named twice");
            let mut clients = CLIENTS.iter();
            assert!(
                clients.any(|client| client.names().contains(name)),
                "nobody uses {name}"
            );
        }
    }
}
