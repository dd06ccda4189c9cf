//! Graphs and plans that a stranger made: each is refused with its place and what to write, soon, and in little memory.
#![allow(missing_docs)]

use std::fs::{self, File};
use std::iter::repeat_n;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, MachineOptions, Program};

/// A program without optimisation takes up to five times as long.
const BOUND: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });
/// All that the program may map, in KiB.
const MOST_KIB: u64 = 512 << 10;
/// The bytes of the largest files that are read.
const MOST: usize = 64 << 20;

const GRAPH: &str = r#"{"version":1,"name":"small","tensors":[{"kind":"parameter","bytes":1},{"kind":"activation","bytes":1}],
"operators":[{"name":"make","inputs":[0],"outputs":[1],"time_ns":5}]}"#;

/// What is typed ends with 2 in the bound, and says each of `said` in at most three lines.
fn refused(machine: &Machine, typed: &str, said: &[&str]) -> Result<()> {
    let begun = Instant::now();
    let script = format!("ulimit -v {MOST_KIB} && exec {typed}");
    let end = Program::start(machine.shell(&script)?)?.finish(3 * BOUND)?;
    let took = begun.elapsed();
    ensure!(end.status.code() == Some(2), "{typed}: {end:?}");
    ensure!(took <= BOUND, "{typed} took {took:?}");
    ensure!(end.stdout.is_empty(), "{typed}: {}", end.stdout);
    ensure!(end.stderr.lines().count() <= 3, "{typed}: {}", end.stderr);
    for part in said {
        ensure!(
            end.stderr.contains(part),
            "{typed}: no {part:?} in {}",
            end.stderr
        );
    }
    eprintln!("{took:.2?} {typed}: {}", end.stderr.trim_end());
    Ok(())
}

/// `count` rows with a comma between them.
fn rows(count: usize, row: impl Fn(usize) -> String) -> String {
    (0..count).map(row).collect::<Vec<_>>().join(",")
}

/// The same row again and again, with commas, in at most so many bytes.
fn list(row: &str, bytes: usize) -> String {
    let mut list = repeated(&format!("{row},"), bytes);
    list.pop();
    list
}

fn graph(tensors: &str, operators: &str) -> String {
    format!(r#"{{"version":1,"name":"g","tensors":[{tensors}],"operators":[{operators}]}}"#)
}

fn repeated(text: &str, bytes: usize) -> String {
    repeat_n(text, bytes / text.len()).collect()
}

/// A chain of operators, each of which reads what the next one makes, the last one what the first one makes.
fn circle(count: usize) -> String {
    let operator = |at: usize| {
        format!(
            r#"{{"name":"a","inputs":[{}],"outputs":[{at}]}}"#,
            (at + 1) % count
        )
    };
    let tensor = r#"{"kind":"activation","bytes":1}"#;
    let tensors = list(tensor, count * (tensor.len() + 1));
    graph(&tensors, &rows(count, operator))
}

#[test]
fn a_strange_graph_is_refused_soon_and_in_little_memory() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    let nested = |text: &str| {
        format!(
            r#"{{"version":1,"name":"g","tensors":{}"#,
            repeated(text, MOST / 2)
        )
    };
    let parameter = r#"{"kind":"parameter","bytes":1}"#;
    let read = |list: &str| format!(r#"{{"name":"a","inputs":[{list}]}}"#);
    let cases: [(&str, String, &[&str]); 12] = [
        ("deep", nested("["), &["file.json:1:", "not JSON"]),
        (
            "deep objects",
            nested(r#"{"a":"#),
            &["file.json:1:", "not JSON"],
        ),
        (
            "many rows",
            graph(&list("{}", MOST / 2), ""),
            &["tensors[0].kind: missing", "more)"],
        ),
        (
            "many numbers",
            graph(parameter, &read(&list("0", MOST / 2))),
            &["operators[0].inputs[1]", "leave out"],
        ),
        (
            "a circle",
            circle(400_000),
            &["operators[0]", "circle", "take a number out"],
        ),
        (
            "the same key",
            format!("{{{}}}", list(r#""version":1"#, MOST - 100)),
            &["version: written twice", "leave one out"],
        ),
        (
            "other keys",
            format!("{{{}}}", rows(MOST / 16, |at| format!(r#""k{at}":1"#))),
            &["version: missing"],
        ),
        (
            "a long number",
            GRAPH.replacen(
                r#""bytes":1"#,
                &format!(r#""bytes":{}"#, repeated("9", MOST / 2)),
                1,
            ),
            &["tensors[0].bytes", "write one"],
        ),
        (
            "a long name",
            GRAPH.replace("small", &repeated("x", MOST - 1_000)),
            &["name: the name has", "write at most 255"],
        ),
        (
            "no number",
            GRAPH.replace(r#""bytes":1"#, r#""bytes":NaN"#),
            &["file.json:1:", "NaN"],
        ),
        (
            "cut short",
            GRAPH[..150].to_owned(),
            &["file.json:2:", "EOF"],
        ),
        (
            "a terminal's codes",
            GRAPH.replace("small", "\\u001b[2J"),
            &["name", "\\u{1b}"],
        ),
    ];
    for (what, text, said) in cases {
        fs::write(machine.path("file.json"), text)?;
        refused(&machine, "rtswapctl graph info file.json", said).context(what)?;
    }
    File::create(machine.path("file.json"))?.set_len(MOST as u64 + 1)?;
    let large: &[&str] = &["file.json has more than 64 MiB: that is no graph"];
    refused(&machine, "rtswapctl graph info file.json", large)
}

/// Has a shell of the machine make a file.
fn made(machine: &Machine, script: &str) -> Result<()> {
    let end = Program::start(machine.shell(script)?)?.finish(Duration::from_mins(1))?;
    ensure!(end.status.success(), "{script}: {end:?}");
    Ok(())
}

#[test]
fn a_strange_file_of_gzip_is_refused_soon_and_in_little_memory() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    for (script, said) in [
        (
            "head -c 1G /dev/zero | gzip -1 > file.gz",
            "file.gz has more than 64 MiB",
        ),
        (
            "gzip < /dev/null > one; for i in $(seq 1000); do cat one; done > k; for i in $(seq 3000); do cat k; done > file.gz",
            "something follows behind its end",
        ),
        (
            "head -c 1500 vgg-16.json.gz > file.gz",
            "cannot be unpacked",
        ),
        ("gzip < vgg-16.json.gz > file.gz", "not UTF-8"),
    ] {
        made(&machine, script)?;
        refused(&machine, "rtswapctl graph info file.gz", &["file.gz", said])?;
        refused(
            &machine,
            "rtswapctl graph simulate vgg-16.json.gz --plan file.gz",
            &["file.gz"],
        )?;
    }
    Ok(())
}

#[test]
fn a_strange_plan_is_refused_soon_and_in_little_memory() -> Result<()> {
    let machine = Machine::new(MachineOptions::default())?;
    fs::write(machine.path("graph.json"), GRAPH)?;
    let typed = "rtswapctl graph plan graph.json --budget 8MiB --generations 1 --json > own.json";
    made(&machine, typed)?;
    let own = fs::read_to_string(machine.path("own.json"))?;
    let with = |from: &str, to: &str| -> Result<String> {
        ensure!(own.contains(from), "no {from} in {own}");
        Ok(own.replace(from, to))
    };
    let copy = r#"{"tensor":0,"extents":[[4194304,2097152]],"waits":[0,0,0]}"#;
    let copies = format!(r#""swap_in": [{}]"#, list(copy, MOST - 1_000));
    let pieces = list("[0,1]", MOST / 2);
    let extents = with("[[0,2097152]]", &format!("[{pieces}]"))?;
    let waiting = r#""swap_out": [{"tensor":0,"waits":[1,0,0]}]"#;
    let deadlock = with(r#""swap_out": []"#, waiting)?.replace(
        r#""operator":0,"waits":[0,0,0]"#,
        r#""operator":0,"waits":[0,0,1]"#,
    );
    let cases: [(&str, String, &[&str]); 9] = [
        (
            "many copies",
            with(r#""swap_in": []"#, &copies)?,
            &["file.json: swap_in[0] ", "make a plan"],
        ),
        ("many pieces", extents, &["file.json", "extents"]),
        (
            "steps that wait for each other",
            deadlock,
            &["never begins"],
        ),
        (
            "deep",
            format!(r#"{{"version":1,"graph":{}"#, repeated("[", MOST / 2)),
            &["file.json:1:", "not JSON"],
        ),
        (
            "no number",
            with(r#""seed": 1"#, r#""seed": NaN"#)?,
            &["file.json:5:", "NaN"],
        ),
        ("cut short", own[..300].to_owned(), &["file.json:", "EOF"]),
        (
            "the same key",
            with(r#""seed": 1"#, r#""seed": 1, "seed": 1"#)?,
            &["seed: written twice"],
        ),
        (
            "no such operator",
            with(r#""operator":0"#, r#""operator":1"#)?,
            &["compute[0].operator"],
        ),
        ("the graph", GRAPH.to_owned(), &["file.json:1:"]),
    ];
    for (what, text, said) in cases {
        fs::write(machine.path("file.json"), text)?;
        let typed = "rtswapctl graph simulate graph.json --plan file.json";
        refused(&machine, typed, said).context(what)?;
    }
    let typed = "rtswapctl graph simulate vgg-16.json.gz --plan own.json";
    refused(
        &machine,
        typed,
        &["own.json:3:", "the plan is for another graph"],
    )
}
