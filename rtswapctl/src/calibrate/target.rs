//! The daemon whose promises are to rest on what is measured, and what would disturb the measurement.

use std::path::Path;

use rtswap_dbus::objects::Objects;
use rtswap_dbus::{GpuProperties, Manager1Proxy};

use crate::daemon::{converse, objects};
use crate::failure::Failure;

/// Whether there is a daemon, and it has nothing against a measurement. No daemon is an error where one `is_needed`.
pub(super) fn check(
    runtime_dir: Option<&Path>,
    uuid: &str,
    is_needed: bool,
) -> Result<bool, Failure> {
    match objects(runtime_dir) {
        Ok(objects) => judge(&objects, uuid).map(|()| true),
        Err(Failure::Connect(_)) if !is_needed => Ok(false),
        Err(Failure::Connect(cause)) => Err(Failure::Uncalibrated(cause)),
        Err(failure) => Err(failure),
    }
}

/// An error where the daemon does not manage the GPU or programs of it are on it.
fn judge(objects: &Objects, uuid: &str) -> Result<(), Failure> {
    let is_meant = |gpu: &GpuProperties| gpu.uuid == uuid;
    let Some((path, gpu)) = objects.gpus.iter().find(|(_, gpu)| is_meant(gpu)) else {
        return Err(Failure::NoSuchGpu(uuid.to_owned()));
    };
    let own = objects.tasks.iter().map(|(_, task)| task);
    let own = own.filter(|task| task.gpu == *path && !task.process_ids.is_empty());
    let mut awake: Vec<_> = own
        .filter(|task| !task.parked)
        .map(|task| task.name.clone())
        .collect();
    let others = objects.others.iter();
    let others = others.filter(|(_, task)| task.gpu == *path).count();
    if awake.is_empty() && others == 0 {
        return Ok(());
    }
    if awake.is_empty() {
        // Whether they are parked is not told.
        awake.push("a task of another user".to_owned());
    }
    Err(Failure::Inhabited {
        gpu: gpu.index,
        tasks: awake.join(", "),
    })
}

/// Has the daemon keep and use what was measured. Whether it uses it at once.
pub(super) fn store(runtime_dir: Option<&Path>, text: &str) -> Result<bool, Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        Ok(manager.set_calibration(text).await?)
    })
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::TaskProperties;

    use super::*;

    #[test]
    fn programs_on_the_gpu_are_named_unless_they_are_parked() {
        let gpu = |index: u32| {
            let gpu = GpuProperties {
                uuid: format!("GPU-{index}"),
                index,
                ..GpuProperties::default()
            };
            (rtswap_dbus::gpu_path(index), gpu)
        };
        let task = |id, name: &str, on, parked| {
            let task = TaskProperties {
                name: name.into(),
                gpu: rtswap_dbus::gpu_path(on),
                process_ids: vec![7],
                parked,
                ..TaskProperties::default()
            };
            (rtswap_dbus::task_path(id), task)
        };
        let objects = Objects {
            gpus: vec![gpu(0), gpu(1)],
            tasks: vec![task(1, "a", 0, false), task(2, "b", 1, true)],
            others: Vec::new(),
        };
        let judged = |uuid| judge(&objects, uuid).map_err(|failure| failure.to_string());
        assert_eq!(judged("GPU-1"), Ok(()));
        assert_eq!(
            judged("GPU-0").unwrap_err(),
            "a is on GPU 0, and what it copies would be measured too: park it first, as by rtswapctl park --all"
        );
        assert!(judged("GPU-9").unwrap_err().contains("no GPU is GPU-9"));
    }
}
