//! How busy a GPU and who used it was within the last second or so, from the
//! time that its engines were at work. Where GPUs are divided NVML has no such figures.

use std::ffi::c_uint;
use std::time::{SystemTime, UNIX_EPOCH};

use nvml_wrapper_sys::bindings as sys;
use simgpu_core::Holder;

use super::processes::holders;
use crate::abi::{Device, Out, check_version, version_of};
use crate::status::{Result, Status};
use crate::view::{View, look};

api! {
    fn nvmlDeviceGetUtilizationRates(device: Device, rates: Out<sys::nvmlUtilization_t>) {
        look(|view| {
            let gpu = device.whole(view)?;
            let engines = view.machine().map(|machine| machine.engines_lately(gpu));
            let engines = engines.unwrap_or_default().map(simgpu_core::Lately::percent);
            let [_, _, compute] = engines;
            rates.set(sys::nvmlUtilization_t {
                gpu: compute,
                // Each engine reads or writes device memory while it works: the
                // time in which any did is at least the busiest one's.
                memory: engines.into_iter().max().unwrap_or(0),
            })
        })
    }

    fn nvmlDeviceGetProcessUtilization(
        device: Device,
        samples: Out<sys::nvmlProcessUtilizationSample_t>,
        count: Out<c_uint>,
        last_seen_us: u64,
    ) {
        look(|view| {
            count.check()?;
            let (now_us, busy) = busy(view, device, last_seen_us)?;
            let sample = |holder: &Holder| sys::nvmlProcessUtilizationSample_t {
                pid: holder.pid,
                timeStamp: now_us,
                smUtil: holder.compute.percent(),
                memUtil: holder.compute.percent(),
                encUtil: 0,
                decUtil: 0,
            };
            samples.fill(count, &busy.iter().map(sample).collect::<Vec<_>>())
        })
    }

    fn nvmlDeviceGetProcessesUtilizationInfo(
        device: Device, info: Out<sys::nvmlProcessesUtilizationInfo_v1_t>,
    ) {
        look(|view| {
            let mut given = info.get()?;
            let version = version_of::<sys::nvmlProcessesUtilizationInfo_v1_t>(1);
            check_version(given.version, version)?;
            let (now_us, busy) = busy(view, device, given.lastSeenTimeStamp)?;
            let sample = |holder: &Holder| sys::nvmlProcessUtilizationInfo_v1_t {
                timeStamp: now_us,
                pid: holder.pid,
                smUtil: holder.compute.percent(),
                memUtil: holder.compute.percent(),
                encUtil: 0,
                decUtil: 0,
                jpgUtil: 0,
                ofaUtil: 0,
            };
            let values: Vec<_> = busy.iter().map(sample).collect();
            let count = Out::from_raw(&raw mut given.processSamplesCount);
            let filled = Out::from_raw(given.procUtilArray).fill(count, &values);
            info.set(given)?;
            filled
        })
    }
}

/// Now, µs since 1970, and who used the compute engine of late: those alone are
/// in the library's samples, and none at all is an error.
///
/// A process's kernels are what is metered of its use of memory too.
fn busy(view: &View, device: Device, last_seen_us: u64) -> Result<(u64, Vec<Holder>)> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_us = since_epoch.map_or(0, |time| time.as_micros() as u64);
    let mut busy = holders(view, device)?;
    busy.retain(|holder| holder.compute.busy_ns > 0);
    if busy.is_empty() || last_seen_us >= now_us {
        return Err(Status::NotFound);
    }
    Ok((now_us, busy))
}
