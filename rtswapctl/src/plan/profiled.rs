//! A task set of profiles: `NAME:PERIOD[:DEADLINE]`, on this machine's GPU where the daemon answers.

use std::path::Path;

use rtswap_dbus::objects::Objects;
use rtswap_policy::cost::{DirectionCost, SwapCost};
use rtswap_policy::task::Timing;
use rtswap_policy::units::{Bytes, Nanos, Ppm};
use rtswap_taskset::profile::Profile;
use rtswap_taskset::{Gpu, MAX_PERIOD, RealtimeTask, TaskSet};
use zbus::OwnedObjectPath;

use crate::daemon::{best_effort_reserve, objects};
use crate::failure::Failure;
use crate::profile::store;
use crate::table::bytes;

/// The class, as the daemon writes it.
const REALTIME: &str = "realtime";
/// Without a daemon: the GPU of the built-in swap costs.
const BUILT_IN: Bytes = Bytes(24 << 30);
/// What a best-effort job may take to leave beyond a chunk, as the daemon has it built in.
const KERNELS: Nanos = Nanos(10_000_000);
/// From a decision to its effect, as the daemon has it built in.
const DISPATCH_LATENCY: Nanos = Nanos(200_000);

/// A task as it is typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    name: String,
    period: Nanos,
    deadline: Nanos,
    /// For the next command.
    periods: String,
}

#[cfg(test)]
impl Typed {
    /// Period and deadline.
    pub(super) fn span(&self) -> (Nanos, Nanos) {
        (self.period, self.deadline)
    }
}

/// A set with where it is to run and what to type next.
pub(super) struct Profiled {
    pub(super) set: TaskSet,
    /// In a sentence.
    pub(super) place: String,
    /// By task.
    pub(super) commands: Vec<String>,
}

/// What is typed, if it can be no file.
pub(super) fn typed(text: &str) -> Option<Result<Typed, Failure>> {
    let (name, spans) = text.split_once(':')?;
    if name.is_empty() || Path::new(text).exists() {
        return None;
    }
    Some(parse(name, spans).map_err(|why| Failure::Typed {
        text: text.to_owned(),
        why,
    }))
}

fn parse(name: &str, spans: &str) -> Result<Typed, String> {
    let span = |text: &str| {
        let span = crate::cli::time(text)?;
        let nanos = u64::try_from(span.as_nanos()).map_or(Nanos::MAX, Nanos);
        if nanos == Nanos::ZERO || nanos > MAX_PERIOD {
            return Err(format!("{text} is not above 0 and at most 1000 days"));
        }
        Ok(nanos)
    };
    if !crate::run::is_task_name(name) {
        return Err(format!(
            "{name:?} cannot name a task (1 to 63 of A-Z a-z 0-9 . _ -)"
        ));
    }
    let (period, deadline) = spans
        .split_once(':')
        .map_or((spans, None), |(period, deadline)| (period, Some(deadline)));
    let periods = match deadline {
        Some(deadline) => format!("--period {period} --deadline {deadline}"),
        None => format!("--period {period}"),
    };
    let period = span(period)?;
    let deadline = deadline.map_or(Ok(period), span)?;
    if deadline > period {
        return Err("the deadline is after the end of the period; give a shorter one".into());
    }
    Ok(Typed {
        name: name.to_owned(),
        period,
        deadline,
        periods,
    })
}

/// The set of these tasks.
pub(super) fn gather(runtime_dir: Option<&Path>, tasks: Vec<Typed>) -> Result<Profiled, Failure> {
    let (mut profiles, mut members, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    for task in tasks {
        if members.iter().any(|it: &RealtimeTask| it.name == task.name) {
            return Err(Failure::Typed {
                text: task.name,
                why: "it is there twice; name each task once".into(),
            });
        }
        let profile = store::find(&task.name)?;
        let profile = profile.ok_or_else(|| Failure::NoProfile(task.name.clone()))?;
        commands.push(format!(
            "rtswapctl run --name {} {} -- {}",
            task.name,
            task.periods,
            profile.command().unwrap_or("PROGRAM")
        ));
        members.push(member(&task, &profile)?);
        profiles.push(profile);
    }
    let (gpu, swap_cost, place) = platform(runtime_dir, &profiles)?;
    Ok(Profiled {
        set: TaskSet {
            gpu,
            swap_cost,
            tasks: members,
            graphs: Vec::new(),
        },
        place,
        commands,
    })
}

fn member(task: &Typed, profile: &Profile) -> Result<RealtimeTask, Failure> {
    if profile.wcet > task.deadline {
        return Err(Failure::Typed {
            text: task.name.clone(),
            why: format!(
                "C, {} as measured, is longer than the deadline, {}; give a longer one",
                profile.wcet, task.deadline
            ),
        });
    }
    Ok(RealtimeTask {
        name: task.name.clone(),
        timing: Timing {
            period: task.period,
            deadline: task.deadline,
            wcet: profile.wcet,
        },
        memory: profile.memory,
    })
}

/// The GPU of the first profile where the daemon has it, else the daemon's first; built in where there is no daemon.
fn platform(
    runtime_dir: Option<&Path>,
    profiles: &[Profile],
) -> Result<(Gpu, SwapCost, String), Failure> {
    let objects = match objects(runtime_dir) {
        Ok(objects) => objects,
        Err(Failure::Connect(_)) => Objects::default(),
        Err(failure) => return Err(failure),
    };
    let gpus = &objects.gpus;
    let wanted = profiles.first().map(|profile| profile.gpu.as_str());
    let meant = gpus.iter().find(|(_, gpu)| Some(&*gpu.uuid) == wanted);
    let Some((path, gpu)) = meant.or(gpus.first()) else {
        let built_in = Gpu {
            capacity: BUILT_IN,
            chunk: None,
            host_memory: None,
            duplex: Ppm::ONE,
            drain: Nanos::ZERO,
            dispatch_latency: Nanos::ZERO,
        };
        let place = "No rtswapd with a GPU answers: planned for 24 GiB and the swap costs of an RTX 3090, built in.";
        return Ok((built_in, SwapCost::PAPER, place.into()));
    };
    // A whole chunk each time, whatever it is made of.
    let direction = |base: u64, chunk: u64| DirectionCost {
        base: Nanos(base.saturating_mul(1_000)),
        per_chunk: Nanos(chunk.saturating_mul(1_000)),
        bytes_per_second: u64::MAX,
    };
    let swap_cost = SwapCost {
        out: direction(gpu.swap_out_base_usec, gpu.chunk_out_usec),
        in_: direction(gpu.swap_in_base_usec, gpu.chunk_in_usec),
    };
    let longest = |cost: DirectionCost| cost.base + cost.per_chunk;
    let slower = longest(swap_cost.out).max(longest(swap_cost.in_));
    let mut place = format!(
        "Planned for GPU {} ({}) as rtswapd has it, with {} swap costs.",
        gpu.index, gpu.uuid, gpu.swap_cost_source
    );
    if gpu.unmanaged_bytes > 0 {
        let held = bytes(gpu.unmanaged_bytes);
        place.extend([" Programs without rtswap hold ", &held, " of it now."]);
    }
    let is_planned = |name: &str| profiles.iter().any(|profile| profile.name == name);
    let others = uncounted(&objects, path, is_planned);
    if !others.is_empty() {
        let others = others.join(", ");
        place.extend([
            " Realtime tasks that are on it now do not count here, but do for run: ",
            &others,
            ".",
        ]);
    }
    let elsewhere = profiles.iter().filter(|profile| profile.gpu != gpu.uuid);
    for Profile { name, gpu, .. } in elsewhere {
        place.extend([
            " ",
            name,
            " was measured on ",
            gpu,
            ": its C may be another here.",
        ]);
    }
    // What the daemon promises is no more.
    let reserve = best_effort_reserve(runtime_dir, &gpu.uuid)?;
    let gpu = Gpu {
        capacity: Bytes(gpu.capacity_bytes.saturating_sub(reserve)),
        chunk: Some(Bytes(gpu.chunk_bytes)),
        host_memory: None,
        duplex: Ppm::ONE,
        drain: slower + KERNELS,
        dispatch_latency: DISPATCH_LATENCY,
    };
    Ok((gpu, swap_cost, place))
}

/// The realtime tasks that the GPU has beside those that are planned.
fn uncounted(
    objects: &Objects,
    gpu: &OwnedObjectPath,
    is_planned: impl Fn(&str) -> bool,
) -> Vec<String> {
    let own = objects.tasks.iter().map(|(_, task)| task);
    let own = own.filter(|task| task.class == REALTIME && task.gpu == *gpu);
    let mut names: Vec<_> = own
        .filter(|task| !is_planned(&task.name))
        .map(|task| task.name.clone())
        .collect();
    let others = objects.others.iter().map(|(_, task)| task);
    let others = others.filter(|task| task.class == REALTIME && task.gpu == *gpu);
    match others.count() {
        0 => {}
        1 => names.push("one of another user".into()),
        many => names.push(format!("{many} of other users")),
    }
    names
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::TaskProperties;
    use rtswap_dbus::objects::OtherTask;

    use super::*;

    #[test]
    fn other_realtime_tasks_of_the_gpu_are_named() {
        let (here, there) = (rtswap_dbus::gpu_path(0), rtswap_dbus::gpu_path(1));
        let task = |id, name: &str, class: &str, gpu: &OwnedObjectPath| {
            let task = TaskProperties {
                name: name.into(),
                class: class.into(),
                gpu: gpu.clone(),
                ..TaskProperties::default()
            };
            (rtswap_dbus::task_path(id), task)
        };
        let other = |id| {
            let task = OtherTask {
                class: REALTIME.into(),
                gpu: here.clone(),
                user_id: 7,
            };
            (rtswap_dbus::task_path(id), task)
        };
        let mut objects = Objects {
            tasks: vec![
                task(1, "yolo", REALTIME, &here),
                task(2, "lidar", REALTIME, &here),
                task(3, "train", "best-effort", &here),
                task(4, "far", REALTIME, &there),
            ],
            ..Objects::default()
        };
        let named = |objects: &Objects| uncounted(objects, &here, |name| name == "yolo");
        assert_eq!(named(&objects), ["lidar"]);
        objects.others.push(other(5));
        assert_eq!(named(&objects), ["lidar", "one of another user"]);
        objects.others.push(other(6));
        assert_eq!(named(&objects), ["lidar", "2 of other users"]);
    }

    #[test]
    fn tasks_are_typed_with_their_periods() {
        let typed = |text| typed(text).map(|typed| typed.map_err(|failure| failure.to_string()));
        let yolo = typed("yolo:33ms:20ms").unwrap().unwrap();
        assert_eq!(
            (yolo.period, yolo.deadline),
            (Nanos(33_000_000), Nanos(20_000_000))
        );
        assert_eq!(yolo.periods, "--period 33ms --deadline 20ms");
        assert_eq!(typed("set.toml"), None);
        assert_eq!(typed("-"), None);
        for (text, said) in [
            ("yolo:33", "a time needs a unit"),
            ("yolo:0ms", "is not above 0"),
            ("yolo:33ms:34ms", "the deadline is after"),
            ("a b:33ms", "cannot name a task"),
        ] {
            let error = typed(text).unwrap().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
