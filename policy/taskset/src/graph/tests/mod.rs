//! A good graph, each way to be wrong with its message, what strangers may send, and that all graphs can be written.

pub(crate) mod samples;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rtswap_planner::graph::{Kind, Operator, Tensor};

use self::samples::{GOOD, GPU, chain, good, graph, hostile, told, written};
use super::*;
use crate::MAX_TEXT;

/// What reading `text` as a graph tells.
fn wrong(text: &str) -> String {
    told(read_graph(text, &GPU))
}

#[test]
fn everything_can_be_said() {
    let file = good();
    assert_eq!(file.name, "tiny");
    let graph = &file.graph;
    assert_eq!(
        graph.tensor(0),
        &Tensor {
            name: "weight".into(),
            kind: Kind::Parameter,
            bytes: 4096
        }
    );
    assert_eq!(graph.tensor(4).kind, Kind::Scratch);
    assert_eq!(
        graph.operator(0),
        &Operator {
            name: "convolution".into(),
            inputs: vec![0, 1],
            outputs: vec![2, 4],
            updates: vec![],
            flops: 100_000_000,
            bytes: 7168,
            time_ns: 20_000 + 10_000,
            is_random: false,
        }
    );
    assert_eq!(graph.operator(1).time_ns, 20_000 + 9_000, "depthwise");
    assert!(graph.operator(1).is_random);
    assert_eq!(graph.operator(2).updates, [0]);
    assert_eq!(graph.operator(2).time_ns, 1000);
}

#[test]
fn other_ways_to_write_the_same_are_read() {
    let mark = format!("\u{feff}{GOOD}");
    let blanks = GOOD.replace(',', " ,\r\n\t ").replace(':', " : ");
    let numbers = GOOD
        .replace("4096", "4.096e3")
        .replace("[0,1]", "[0.0,1e0]");
    let escapes = GOOD
        .replace("bytes", "\\u0062ytes")
        .replace("tiny", "t\\u0069ny");
    for text in [mark, blanks, numbers, escapes] {
        assert_eq!(read_graph(&text, &GPU), Ok(good()), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "\"version\": 1",
            "\"version\": 2, \"models\": []",
            "2:12: version: version 2 is not known; write \"version\": 1",
        ),
        (
            "\"version\": 1,",
            "",
            "1:1: version: missing; write, for example, \"version\": 1",
        ),
        (
            "\"name\": \"tiny\",\n",
            "",
            "1:1: name: missing; write, for example, \"name\": \"vgg-16\"",
        ),
        (
            "\"kind\":\"input\"",
            "\"kind\":\"inputs\"",
            "6:9: tensors[1].kind: \"inputs\" where \"parameter\" or \"optimizer_state\" or \"input\" or \"activation\" \
             or \"gradient\" or \"scratch\" belongs; write one of these",
        ),
        (
            "{\"kind\":\"input\",",
            "{",
            "6:1: tensors[1].kind: missing; write, for example, \"kind\": \"activation\"",
        ),
        (
            "\"bytes\":1024",
            "\"byte\":1024",
            "6:1: tensors[1].bytes: missing; write, for example, \"bytes\": 4096\n\
             6:17: tensors[1].byte: unknown key; did you mean bytes?",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":1024,\"colour\":3",
            "6:30: tensors[1].colour: unknown key; known here: name, kind, bytes",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":1024,\n\"bytes\":2048",
            "7:1: tensors[1].bytes: written twice, first on line 6; leave one out",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":0",
            "6:25: tensors[1].bytes: 0 is not a number of bytes from 1 to 18446744073709551615; write one",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":-1024",
            "6:25: tensors[1].bytes: -1024 is not a number of bytes from 1 to 18446744073709551615; write one",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":1e400",
            "6:25: tensors[1].bytes: 1e400 is not a number of bytes from 1 to 18446744073709551615; write one",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":10.5",
            "6:25: tensors[1].bytes: 10.5 is not a number of bytes from 1 to 18446744073709551615; write one",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":18446744073709551616",
            "6:25: tensors[1].bytes: 18446744073709551616 is not a number of bytes from 1 to 18446744073709551615; \
             write one",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":\"1KiB\"",
            "6:25: tensors[1].bytes: a text where a number belongs; write, for example, 4096",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":NaN",
            "6:25: NaN is not a finite number; write one in digits",
        ),
        (
            "\"bytes\":1024",
            "\"bytes\":1152921504606846976",
            "4:12: tensors: the bytes of the graph together are more than 2^60; write smaller numbers",
        ),
        (
            "\"flops\":100000000",
            "\"flops\":1152921504606846977",
            "11:14: operators: the FLOPs of the graph together are more than 2^60; write smaller numbers",
        ),
        (
            "\"flops\":100000000",
            "\"flops\":null",
            "12:62: operators[0].flops: null where a number belongs; write, for example, 1000000",
        ),
        (
            "\"depthwise\"",
            "\"sparse\"",
            "13:77: operators[1].arithmetic: \"sparse\" where \"dense\" or \"depthwise\" belongs; write one of these",
        ),
        (
            "\"random\":true",
            "\"random\":1",
            "13:98: operators[1].random: a number where a boolean belongs; write, for example, true",
        ),
        (
            "\"name\":\"convolution\"",
            "\"name\":\"\"",
            "12:9: operators[0].name: the name is empty; write one, for example \"yolo-608\"",
        ),
        (
            "\"name\":\"weight\"",
            "\"name\":\"a\\u0000b\"",
            "5:9: tensors[0].name: the name \"a\\0b\" has a control character or an invisible one; leave it out",
        ),
        (
            "\"name\":\"weight\"",
            "\"name\":\"\\ud800\"",
            "5:9: tensors[0].name: not JSON: unexpected end of hex escape",
        ),
        (
            "\"name\":\"weight\"",
            "\"name\":7",
            "5:9: tensors[0].name: a number where a text belongs; write, for example, \"features.0.weight\"",
        ),
        (
            "{\"kind\":\"input\",\"bytes\":1024}",
            "[]",
            "6:1: tensors[1]: an array where a table belongs; write, for example, { … }",
        ),
        (
            "[0,1]",
            "[0,5]",
            "12:35: operators[0].inputs[1]: 5 is not the number of a tensor from 0 to 4; write one",
        ),
        (
            "[0,1]",
            "[0,[1]]",
            "12:35: operators[0].inputs[1]: an array where a number belongs; write, for example, 0",
        ),
        (
            "[0,1]",
            "{\"0\":1}",
            "12:32: operators[0].inputs: a table where an array belongs; write, for example, [0, 1]",
        ),
        (
            "[0,1]",
            "[0,1,0,1,0,1]",
            "12:43: operators[0].inputs[5]: more than 5 in this list; leave out this one and all behind it",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert_eq!(wrong(&GOOD.replacen(from, to, 1)), expected, "{to}");
    }
}

#[test]
fn a_graph_that_cannot_run_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "[0,1]",
            "[0,1,0]",
            "12:37: operators[0].inputs[2]: operator 0 has tensor 0 twice: what it changes in place stands in its updates \
             only; leave out one",
        ),
        (
            "[0,1],\"outputs\":[2,4]",
            "[1],\"outputs\":[2,4,0]",
            "12:51: operators[0].outputs[2]: operator 0 makes tensor 0, which is there before an iteration: an operator \
             updates it; write its number in \"updates\"",
        ),
        (
            "\"outputs\":[3]",
            "\"outputs\":[3,4]",
            "13:48: operators[1].outputs[1]: operators 0 and 1 both make tensor 4: the second updates it; write its number \
             in \"updates\" there",
        ),
        (
            "\"outputs\":[2,4]",
            "\"outputs\":[4]",
            "7:1: tensors[2]: no operator makes tensor 2, and it is not there before an iteration either; write its number \
             in the \"outputs\" of an operator, or another kind",
        ),
        (
            "\"inputs\":[3],",
            "\"inputs\":[3,4],",
            "14:30: operators[2].inputs[1]: tensor 4 is scratch of one operator, and operator 2 uses it too; write the kind \
             \"activation\"",
        ),
        (
            "[0,1]",
            "[0,1,3]",
            "12:1: operators[0]: operators 0 -> 1 wait for each other's tensors in a circle; take a number out of the \
             \"inputs\" of one of them",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        assert_eq!(wrong(&GOOD.replacen(from, to, 1)), expected, "{to}");
    }
    let (head, operators) = GOOD.split_at(GOOD.find("\"operators\"").unwrap());
    let none = format!("{head}\"operators\": []}}");
    assert_eq!(
        wrong(&none),
        "11:14: operators: no operator: a graph has at least one; write, for example, \"operators\": [{ … }]"
    );
    let mut lines: Vec<_> = operators.lines().collect();
    lines.swap(1, 2);
    assert_eq!(
        wrong(&format!("{head}{}", lines.join("\n"))),
        "12:32: operators[0].inputs[1]: operator 0 uses tensor 2, which operator 1 makes only later: list them in an order \
         that can run"
    );
}

#[test]
fn a_text_that_is_no_graph_is_told() {
    for (text, expected) in [
        ("", "1:1: not JSON: EOF while parsing a value"),
        ("\0", "1:1: not JSON: expected value"),
        ("\u{feff}\u{feff}{}", "1:1: not JSON: expected value"),
        (
            "7",
            "1:1: a number where a table belongs; write, for example, { \"version\": 1, … }",
        ),
        (
            "{}",
            "1:1: version: missing; write, for example, \"version\": 1",
        ),
        (
            "{\"version\": 1,",
            "1:14: not JSON: EOF while parsing an object",
        ),
        (
            "{\"version\": \"1\"}",
            "1:13: version: a text where a number belongs; write, for example, 1",
        ),
        (
            "{\"version\": 1, \"tensors\": [{\"a\u{1}\": 0}]}",
            "1:30: not JSON: control character (\\u0000-\\u001F) found while parsing a string",
        ),
        ("{} x", "1:4: not JSON: trailing characters"),
    ] {
        assert_eq!(wrong(text), expected, "{text:?}");
    }
}

#[test]
fn at_most_eight_faults_are_told_in_the_order_of_the_text() {
    let rows = vec!["{\"bytes\":0}"; 100].join(",");
    let text = format!("{{\"version\":1,\"operators\":[{{}}],\"name\":\"\",\"tensors\":[{rows}]}}");
    let told = wrong(&text);
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 8, "{told}");
    assert_eq!(
        lines[0],
        "1:38: name: the name is empty; write one, for example \"yolo-608\""
    );
    assert_eq!(
        lines[1],
        "1:52: tensors[0].kind: missing; write, for example, \"kind\": \"activation\""
    );
}

#[test]
fn what_a_stranger_wrote_is_repeated_only_so_far() {
    let long = "x".repeat(1 << 20);
    for text in [
        GOOD.replacen("\"bytes\"", &format!("\"{long}\""), 1),
        GOOD.replacen("4096", &"9".repeat(1 << 20), 1),
        GOOD.replacen("parameter", &long, 1),
        GOOD.replacen("weight", &long, 1),
        GOOD.replacen(
            "\"version\": 1",
            &format!("\"version\": {}", "1".repeat(1 << 20)),
            1,
        ),
    ] {
        assert!(wrong(&text).len() < 400, "{}", wrong(&text));
    }
}

#[test]
fn the_digest_depends_on_tensors_and_lists_and_on_nothing_else() {
    assert_eq!(digest(&good().graph), 0x86fa_5eb5_fe28_4a74);
    let of = |from, to| {
        let text = GOOD.replacen(from, to, 1);
        digest(&read_graph(&text, &GPU).unwrap().graph)
    };
    for (from, to) in [
        ("weight", "bias"),
        ("convolution", "product"),
        ("\"time_ns\":1000", "\"time_ns\":9"),
        ("7168", "9"),
        ("100000000", "9"),
    ] {
        assert_eq!(of(from, to), digest(&good().graph), "{from}");
    }
    for (from, to) in [
        ("parameter", "optimizer_state"),
        ("4096", "4097"),
        ("[0,1]", "[1,0]"),
        ("[0,1]", "[1]"),
        ("\"updates\":[0]", "\"updates\":[1]"),
        (
            "\"inputs\":[3],\"updates\":[0]",
            "\"inputs\":[0],\"updates\":[3]",
        ),
    ] {
        assert_ne!(of(from, to), digest(&good().graph), "{from}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(file in graph()) {
        let text = written(&file);
        prop_assert_eq!(read_graph(&text, &GPU), Ok(file), "{}", text);
    }

    #[test]
    fn no_text_panics(at in any::<prop::sample::Index>(), removed in 0_usize..9, put in ".{0,4}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let from = at.index(text.len() + 1);
        let to = (from + removed).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        if let Err(errors) = read_graph(&text, &GPU) {
            prop_assert!(!errors.is_empty() && errors.len() <= 8);
        }
    }
}

#[test]
fn a_text_beyond_the_limit_is_not_read() {
    let text = " ".repeat(MAX_TEXT + 1);
    assert_eq!(
        wrong(&text),
        "1:1: 67108865 bytes of text, and at most 67108864 are read; leave out blanks and names"
    );
}

#[test]
#[ignore = "measures times, which mean something in a release build only"]
fn graphs_are_read_in_time() {
    let measure = |name: &str, text: &str, most: Duration| {
        let begin = Instant::now();
        let result = read_graph(text, &GPU);
        let took = begin.elapsed();
        let told = result.err().map_or(0, |errors| errors.len());
        eprintln!("{name}: {} bytes, {took:?}, {told} errors", text.len());
        assert!(took <= most, "{name} took {took:?}");
    };
    let real = written(&chain(20_000));
    measure("20,000 operators", &real, Duration::from_millis(100));
    let largest = written(&chain(320_000));
    assert!(largest.len() <= MAX_TEXT && largest.len() > MAX_TEXT / 10 * 9);
    measure("320,000 operators", &largest, Duration::from_secs(1));
    // The last operator makes what the first one reads.
    let circle = largest.replacen("\"inputs\":[0]", "\"inputs\":[320000]", 1);
    measure("a circle", &circle, Duration::from_secs(1));
    for (name, text) in hostile("operators").iter().chain(&hostile("tensors")) {
        measure(name, text, Duration::from_secs(1));
    }
}
