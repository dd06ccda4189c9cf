//! Tasks by the names that people type.

use rtswap_dbus::objects::Objects;
use rtswap_dbus::{GpuProperties, TaskProperties};
use zbus::OwnedObjectPath;

use crate::daemon::gpu_at;
use crate::failure::Failure;

/// A task and its path.
pub(crate) type Found<'a> = &'a (OwnedObjectPath, TaskProperties);

/// Whether `wanted` is the index or UUID of `gpu`.
pub(crate) fn is_called(gpu: &GpuProperties, wanted: &str) -> bool {
    wanted == gpu.uuid || wanted == gpu.index.to_string()
}

/// The only task with that name, on that GPU if one is given. `method` of Manager1 is what is to be done with it.
pub(crate) fn the_only<'a>(
    objects: &'a Objects,
    name: &str,
    gpu: Option<&str>,
    method: &'static str,
) -> Result<Found<'a>, Failure> {
    let is_meant = |task: &TaskProperties| {
        let is_there =
            |wanted: &str| gpu_at(objects, &task.gpu).is_some_and(|own| is_called(own, wanted));
        task.name == name && gpu.is_none_or(is_there)
    };
    let mut meant = objects.tasks.iter().filter(|(_, task)| is_meant(task));
    let Some(found) = meant.next() else {
        return Err(Failure::NoSuchTask(name.to_owned()));
    };
    if meant.next().is_none() {
        return Ok(found);
    }
    let all = objects.tasks.iter().filter(|(_, task)| is_meant(task));
    let all = all.map(|(path, task)| {
        let gpu = gpu_at(objects, &task.gpu);
        let gpu = gpu.map_or_else(String::new, |gpu| format!(" on GPU {}", gpu.index));
        format!("{} of user {}{gpu}", path.as_str(), task.user_id)
    });
    Err(Failure::Ambiguous {
        name: name.to_owned(),
        tasks: all.collect::<Vec<_>>().join(", "),
        method,
    })
}

#[cfg(test)]
mod tests {
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
        let found = the_only(objects, name, gpu, "Park");
        found
            .map(|(path, _)| path.to_string())
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn only_one_task_is_meant_or_none() {
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
                && several.contains("/org/rtswap/task/2 of user 2")
                && several.contains("Manager1 Park o PATH"),
            "{several}"
        );
        assert_eq!(
            meant(&objects, "c", None).unwrap_err(),
            "no task of yours is called c; rtswapctl tasks lists them"
        );
    }
}
