//! `rtswapctl unregister`: the registration of a task ends.

use std::path::Path;

use rtswap_dbus::objects::{self, Objects};
use rtswap_dbus::{Manager1Proxy, TaskProperties};
use zbus::OwnedObjectPath;

use crate::cli::UnregisterOptions;
use crate::daemon::{converse, index_of};
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
    let index = |task: &TaskProperties| index_of(objects, &task.gpu);
    let is_meant = |task: &TaskProperties| {
        let gpu = options.gpu.as_ref();
        task.name == options.name
            && gpu.is_none_or(|gpu| {
                *gpu == task.gpu || index(task).is_some_and(|index| *gpu == index.to_string())
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
        let gpu = index(task).map_or_else(String::new, |index| format!(" on GPU {index}"));
        format!("{} of user {}{gpu}", path.as_str(), task.user_id)
    });
    Err(Failure::Ambiguous {
        name: options.name.clone(),
        tasks: all.collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(tasks: &[(&str, u32, &str)]) -> Objects {
        let task = |(id, (name, uid, gpu)): (usize, &(&str, u32, &str))| {
            let task = TaskProperties {
                name: (*name).into(),
                user_id: *uid,
                gpu: (*gpu).into(),
                ..TaskProperties::default()
            };
            (rtswap_dbus::task_path(id as u64), task)
        };
        Objects {
            gpus: Vec::new(),
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
        let objects = objects(&[("a", 1, "GPU-1"), ("b", 1, "GPU-1"), ("b", 2, "GPU-2")]);
        assert_eq!(meant(&objects, "a", None).unwrap(), "/org/rtswap/task/0");
        assert_eq!(
            meant(&objects, "b", Some("GPU-2")).unwrap(),
            "/org/rtswap/task/2"
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
