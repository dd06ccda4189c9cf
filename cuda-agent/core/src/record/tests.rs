//! What is written, on a fake driver and a fake daemon.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::*;
use crate::agent::tests::{Bench, CHUNK, CONTEXT, recorded_bench};
use crate::cuda::{Status, Stream};
use crate::outside::Held;

/// Longer than any job takes.
const BOUND: Duration = Duration::from_secs(10);

/// The lines of this process.
fn lines(path: &Path) -> Vec<String> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let text = fs::read_to_string(&name).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    text.lines().map(str::to_owned).collect()
}

/// Waits for the lines of so many jobs: the daemon sees a job complete before its line is written.
fn wait_for_jobs(path: &Path, count: usize) {
    let start = Instant::now();
    let is_job = |line: &String| line.contains("\"job\"");
    while lines(path).iter().filter(|line| is_job(line)).count() < count {
        assert!(start.elapsed() < BOUND, "{:#?}", lines(path));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number behind a key.
fn number(line: &str, key: &str) -> u64 {
    let (_, rest) = line.split_once(&format!("\"{key}\":")).expect(line);
    let end = rest.find([',', '}']).expect(line);
    rest[..end].parse().expect(line)
}

fn declared(bench: &Bench, name: Option<&str>) {
    std::thread::scope(|scope| {
        let job = scope.spawn(|| {
            bench.agent.job_begin(name);
            bench.agent.job_end();
        });
        bench.grant_until(|| job.is_finished());
        job.join().unwrap();
    });
}

#[test]
fn allocations_and_jobs_are_written_line_by_line() {
    let folder = tempfile("recorded");
    let path = folder.join("lines");
    let bench = recorded_bench("recorded", &path);
    let at = bench.alloc(CHUNK + 100);
    let held = Held::Array(7);
    let made = bench
        .agent
        .hold(300, false, || Status::SUCCESS, || Some(held));
    assert_eq!(made, Status::SUCCESS);
    declared(&bench, Some("front"));
    declared(&bench, Some("no name"));
    bench.launch(|| ());
    bench.idle();
    wait_for_jobs(&path, 3);
    bench.agent.let_go(held);
    assert_eq!(bench.agent.free(at), Some(Ok(())));

    let lines = lines(&path);
    let of = |event: &str| -> Vec<&String> {
        let start = format!("{{\"event\":\"{event}\"");
        lines
            .iter()
            .filter(|line| line.starts_with(&start))
            .collect()
    };
    assert_eq!(of("start").len(), 1);
    assert_eq!(number(of("start")[0], "version"), 1);
    assert_eq!(number(of("gpu")[0], "chunk_bytes"), CHUNK);
    let changes = |event| -> Vec<(u64, bool)> {
        let of = of(event).into_iter();
        of.map(|line| (number(line, "bytes"), line.contains("\"kind\":\"arena\"")))
            .collect()
    };
    assert_eq!(
        changes("alloc"),
        [(CONTEXT, false), (CHUNK + 100, true), (300, false)]
    );
    assert_eq!(changes("free"), [(300, false), (CHUNK + 100, true)]);

    let jobs = of("job");
    assert!(
        jobs[0].contains(r#""kind":"declared","name":"front""#),
        "{}",
        jobs[0]
    );
    assert!(
        jobs[1].contains(r#""kind":"declared","requested"#),
        "{}",
        jobs[1]
    );
    assert!(
        jobs[2].contains(r#""kind":"implicit","requested"#),
        "{}",
        jobs[2]
    );
    for job in &jobs {
        let times = ["requested_ns", "granted_ns", "completed_ns"].map(|key| number(job, key));
        assert!(times[0] > 0 && times.is_sorted(), "{job}");
        assert_eq!(number(job, "arena_bytes"), 2 * CHUNK);
        assert_eq!(number(job, "unswappable_bytes"), CONTEXT + 300);
        assert!(number(job, "peak_bytes") >= number(job, "resident_bytes"));
    }
    let ends = jobs.iter().map(|job| number(job, "completed_ns"));
    assert!(ends.is_sorted());
    let file = format!("{}.{}", path.display(), std::process::id());
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_job_that_ends_keeps_its_name_while_the_next_is_declared() {
    let folder = tempfile("names");
    let path = folder.join("lines");
    let bench = recorded_bench("names", &path);
    bench.alloc(CHUNK);
    let stream = Stream(0x79);
    bench.agent.work.add_stream(stream);
    let (busy, ends) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let front = scope.spawn(|| {
            bench.agent.job_begin(Some("front"));
            drop(bench.agent.enter());
            bench.driver.set_busy(stream, true);
            busy.send(()).unwrap();
            bench.agent.job_end();
        });
        bench.grant_until(|| ends.try_recv().is_ok());
        let device = &bench.agent.devices[0];
        while device.is_declared() {
            std::thread::yield_now();
        }
        let rear = scope.spawn(|| {
            bench.agent.job_begin(Some("rear"));
            bench.agent.job_end();
        });
        while !device.is_declared() {
            std::thread::yield_now();
        }
        bench.driver.set_busy(stream, false);
        bench.grant_until(|| front.is_finished() && rear.is_finished());
    });
    wait_for_jobs(&path, 2);
    let lines = lines(&path);
    let jobs: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("\"job\""))
        .collect();
    assert_eq!(jobs.len(), 2, "{lines:#?}");
    assert!(
        jobs[0].contains("\"front\"") && jobs[1].contains("\"rear\""),
        "{jobs:#?}"
    );
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn without_a_file_the_program_goes_on() {
    let bench = recorded_bench("unrecorded", Path::new("/nonexistent/folder/file"));
    let at = bench.alloc(CHUNK);
    declared(&bench, Some("front"));
    assert_eq!(bench.agent.free(at), Some(Ok(())));
}

#[test]
fn what_takes_no_lines_is_tried_once() {
    let full = Descriptor::new(
        rustix::fs::open("/dev/full", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).unwrap(),
    );
    let recorder = Recorder {
        file: full.unwrap(),
        path: "/dev/full".into(),
        failed: AtomicBool::new(false),
        misnamed: AtomicBool::new(false),
    };
    recorder.line(format_args!("a line"));
    assert!(recorder.failed.load(Ordering::Relaxed));
    recorder.line(format_args!("another"));
}

#[test]
fn a_text_stays_within_its_quotes() {
    let hostile = "a\"b\\c\nd\u{7f}é";
    assert_eq!(Escaped(hostile).to_string(), r#"a\"b\\c\u000ad\u007fé"#);
}

fn tempfile(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("rtswap-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}
