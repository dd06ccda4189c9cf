use super::*;
use crate::config::{Calibration, Configured, CostSource, DirectionCost, SwapCost};
use rtswap_policy::units::Ppm;

const OTHER: Uuid = Uuid::of([2; 16]);

/// δ of 4 MiB where the file does not say it, at 1 ms a chunk.
fn calibration() -> Calibration {
    let direction = DirectionCost {
        base: Nanos(1_000),
        per_chunk: Nanos(1_000_000),
        bytes_per_second: 1 << 40,
    };
    Calibration {
        measured: 1_795_784_400,
        chunk: Bytes(4 * MIB),
        duplex: Ppm(500_000),
        swap_cost: SwapCost {
            out: direction,
            in_: direction,
        },
    }
}

fn set(shell: &mut Shell, caller: Caller, gpu: Uuid, is_kept: bool) -> Result<Reply, CallError> {
    shell.call(Call::Calibrate {
        caller,
        gpu,
        calibration: calibration(),
        is_kept,
    })
}

fn calibrate(shell: &mut Shell) -> bool {
    match set(shell, CALLER, GPU, true) {
        Ok(Reply::Calibrated(used)) => used,
        other => panic!("{other:?}"),
    }
}

fn is_told(shell: &Shell) -> bool {
    shell.outputs.contains(&Output::CalibrationUsed(GPU))
}

/// δ in status and in the Welcome of a fresh process.
fn chunks(shell: &mut Shell, connection: u64) -> [Bytes; 2] {
    let shown = shell.engine.status().gpus[0].chunk;
    let welcome = shell.greet(hello(connection, 100 + connection as u32, None));
    [shown, welcome.unwrap().blocks[0].chunk]
}

fn source(shell: &mut Shell) -> (CostSource, Option<u64>) {
    let gpu = &shell.engine.status().gpus[0];
    (gpu.cost_source, gpu.measured)
}

#[test]
fn it_counts_at_once_where_nobody_is_there() {
    let mut shell = Shell::new();
    assert_eq!(source(&mut shell), (CostSource::Assumed, None));
    shell.engine.gpus[0]
        .scheduler
        .remember("yolo@1000".into(), Time(7_000_000_000));
    assert!(calibrate(&mut shell) && is_told(&shell));
    let measured = Some(calibration().measured);
    assert_eq!(source(&mut shell), (CostSource::Calibrated, measured));
    let gpu = &shell.engine.status().gpus[0];
    assert_eq!(gpu.duplex, Ppm(500_000));
    // Every swap is charged with the other engine loaded.
    assert!(gpu.chunk_times.0 >= Nanos(2_000_000) && gpu.chunk_times.0 < Nanos(2_010_000));
    assert_eq!(chunks(&mut shell, 1), [Bytes(4 * MIB); 2]);
    let chunk = |shell: &Shell| shell.engine.gpus[0].config.chunk;
    assert_eq!(chunk(&shell), Bytes(4 * MIB));
    shell.register(realtime("yolo")).unwrap();
    let mut tasks = shell.engine.gpus[0].scheduler.state().tasks();
    let yolo = tasks.find(|task| task.name == "yolo@1000").unwrap();
    assert_eq!(
        yolo.next_release,
        Time(7_000_000_000),
        "what was remembered"
    );
}

#[test]
fn what_the_file_says_goes_before_it() {
    let mut described = gpu(GPU);
    described.configured = Configured {
        duplex: true,
        out: true,
        ..Configured::default()
    };
    let (out, duplex) = (described.swap_cost.out, described.duplex);
    let mut shell = Shell::start(config(vec![described]), Saved::default(), &[], Vec::new());
    assert!(calibrate(&mut shell));
    let gpu = shell.engine.gpus[0].effective();
    assert_eq!((gpu.duplex, gpu.swap_cost.out), (duplex, out));
    assert_eq!(gpu.swap_cost.in_, calibration().swap_cost.in_);
    assert_eq!(gpu.chunk, calibration().chunk);
    assert_eq!(source(&mut shell).0, CostSource::Configured, "in part");
}

#[test]
fn it_waits_for_the_last_task_and_the_last_session() {
    let mut shell = Shell::new();
    let id = shell.register(realtime("a")).unwrap();
    let welcome = shell.greet(hello(1, 100, Some("a"))).unwrap();
    assert!(!calibrate(&mut shell) && !is_told(&shell));
    assert_eq!(chunks(&mut shell, 2), [Bytes(2 * MIB); 2]);
    shell.handle(Input::ProcessEnded(welcome.connection));
    assert!(
        !is_told(&shell),
        "another process has a page with the old δ"
    );
    shell.handle(Input::ProcessEnded(ConnectionId(2)));
    assert!(!is_told(&shell), "its task is admitted with the old δ");
    let call = Call::Unregister {
        caller: CALLER,
        registration: id,
    };
    assert_eq!(shell.call(call), Ok(Reply::Done));
    assert!(is_told(&shell));
    assert_eq!(chunks(&mut shell, 3), [Bytes(4 * MIB); 2]);
}

#[test]
fn agents_that_outlive_the_daemon_keep_their_chunks() {
    let mut shell = Shell::new();
    let welcome = shell.greet(hello(1, 100, None)).unwrap();
    assert!(!calibrate(&mut shell));
    let stored = StoredCalibration {
        gpu: GPU,
        in_effect: None,
        next: Some(calibration()),
    };
    let mut next = shell.restart_with(&[100], vec![stored]);
    let again = next.greet(again(2, 100, &welcome, 0)).unwrap();
    assert_eq!(again.blocks[0].chunk, Bytes(2 * MIB));
    next.handle(Input::ProcessEnded(again.connection));
    assert!(is_told(&next));
    assert_eq!(chunks(&mut next, 3), [Bytes(4 * MIB); 2]);
    // Nobody lives: the daemon's restart is enough. And what counted, counts on.
    let mut alone = shell.restart_with(&[], vec![stored]);
    assert!(is_told(&alone));
    assert_eq!(chunks(&mut alone, 3), [Bytes(4 * MIB); 2]);
    let counted = StoredCalibration {
        in_effect: stored.next,
        next: None,
        ..stored
    };
    let mut beside = shell.restart_with(&[100], vec![counted]);
    assert!(!is_told(&beside));
    assert_eq!(source(&mut beside).0, CostSource::Calibrated);
}

#[test]
fn what_cannot_count_is_refused_with_what_to_do() {
    let mut shell = Shell::new();
    let stranger = Caller {
        uid: USER,
        privileged: false,
    };
    let error = set(&mut shell, stranger, OTHER, true).unwrap_err();
    assert!(
        matches!(&error, CallError::NoSuchGpu(text) if text.contains(&GPU.to_string())),
        "{error:?}"
    );
    let error = set(&mut shell, stranger, GPU, true).unwrap_err();
    assert!(matches!(error, CallError::AccessDenied(_)), "{error:?}");
    assert_eq!(
        set(&mut shell, CALLER, GPU, false),
        Ok(Reply::Calibrated(false))
    );
    assert_eq!(source(&mut shell).0, CostSource::Assumed, "only checked");
    let mut short = config(vec![gpu(GPU)]);
    short.scheduler.drain = Some(Nanos(1_900_000));
    let stored = StoredCalibration {
        gpu: GPU,
        in_effect: Some(calibration()),
        next: None,
    };
    let mut shell = Shell::start_with(short, vec![stored]);
    assert_eq!(source(&mut shell).0, CostSource::Assumed);
    let error = set(&mut shell, CALLER, GPU, true).unwrap_err();
    assert!(error.to_string().contains("drain_ms"), "{error}");
    let mut fixed = gpu(GPU);
    fixed.configured.chunk = true;
    let mut shell = Shell::start(config(vec![fixed]), Saved::default(), &[], Vec::new());
    let error = set(&mut shell, CALLER, GPU, true).unwrap_err();
    assert!(error.to_string().contains("leave gpu.chunk out"), "{error}");
}

#[test]
fn one_that_waits_and_is_refused_at_the_start_is_told_of() {
    let mut short = config(vec![gpu(GPU)]);
    short.scheduler.drain = Some(Nanos(1_900_000));
    let stored = StoredCalibration {
        gpu: GPU,
        in_effect: None,
        next: Some(calibration()),
    };
    let mut shell = Shell::start_with(short, vec![stored]);
    assert!(!is_told(&shell));
    assert_eq!(source(&mut shell).0, CostSource::Assumed);
    shell.handle(Input::Timer);
    assert_eq!(shell.engine.status().gpus[0].notes, [""; 0]);
}

#[test]
fn one_that_waits_is_a_note_of_its_gpu() {
    let mut shell = Shell::new();
    shell.greet(hello(1, 100, None)).unwrap();
    assert!(!calibrate(&mut shell));
    let notes = &shell.engine.status().gpus[0].notes;
    assert!(notes[0].starts_with("a calibration waits"), "{notes:?}");
}
