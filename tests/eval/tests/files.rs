//! What `eval` writes: the same bytes every time, with the published numbers beside ours.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const FIGURES: [&str; 8] = [
    "fig4", "fig5", "fig6", "fig7a", "fig7b", "fig7c", "table2", "table4",
];

fn eval(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_eval"))
        .args(arguments)
        .arg("--out")
        .arg(out)
        // No fonts and no configuration of any: the pictures need none.
        .env_clear()
        .output()
        .unwrap()
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

fn json(folder: &Path, figure: &str) -> Value {
    let text = fs::read_to_string(folder.join(format!("{figure}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Published and ours of the comparison whose description begins so.
fn compared(report: &Value, what: &str) -> (f64, f64) {
    let all = report["comparisons"].as_array().unwrap();
    let found = all
        .iter()
        .find(|c| c["what"].as_str().unwrap().starts_with(what));
    let found = found.unwrap_or_else(|| panic!("nothing about {what}"));
    let published = found["published"].as_f64().unwrap();
    let ours = found["ours"].as_f64().unwrap();
    if published != 0.0 {
        let ratio = found["ratio"].as_f64().unwrap();
        assert!((ratio - ours / published).abs() < 1e-9, "{found}");
    }
    assert!(found["source"].as_str().unwrap().len() > 4, "{found}");
    (published, ours)
}

/// What docs/evaluation.md says.
fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/evaluation.md");
    fs::read_to_string(path).unwrap()
}

/// docs/evaluation.md shows the comparisons as they are printed.
fn document_has(printed: &str) {
    let document = document();
    let mut compared = 0;
    let mut lines = printed.lines();
    while lines.any(|line| line.contains("published beside ours")) {
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            assert!(document.contains(line), "docs/evaluation.md lacks: {line}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn everything_is_written_with_the_published_numbers_and_twice_the_same() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let printed = folders.each_ref().map(|folder| {
        let output = eval(&["all"], folder.path());
        assert!(output.status.success(), "{output:?}");
        output.stdout
    });
    assert_eq!(printed[0], printed[1]);
    document_has(&String::from_utf8_lossy(&printed[0]));
    let [first, second] = folders.each_ref().map(|folder| files(folder.path()));
    assert_eq!(first, second);
    assert_eq!(first.len(), 2 * FIGURES.len());
    let folder = folders[0].path();
    for figure in FIGURES {
        let report = json(folder, figure);
        assert_eq!(report["version"], 1);
        assert_eq!(report["figure"], figure);
        assert_eq!(report["modelled"], true);
        let svg = String::from_utf8(first[&format!("{figure}.svg")].clone()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("<text"), "{figure} has no text");
        for value in report["comparisons"].as_array().unwrap() {
            assert!(value["ours"].is_number(), "{figure}: {value}");
        }
    }
    // The paper's numbers as its text has them, and ours not far from where they should be.
    for (figure, what, published, least, most) in [
        ("fig4", "RT-Swap out, chunk 2 MB", 35.3, 35.0, 35.6),
        ("fig4", "RT-Swap out, chunk 64 MB", 26.2, 26.0, 26.4),
        ("fig4", "RT-Swap out, chunk 256 MB", 41.6, 41.3, 41.9),
        ("fig4", "Pageable out", 192.6, 192.0, 193.0),
        ("fig7a", "sets of RT-Swap over those of MIN", 1.72, 1.2, 1.5),
        (
            "fig7a",
            "sets of RT-Swap over those of MO-VMM",
            2.39,
            2.5,
            3.5,
        ),
        (
            "fig7a",
            "sets of RT-Swap over those of Pageable",
            3.21,
            3.0,
            3.8,
        ),
        (
            "fig7a",
            "sets of RT-Swap over those of Base",
            4.83,
            5.0,
            6.5,
        ),
        ("fig7a", "mean overflow, 13 tasks", 25.9, 24.5, 27.5),
        ("fig7b", "mean reduction that RT-Swap", 36.5, 43.0, 48.0),
        ("fig7b", "mean reduction that the others", 5.2, 6.0, 14.0),
        (
            "fig7c",
            "mean share of tasks in high resolution, RT-Swap",
            70.5,
            70.0,
            78.0,
        ),
        (
            "fig7c",
            "mean share of tasks in high resolution, the others",
            29.4,
            25.0,
            34.0,
        ),
        ("table2", "DenseNet 416, an allocation", 4.0, 3.6, 4.4),
        ("table4", "swap volume of tau1", 0.0, 0.0, 0.0),
        ("table4", "swap volume of tau3", 576.0, 576.0, 576.0),
        (
            "table4",
            "longest latency of tau3, RT-Swap",
            184.0,
            150.0,
            190.0,
        ),
    ] {
        let (paper, ours) = compared(&json(folder, figure), what);
        assert!(
            (paper - published).abs() < 1e-9,
            "{figure}, {what}: {paper}"
        );
        assert!((least..=most).contains(&ours), "{figure}, {what}: {ours}");
    }
}

#[test]
fn the_document_has_what_policies_for_best_effort_make() {
    let folder = tempfile::tempdir().unwrap();
    let output = eval(&["besteffort"], folder.path());
    assert!(output.status.success(), "{output:?}");
    let (document, printed) = (document(), String::from_utf8(output.stdout).unwrap());
    for table in ["24 GiB: programs", "where another policy"] {
        let lines = printed.lines().skip_while(|line| !line.starts_with(table));
        let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        assert!(lines.len() > 1, "{printed}");
        for line in lines {
            assert!(document.contains(line), "docs/evaluation.md lacks: {line}");
        }
    }
    let report = json(folder.path(), "besteffort");
    assert_eq!(report["tables"].as_array().unwrap().len(), 4);
    let svg = fs::read_to_string(folder.path().join("besteffort.svg")).unwrap();
    // A bar for each policy on each mix, those without users not in the lower picture.
    assert!(svg.matches("<rect").count() > 6 * (7 + 5), "{svg}");
}

#[test]
fn a_better_test_enables_more() {
    let folder = tempfile::tempdir().unwrap();
    let enabled = ["theorem1", "demand", "pipelined"].map(|test| {
        let output = eval(&["fig7c", "--test", test], folder.path());
        assert!(output.status.success(), "{output:?}");
        let report = json(folder.path(), "fig7c");
        assert_eq!(report["test"], test);
        compared(&report, "mean share of tasks in high resolution, RT-Swap").1
    });
    assert!(
        enabled.is_sorted() && enabled[0] < enabled[2],
        "{enabled:?}"
    );
}

#[test]
fn json_on_the_terminal_is_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = eval(&["fig6", "--json"], folder.path());
    assert!(output.status.success());
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["version"], 1);
    assert_eq!(printed["reports"][0], json(folder.path(), "fig6"));
}

#[test]
fn what_does_not_exist_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["fig8"][..], &[], &["fig4", "--test", "theorem2"]] {
        let output = eval(arguments, folder.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let output = eval(&["fig4"], &file);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot make"));
}

#[test]
fn errors_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let eval = |out: &Path, stdout: fs::File| {
        Command::new(env!("CARGO_BIN_EXE_eval"))
            .env("RUST_BACKTRACE", "1")
            .args(["fig4", "--out"])
            .arg(out)
            .stdout(stdout)
            .output()
            .unwrap()
    };
    let sink = |path| fs::File::options().write(true).open(path).unwrap();
    let in_the_way = eval(&file, sink("/dev/null"));
    let full = eval(folder.path(), sink("/dev/full"));
    for (output, begin) in [(in_the_way, "eval: cannot make "), (full, "eval: ")] {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(begin), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
