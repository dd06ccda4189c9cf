//! The daemon whose promises are to rest on what is measured, and what would disturb the measurement.

use std::path::Path;

use rtswap_dbus::objects::Objects;
use rtswap_dbus::{GpuProperties, Manager1Proxy};

use crate::daemon::{converse, objects};
use crate::failure::Failure;
use crate::trial::company;

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
    let awake = company::awake(objects, path);
    if awake.is_empty() {
        return Ok(());
    }
    Err(Failure::Inhabited {
        gpu: gpu.index,
        tasks: awake.join(", "),
    })
}

/// An error where a task came to the GPU after [`check`]: what it copied was measured too.
pub(super) fn check_again(runtime_dir: Option<&Path>, uuid: &str) -> Result<(), Failure> {
    judge_again(objects(runtime_dir), uuid)
}

fn judge_again(objects: Result<Objects, Failure>, uuid: &str) -> Result<(), Failure> {
    match objects.and_then(|objects| judge(&objects, uuid)) {
        Err(Failure::Inhabited { gpu, tasks }) => Err(Failure::Disturbed { gpu, tasks }),
        // A daemon that no longer answers tells of no task; `store` says what is wrong with it.
        _ => Ok(()),
    }
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
    use super::*;

    #[test]
    fn a_gpu_with_programs_is_not_measured_and_one_that_is_unknown_is_named() {
        let objects = company::tests::objects();
        let judged = |uuid| judge(&objects, uuid).map_err(|failure| failure.to_string());
        assert_eq!(judged("GPU-1"), Ok(()));
        assert_eq!(
            judged("GPU-0").unwrap_err(),
            "a is on GPU 0, and what it copies would be measured too: park it first, as by rtswapctl park --all"
        );
        assert!(judged("GPU-9").unwrap_err().contains("no GPU is GPU-9"));
    }

    #[test]
    fn a_task_that_came_meanwhile_makes_the_measurement_void() {
        let judged = |uuid| judge_again(Ok(company::tests::objects()), uuid);
        assert_eq!(
            judged("GPU-0").unwrap_err().to_string(),
            "what was measured is not kept, because a came to GPU 0 meanwhile; run rtswapctl calibrate again"
        );
        assert!(judged("GPU-1").is_ok());
        // A GPU or daemon that has gone is for `store` to tell.
        assert!(judged("GPU-9").is_ok());
        assert!(judge_again(Err(Failure::NoHome), "GPU-0").is_ok());
    }
}
