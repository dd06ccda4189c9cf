//! What people and programs read of the status.

use clap::Parser;
use rtswap_dbus::objects::{NO_LIMIT, Objects, OtherTask, Properties};
use rtswap_dbus::{GpuProperties, TaskProperties};
use zbus::{OwnedVariant, Variant};

use super::*;
use crate::cli::{Cli, Command};
use crate::color::render;

fn objects() -> Objects {
    let gpu = GpuProperties {
        uuid: "GPU-1".into(),
        index: 3,
        name: "Simulated".into(),
        has_nvml: true,
        memory_bytes: 128 << 20,
        device_used_bytes: 72 << 20,
        unmanaged_bytes: 8 << 20,
        has_utilization: true,
        device_utilization_percent: 30,
        capacity_bytes: 96 << 20,
        used_bytes: 64 << 20,
        chunk_bytes: 2 << 20,
        swap_cost_source: "configured".into(),
        calibrated_usec: 0,
        duplex_ppm: 1_000_000,
        swap_out_base_usec: 100,
        swap_in_base_usec: 110,
        chunk_out_usec: 5_200,
        chunk_in_usec: 5_600,
        running_task: rtswap_dbus::task_path(7),
        utilization: 0.456,
        blocking_usec: 1_000,
        longest_wait_usec: 15_000_000,
        notes: Vec::new(),
    };
    let task = TaskProperties {
        name: "yolo".into(),
        class: "realtime".into(),
        phase: "running".into(),
        gpu: rtswap_dbus::gpu_path(3),
        process_id: 4711,
        process_ids: vec![4711],
        resident_bytes: 40 << 20,
        jobs: 12,
        response_p99_usec: 33_000,
        ..TaskProperties::default()
    };
    Objects {
        gpus: vec![(rtswap_dbus::gpu_path(3), gpu)],
        tasks: vec![(rtswap_dbus::task_path(7), task)],
        others: Vec::new(),
    }
}

fn process(fields: Vec<(&str, OwnedVariant)>) -> Properties {
    let fields = fields.into_iter();
    fields.map(|(key, value)| (key.to_owned(), value)).collect()
}

fn text_value(text: &'static str) -> OwnedVariant {
    Variant::from(text).try_into().unwrap()
}

fn processes() -> Vec<Properties> {
    let path = Variant::from(rtswap_dbus::task_path(7)).try_into().unwrap();
    let managed = process(vec![
        ("pid", 4711_u32.into()),
        ("comm", text_value("dnn")),
        ("uid", 1000_u32.into()),
        ("gpu", 3_u32.into()),
        ("managed", true.into()),
        ("attached", true.into()),
        ("task", path),
        ("nvml_bytes", (64_u64 << 20).into()),
        ("origin", text_value("docker 3f2a1b4c5d6e")),
        ("probed_bytes", (60_u64 << 20).into()),
        ("probed_managed_bytes", 0_u64.into()),
        ("first_seen_usec", 12_345_678_u64.into()),
        ("baseline", text_value("start")),
        ("confidence", text_value("exact")),
        ("agent_bytes", (40_u64 << 20).into()),
        ("disagreement", text_value("underreport")),
    ]);
    let unmanaged = process(vec![
        ("pid", 99_u32.into()),
        ("comm", text_value("Xorg")),
        ("uid", 0_u32.into()),
        ("gpu", 3_u32.into()),
        ("managed", false.into()),
        ("attached", false.into()),
        ("nvml_bytes", (8_u64 << 20).into()),
    ]);
    vec![unmanaged, managed]
}

fn everything() -> Everything {
    Everything {
        objects: objects(),
        processes: processes(),
        probes: Probes {
            state: "on".into(),
            libraries: 1,
            lost_records: 0,
            lost_calls: 0,
        },
        left_alone: Vec::new(),
    }
}

fn status() -> Status {
    Status::new(everything())
}

/// What a file gets.
fn plain(text: &str) -> String {
    render(text, false)
}

#[test]
fn a_person_sees_who_runs_and_where_memory_is() {
    let expected = "\
GPU 3  Simulated  GPU-1
  memory    72 MiB of 128 MiB used, 8 MiB unmanaged, 30 % busy
  capacity  96 MiB, 64 MiB held, chunks of 2 MiB, planned utilization 46 %, running: yolo
  costs     a chunk takes 5.2 ms out, 5.6 ms in; by the configuration
  turns     a best-effort job waits at most 15.0 s, not counting realtime jobs

TASK  CLASS     PHASE    GPU   PID  RESIDENT  SWAPPED  VOLUME  HOST  COUNTED  JOBS  MISSES  P50    P99  MAX
yolo  realtime  running    3  4711    40 MiB        0       0     0        -    12       0    -  33 ms    -

 PID  PROCESS  FROM                  UID  GPU    NVML  PROBED   AGENT  TASK  NOTE
  99  Xorg     -                       0    3   8 MiB       -       -  -     unmanaged
4711  dnn      docker 3f2a1b4c5d6e  1000    3  64 MiB  60 MiB  40 MiB  yolo  underreport
";
    assert_eq!(plain(&status().overview(None)), expected);
}

#[test]
fn why_a_task_waits_is_said_under_its_row() {
    let mut everything = everything();
    let why = "the plan of yolo leaves 8.0 MiB, and it needs 12.0 MiB";
    let (path, task) = (rtswap_dbus::task_path(9), TaskProperties::default());
    let starved = TaskProperties {
        name: "a".into(),
        class: "best-effort".into(),
        phase: "waiting".into(),
        waits: why.into(),
        ..task.clone()
    };
    let after = TaskProperties {
        name: "b".into(),
        phase: "idle".into(),
        ..task
    };
    let tasks = &mut everything.objects.tasks;
    tasks.extend([(path, starved), (rtswap_dbus::task_path(10), after)]);
    let status = Status::new(everything);
    let text = plain(&status.overview(None));
    let tasks: Vec<_> = text.split("\n\n").nth(1).unwrap().lines().collect();
    assert_eq!(tasks.len(), 5, "{text}");
    assert!(tasks[2].starts_with("a "), "{text}");
    assert_eq!(tasks[3], format!("  waits: {why}"));
    assert!(tasks[4].starts_with("b "), "{text}");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["tasks"][0]["waits"], serde_json::Value::Null);
    assert_eq!(json["tasks"][1]["waits"], why);
}

#[test]
fn turns_of_best_effort_have_a_table_of_their_own() {
    let mut everything = everything();
    let task = TaskProperties {
        name: "train".into(),
        class: "best-effort".into(),
        gpu: rtswap_dbus::gpu_path(3),
        weight: 100,
        gpu_share_ppm: 482_000,
        swap_share_ppm: 71_000,
        longest_wait_usec: 3_249_000,
        ..TaskProperties::default()
    };
    let fresh = TaskProperties {
        name: "fresh".into(),
        class: "best-effort".into(),
        weight: 50,
        ..TaskProperties::default()
    };
    let tasks = &mut everything.objects.tasks;
    tasks.extend([
        (rtswap_dbus::task_path(9), task),
        (rtswap_dbus::task_path(10), fresh),
    ]);
    let status = Status::new(everything);
    let text = plain(&status.overview(None));
    let expected = "\
BEST-EFFORT  GPU  WEIGHT  SHARE  SWAPPING  LONGEST WAIT
train          3     100   48 %       7 %         3.2 s
fresh          -      50    0 %       0 %             -";
    assert_eq!(text.split("\n\n").nth(2), Some(expected), "{text}");
    let json = serde_json::to_value(&status).unwrap();
    let [realtime, train] = [0, 1].map(|index| &json["tasks"][index]);
    assert_eq!(realtime["gpu_share"], 0.0);
    assert_eq!(
        (&train["gpu_share"], &train["swap_share"]),
        (&0.482.into(), &0.071.into())
    );
    assert_eq!(train["longest_wait_us"], 3_249_000);
    assert_eq!(json["gpus"][0]["longest_wait_us"], 15_000_000);
}

#[test]
fn tasks_of_others_are_counted_by_user() {
    let mut everything = everything();
    let other = |uid| OtherTask {
        class: "best-effort".into(),
        gpu: rtswap_dbus::gpu_path(3),
        user_id: uid,
    };
    let others = [(8, other(7)), (9, other(1_000)), (10, other(7))];
    let others = others.map(|(id, task)| (rtswap_dbus::task_path(id), task));
    everything.objects.others = others.to_vec();
    everything.objects.gpus[0].1.running_task =
        zbus::ObjectPath::from_static_str_unchecked(rtswap_dbus::OTHER_TASK_PATH).into();
    let status = Status::new(everything);
    let text = plain(&status.overview(None));
    assert!(
        text.contains("\nother tasks: 2 of user 7, 1 of user 1000\n"),
        "{text}"
    );
    assert!(text.contains("running: another user's task\n"), "{text}");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["other_tasks"][0]["uid"], 7);
    assert_eq!(json["other_tasks"][0]["gpu"], 3);
    assert_eq!(json["tasks"].as_array().unwrap().len(), 1);
}

#[test]
fn what_rtswap_cannot_do_is_said_beside_the_gpus() {
    let mut everything = everything();
    let gpu = &mut everything.objects.gpus[0].1;
    (gpu.uuid, gpu.has_utilization) = ("MIG-1".into(), false);
    gpu.notes = vec!["it is shared".into()];
    everything.left_alone = vec!["GPU-2 (Other) is in MIG mode".into()];
    let mut status = Status::new(everything);
    let text = plain(&status.overview(None));
    let gpus = text.split("\n\n").next().unwrap();
    assert_eq!(
        gpus,
        "\
GPU 3  Simulated  MIG-1
  memory    72 MiB of 128 MiB used, 8 MiB unmanaged
  capacity  96 MiB, 64 MiB held, chunks of 2 MiB, planned utilization 46 %, running: yolo
  costs     a chunk takes 5.2 ms out, 5.6 ms in; by the configuration
  turns     a best-effort job waits at most 15.0 s, not counting realtime jobs
  note      it is shared
left alone: GPU-2 (Other) is in MIG mode"
    );
    status.gpus.clear();
    assert!(plain(&status.overview(None)).starts_with("left alone: "));
    status.left_alone.clear();
    assert!(plain(&status.overview(None)).starts_with("no GPU is known yet"));
}

#[test]
fn a_program_gets_names_and_indices() {
    let json = serde_json::to_value(status()).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["gpus"][0]["running"], "yolo");
    assert_eq!(json["gpus"][0]["unmanaged_bytes"], 8 << 20);
    assert_eq!(json["tasks"][0]["gpu"], 3);
    assert_eq!(json["tasks"][0]["response_us"]["p99"], 33_000);
    assert_eq!(json["processes"][0]["agent_bytes"], serde_json::Value::Null);
    assert_eq!(json["processes"][1]["task"], "yolo");
    assert_eq!(json["processes"][1]["probed"]["bytes"], 60 << 20);
    assert_eq!(json["processes"][1]["probed"]["confidence"], "exact");
    assert_eq!(json["processes"][0]["probed"], serde_json::Value::Null);
    assert_eq!(json["probes"]["libraries"], 1);
}

#[test]
fn how_the_probes_do_is_said_where_it_matters() {
    let text = |state: &str, lost_records, lost_calls| {
        let probes = Probes {
            state: state.into(),
            libraries: 2,
            lost_records,
            lost_calls,
        };
        probes.text()
    };
    assert_eq!(text("on", 0, 0), "");
    assert_eq!(text("off", 0, 0), "");
    assert_eq!(
        text("missing: no tracefs; mount it", 0, 0),
        "\nprobes: missing: no tracefs; mount it\n"
    );
    assert_eq!(
        text("on", 7, 0),
        "\nprobes: 7 records found no room; totals are read from the counters and exact\n"
    );
    assert_eq!(
        text("on", 0, 3),
        "\nprobes: no room for 3 calls of processes that are therefore known from NVML alone\n"
    );
}

fn typed(arguments: &[&str]) -> StatusOptions {
    let typed = ["rtswapctl", "status"].iter().chain(arguments);
    match Cli::try_parse_from(typed).unwrap().command {
        Command::Status(options) => options,
        other => panic!("{other:?}"),
    }
}

/// The status that `rtswapctl status ARGUMENTS` shows of `yolo` on GPU 3 and of three best-effort tasks without a GPU.
fn shown(arguments: &[&str]) -> Result<Status, String> {
    let mut everything = everything();
    let tasks = &mut everything.objects.tasks;
    for (id, name, resident_bytes) in [(8, "b", 10), (9, "a", 30), (10, "c", 20)] {
        let task = TaskProperties {
            name: name.into(),
            class: "best-effort".into(),
            user_id: 7,
            resident_bytes,
            backing_bytes: 4 << 20,
            ..TaskProperties::default()
        };
        tasks.push((rtswap_dbus::task_path(id), task));
    }
    let mut status = Status::new(everything);
    let selected = status.select(&typed(arguments));
    selected
        .map(|()| status)
        .map_err(|failure| failure.to_string())
}

#[test]
fn tasks_are_picked_and_sorted() {
    let names = |arguments: &[&str]| -> Vec<String> {
        let status = shown(arguments).unwrap();
        status.tasks.into_iter().map(|task| task.name).collect()
    };
    assert_eq!(names(&[]), ["yolo", "b", "a", "c"]);
    assert_eq!(names(&["--sort", "task"]), ["a", "b", "c", "yolo"]);
    assert_eq!(names(&["--sort", "resident"]), ["yolo", "a", "c", "b"]);
    assert_eq!(names(&["a", "yolo"]), ["yolo", "a"]);
    for gpu in ["3", "GPU-1"] {
        assert_eq!(names(&["--gpu", gpu]), ["yolo"]);
    }
    let processes = shown(&["yolo"]).unwrap().processes;
    assert_eq!(processes.len(), 1, "those of others are not asked for");
    for (arguments, said) in [
        (
            &["a", "d"][..],
            "no task of yours is called d; rtswapctl tasks lists them",
        ),
        (&["--gpu", "4"], "no GPU is 4; rtswapctl status lists them"),
        (
            &["--gpu", "3", "a"],
            "no task of yours is called a; rtswapctl tasks lists them",
        ),
    ] {
        assert_eq!(shown(arguments).unwrap_err(), said);
    }
}

#[test]
fn pinned_host_memory_is_summed_for_each_user() {
    let status = shown(&[]).unwrap();
    let text = plain(&status.overview(None));
    assert!(
        text.contains("\n\npinned host memory: 12 MiB of user 7\n"),
        "{text}"
    );
    let json = serde_json::to_value(&status).unwrap();
    let (users, mib) = (&json["users"], 1 << 20);
    assert_eq!(users[0]["backing_bytes"], 0);
    assert_eq!(
        (
            &users[1]["uid"],
            &users[1]["tasks"],
            &users[1]["backing_bytes"]
        ),
        (&7.into(), &3.into(), &(12 * mib).into())
    );
}

#[test]
fn a_narrow_terminal_is_not_overrun() {
    let mut everything = everything();
    let task = &mut everything.objects.tasks[0].1;
    task.waits = "the plan of detector leaves 8.0 MiB, and it needs 12.0 MiB of that".into();
    (task.violations, task.last_violation) = (3, "over-budget: it holds 3 MiB too much".into());
    let status = Status::new(everything);
    for width in [60, 80] {
        let text = plain(&status.overview(Some(width)));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{text}");
        assert!(
            text.contains("RESIDENT") && text.contains("MISSES"),
            "{text}"
        );
    }
    let text = plain(&status.overview(Some(60)));
    assert!(
        text.contains("  waits: the plan of detector leaves 8.0 MiB, and it needs\n    12.0 MiB"),
        "{text}"
    );
    assert!(
        text.contains("  3 violations, the last: over-budget: it holds 3 MiB too\n    much\n"),
        "{text}"
    );
}

#[test]
fn all_that_is_known_of_one_task_is_told_by_its_name() {
    let mut everything = everything();
    let task = &mut everything.objects.tasks[0].1;
    (task.period_usec, task.deadline_usec) = (33_000, 33_000);
    (task.footprint_bytes, task.budget_bytes) = (48 << 20, 44 << 20);
    (task.deadline_misses, task.max_lateness_usec) = (1, 2_500);
    task.swap_volume_bytes = 6 << 20;
    task.weight = 100;
    task.last_deadline_miss = "job 3, 2.5 ms late".into();
    (task.gpu_memory_limit_bytes, task.pinned_memory_limit_bytes) = (64 << 20, NO_LIMIT);
    (task.on_violation, task.leased) = ("kill".into(), true);
    let status = Status::new(everything);
    let json = serde_json::to_value(&status).unwrap();
    let limits = ["gpu_memory_limit_bytes", "pinned_memory_limit_bytes"];
    let limits = limits.map(|name| &json["tasks"][0][name]);
    assert_eq!(limits, [&(64 << 20).into(), &serde_json::Value::Null]);
    let text = plain(&status.text(&typed(&["yolo"]), None));
    let expected = "  task        yolo: realtime, running on GPU 3, of user 0
  processes   4711
  declared    period 33 ms, deadline 33 ms, footprint 48 MiB, weight 100, until its lease ends
  policy      at most 64 MiB of GPU memory, killed after a violation
  memory      40 MiB on the GPU of 44 MiB allowed, 0 swapped out of at most 6 MiB; 0 of host memory pinned
  jobs        12 in -, 1 late by at most 2.5 ms; responses p50 -, p99 33 ms, longest -
  swaps       0 out (-), 0 in (-)
  last miss   job 3, 2.5 ms late
";
    assert!(text.starts_with(expected), "{text}");
}
