//! `rtswapctl unregister`: the registration of a task ends.

use std::path::Path;

use rtswap_dbus::objects::{self, Objects};
use rtswap_dbus::{Manager1Proxy, TaskProperties};
use zbus::OwnedObjectPath;

use crate::cli::UnregisterOptions;
use crate::daemon::{converse, gpu_at};
use crate::failure::Failure;

/// Returns when it has ended; says nothing then.
pub(crate) fn unregister(
    runtime_dir: Option<&Path>,
    options: &UnregisterOptions,
) -> Result<(), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let objects = objects::list(&connection).await?;
        let task = the_only(&objects, options)?;
        let manager = Manager1Proxy::new(&connection)
            .await
            .map_err(rtswap_dbus::Error::from)?;
        Ok(manager.unregister(&task).await?)
    })
}

/// The path of the only task with that name, on that GPU if one is given.
fn the_only(objects: &Objects, options: &UnregisterOptions) -> Result<OwnedObjectPath, Failure> {
    let is_meant = |task: &TaskProperties| {
        let gpu = options.gpu.as_ref();
        task.name == options.name
            && gpu.is_none_or(|wanted| {
                let own = gpu_at(objects, &task.gpu);
                own.is_some_and(|own| *wanted == own.uuid || *wanted == own.index.to_string())
            })
    };
    let mut meant = objects.tasks.iter().filter(|(_, task)| is_meant(task));
    let Some((path, _)) = meant.next() else {
        return Err(Failure::NoSuchTask(options.name.clone()));
    };
    if meant.next().is_none() {
        return Ok(path.clone());
    }
    let all = objects.tasks.iter().filter(|(_, task)| is_meant(task));
    let all = all.map(|(path, task)| {
        let gpu = gpu_at(objects, &task.gpu);
        let gpu = gpu.map_or_else(String::new, |gpu| format!(" on GPU {}", gpu.index));
        format!("{} of user {}{gpu}", path.as_str(), task.user_id)
    });
    Err(Failure::Ambiguous {
        name: options.name.clone(),
        tasks: all.collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::GpuProperties;

    use super::*;

    fn objects(tasks: &[(&str, u32, u32)]) -> Objects {
        let gpu = |index: u32| {
            let gpu = GpuProperties {
                uuid: format!("GPU-{index}"),
                index,
                ..GpuProperties::default()
            };
            (rtswap_dbus::gpu_path(index), gpu)
        };
        let task = |(id, (name, uid, gpu)): (usize, &(&str, u32, u32))| {
            let task = TaskProperties {
                name: (*name).into(),
                user_id: *uid,
                gpu: rtswap_dbus::gpu_path(*gpu),
                ..TaskProperties::default()
            };
            (rtswap_dbus::task_path(id as u64), task)
        };
        Objects {
            gpus: (1..3).map(gpu).collect(),
            tasks: tasks.iter().enumerate().map(task).collect(),
            others: Vec::new(),
        }
    }

    fn meant(objects: &Objects, name: &str, gpu: Option<&str>) -> Result<String, String> {
        let options = UnregisterOptions {
            name: name.into(),
            gpu: gpu.map(str::to_owned),
        };
        let path = the_only(objects, &options);
        path.map(|path| path.to_string())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn only_one_task_is_meant_or_none_ends() {
        let objects = objects(&[("a", 1, 1), ("b", 1, 1), ("b", 2, 2)]);
        assert_eq!(meant(&objects, "a", None).unwrap(), "/org/rtswap/task/0");
        assert_eq!(
            meant(&objects, "b", Some("GPU-2")).unwrap(),
            "/org/rtswap/task/2"
        );
        assert_eq!(
            meant(&objects, "b", Some("1")).unwrap(),
            "/org/rtswap/task/1"
        );
        let several = meant(&objects, "b", None).unwrap_err();
        assert!(
            several.contains("/org/rtswap/task/1 of user 1")
                && several.contains("/org/rtswap/task/2 of user 2"),
            "{several}"
        );
        assert_eq!(
            meant(&objects, "c", None).unwrap_err(),
            "no task of yours is called c; rtswapctl tasks lists them"
        );
    }
}
