//! Tasks of the machine's daemon on the GPU of a trial: what they copy is measured too.

use rtswap_dbus::objects::Objects;
use zbus::OwnedObjectPath;

/// The tasks with processes on `gpu`, by their names, without those of them that are parked.
pub(crate) fn awake(objects: &Objects, gpu: &OwnedObjectPath) -> Vec<String> {
    let own = objects.tasks.iter().map(|(_, task)| task);
    let own = own.filter(|task| task.gpu == *gpu && !task.process_ids.is_empty());
    let mut names: Vec<_> = own
        .filter(|task| !task.parked)
        .map(|task| task.name.clone())
        .collect();
    // Whether those of other users are parked is not told.
    let others = objects.others.iter();
    match others.filter(|(_, task)| task.gpu == *gpu).count() {
        0 => {}
        1 => names.push("a task of another user".to_owned()),
        many => names.push(format!("{many} tasks of other users")),
    }
    names
}

#[cfg(test)]
pub(crate) mod tests {
    use rtswap_dbus::objects::OtherTask;
    use rtswap_dbus::{GpuProperties, TaskProperties};

    use super::*;

    /// Two GPUs: the task a on the first, and on the second b, which is parked.
    pub(crate) fn objects() -> Objects {
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
        Objects {
            gpus: vec![gpu(0), gpu(1)],
            tasks: vec![task(1, "a", 0, false), task(2, "b", 1, true)],
            others: Vec::new(),
        }
    }

    #[test]
    fn tasks_with_processes_are_named_unless_they_are_parked() {
        let mut objects = objects();
        let [here, there] = [0, 1].map(rtswap_dbus::gpu_path);
        assert_eq!(awake(&objects, &here), ["a"]);
        assert!(awake(&objects, &there).is_empty());
        let other = OtherTask {
            gpu: there.clone(),
            ..OtherTask::default()
        };
        for (id, named) in [(3, "a task of another user"), (4, "2 tasks of other users")] {
            objects
                .others
                .push((rtswap_dbus::task_path(id), other.clone()));
            assert_eq!(awake(&objects, &there), [named]);
        }
        objects.tasks[0].1.process_ids.clear();
        assert!(awake(&objects, &here).is_empty());
    }
}
