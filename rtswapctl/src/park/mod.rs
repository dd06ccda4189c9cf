//! `rtswapctl park` and `resume`: tasks leave the GPU until they are let back.

mod departure;

use std::path::Path;
use std::time::{Duration, Instant};

use rtswap_dbus::objects::{self, Objects};
use rtswap_dbus::{Error, Manager1Proxy};
use rtswapctl::cli::ParkOptions;
use zbus::{Connection, OwnedObjectPath};

use self::departure::Departure;
use crate::daemon::{converse, gpu_at};
use crate::failure::Failure;
use crate::lookup::{is_called, the_only};
use crate::output;

/// How long memory may take to leave.
const BOUND: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// What a command asks of each of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Park,
    Resume,
}

/// The tasks that a command is about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Chosen {
    /// The path and name of each.
    tasks: Vec<(OwnedObjectPath, String)>,
    /// How many tasks of others are left as they are.
    skipped: usize,
}

/// Returns when the memory of the tasks has left the GPU, and says how much.
pub(crate) fn park(runtime_dir: Option<&Path>, options: &ParkOptions) -> Result<(), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let chosen = tell(&connection, options, Wish::Park).await?;
        let departures = departures(&connection, &chosen).await?;
        let lines: String = departures
            .iter()
            .zip(&chosen.tasks)
            .map(|(departure, (_, name))| departure.line(name))
            .collect();
        output::text(&(lines + &skipped_line(chosen.skipped)))?;
        if departures.iter().any(Departure::is_pending) {
            return Err(Failure::No);
        }
        Ok(())
    })
}

/// Returns when the tasks may come back: that is with their next jobs. Says nothing of them.
pub(crate) fn resume(runtime_dir: Option<&Path>, options: &ParkOptions) -> Result<(), Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let chosen = tell(&connection, options, Wish::Resume).await?;
        output::text(&skipped_line(chosen.skipped))
    })
}

/// Has the daemon park or resume the tasks of the options.
async fn tell(
    connection: &Connection,
    options: &ParkOptions,
    wish: Wish,
) -> Result<Chosen, Failure> {
    let objects = objects::list(connection).await?;
    let mut chosen = choose(&objects, options, wish)?;
    let manager = Manager1Proxy::new(connection).await.map_err(Error::from)?;
    let mut told = Vec::new();
    for (path, name) in chosen.tasks {
        let done = match wish {
            Wish::Park => manager.park(&path).await,
            Wish::Resume => manager.resume(&path).await,
        };
        match done {
            Ok(()) => told.push((path, name)),
            // A caller may see more tasks than it may change.
            Err(Error::AccessDenied(_)) if options.all => chosen.skipped += 1,
            // It has ended since.
            Err(Error::NoSuchTask(_)) if options.all => {}
            // Its registration has ended, and not its processes.
            Err(error @ Error::InvalidArgument(_)) if options.all => {
                output::note(&format!("{name} is not parked: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    chosen.tasks = told;
    Ok(chosen)
}

/// The tasks that the options mean. Nothing is chosen where one of several names is wrong.
fn choose(objects: &Objects, options: &ParkOptions, wish: Wish) -> Result<Chosen, Failure> {
    let wanted = options.gpu.as_deref();
    let mut chosen = Chosen::default();
    if !options.all {
        let method = match wish {
            Wish::Park => "Park",
            Wish::Resume => "Resume",
        };
        for name in &options.names {
            let (path, _) = the_only(objects, name, wanted, method)?;
            let task = (path.clone(), name.clone());
            if !chosen.tasks.contains(&task) {
                chosen.tasks.push(task);
            }
        }
        return Ok(chosen);
    }
    if let Some(wanted) = wanted
        && !objects.gpus.iter().any(|(_, gpu)| is_called(gpu, wanted))
    {
        return Err(Failure::NoSuchGpu(wanted.to_owned()));
    }
    let is_there = |path| {
        wanted.is_none_or(|wanted| gpu_at(objects, path).is_some_and(|gpu| is_called(gpu, wanted)))
    };
    for (path, task) in &objects.tasks {
        if is_there(&task.gpu) && (wish == Wish::Park || task.parked) {
            chosen.tasks.push((path.clone(), task.name.clone()));
        }
    }
    // Whether others' tasks are parked, the caller does not see.
    if wish == Wish::Park {
        let others = objects.others.iter();
        chosen.skipped = others.filter(|(_, task)| is_there(&task.gpu)).count();
    }
    Ok(chosen)
}

/// How far the tasks have left, once all have or time is up.
async fn departures(connection: &Connection, chosen: &Chosen) -> Result<Vec<Departure>, Failure> {
    let until = Instant::now() + BOUND;
    loop {
        let objects = objects::list(connection).await?;
        let departure = |(path, _): &(OwnedObjectPath, String)| {
            let task = objects.tasks.iter().find(|(at, _)| at == path);
            Departure::of(task.map(|(_, task)| task))
        };
        let all: Vec<_> = chosen.tasks.iter().map(departure).collect();
        if Instant::now() > until || !all.iter().any(Departure::is_pending) {
            return Ok(all);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn skipped_line(skipped: usize) -> String {
    match skipped {
        0 => String::new(),
        1 => "1 task of others is left as it is; root may change it\n".to_owned(),
        _ => format!("{skipped} tasks of others are left as they are; root may change them\n"),
    }
}

#[cfg(test)]
mod tests {
    use rtswap_dbus::objects::OtherTask;
    use rtswap_dbus::{GpuProperties, TaskProperties};

    use super::*;

    /// Two tasks on GPU 0, the second parked; one on GPU 1; another user's on each.
    fn objects() -> Objects {
        let task = |id: u64, gpu, parked| {
            let task = TaskProperties {
                name: format!("t{id}"),
                gpu: rtswap_dbus::gpu_path(gpu),
                parked,
                ..TaskProperties::default()
            };
            (rtswap_dbus::task_path(id), task)
        };
        let other = |id, gpu| {
            let task = OtherTask {
                gpu: rtswap_dbus::gpu_path(gpu),
                ..OtherTask::default()
            };
            (rtswap_dbus::task_path(id), task)
        };
        let gpu = |index: u32| {
            let gpu = GpuProperties {
                uuid: format!("GPU-{index}"),
                index,
                ..GpuProperties::default()
            };
            (rtswap_dbus::gpu_path(index), gpu)
        };
        Objects {
            tasks: vec![task(0, 0, false), task(1, 0, true), task(2, 1, false)],
            others: vec![other(3, 0), other(4, 1)],
            gpus: vec![gpu(0), gpu(1)],
        }
    }

    /// The names of the tasks that are chosen, and how many are skipped.
    fn chosen(wish: Wish, names: &[&str], gpu: Option<&str>) -> Result<(String, usize), String> {
        let options = ParkOptions {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            all: names.is_empty(),
            gpu: gpu.map(str::to_owned),
        };
        let chosen = choose(&objects(), &options, wish).map_err(|error| error.to_string())?;
        let names: Vec<_> = chosen.tasks.into_iter().map(|(_, name)| name).collect();
        Ok((names.join(" "), chosen.skipped))
    }

    #[test]
    fn names_mean_one_task_each_and_none_is_parked_where_one_is_wrong() {
        let park = |names| chosen(Wish::Park, names, None);
        assert_eq!(park(&["t2", "t0", "t2"]), Ok(("t2 t0".into(), 0)));
        let unknown = "no task of yours is called t9; rtswapctl tasks lists them";
        assert_eq!(park(&["t0", "t9"]), Err(unknown.into()));
        assert_eq!(
            chosen(Wish::Resume, &["t0"], Some("1")),
            Err("no task of yours is called t0; rtswapctl tasks lists them".into())
        );
    }

    #[test]
    fn all_are_the_callers_tasks_and_others_are_counted() {
        assert_eq!(chosen(Wish::Park, &[], None), Ok(("t0 t1 t2".into(), 2)));
        assert_eq!(chosen(Wish::Park, &[], Some("1")), Ok(("t2".into(), 1)));
        assert_eq!(chosen(Wish::Resume, &[], None), Ok(("t1".into(), 0)));
        assert_eq!(
            chosen(Wish::Park, &[], Some("7")),
            Err("no GPU is 7; rtswapctl status lists them".into())
        );
        assert_eq!(
            skipped_line(2),
            "2 tasks of others are left as they are; root may change them\n"
        );
    }
}
