//! A good set in both formats, each way to be wrong with its message, and that no text panics.

use proptest::prelude::*;

use super::*;

const TOML: &str = r#"version = 1
[gpu]
memory = "24GiB"
chunk = "64MiB"
duplex = 0.8
drain_ms = 1.5

[swap_cost.out]
base_us = 10.0
per_chunk_us = 73.6
gib_per_s = 12.08
[swap_cost.in]
base_us = 20
per_chunk_us = 79.5
gib_per_s = 11.18

[[task]]
name = "yolo-608"
period_ms = 4000.0
deadline_ms = 3000.0
wcet_ms = 63.0
footprint = "6.2GiB"
swappable = "5.2GiB"

[[task]]
name = "lanes"
period_ms = 33.3
wcet_ms = 8
footprint = 2147483648
swappable = 0
"#;

const JSON: &str = r#"{
  "version": 1,
  "gpu": {"memory": "24GiB", "chunk": "64MiB", "duplex": 0.8, "drain_ms": 1.5},
  "swap_cost": {
    "out": {"base_us": 10.0, "per_chunk_us": 73.6, "gib_per_s": 12.08},
    "in": {"base_us": 20, "per_chunk_us": 79.5, "gib_per_s": 11.18}
  },
  "task": [
    {
      "name": "yolo-608", "period_ms": 4000.0, "deadline_ms": 3e3,
      "wcet_ms": 63.0, "footprint": "6.2GiB", "swappable": "5.2GiB"
    },
    {
      "name": "l\u0061nes", "period_ms": 33.3,
      "wcet_ms": 8, "footprint": 2147483648, "swappable": 0
    }
  ]
}
"#;

#[test]
fn everything_can_be_said_in_both_formats() {
    let set = parse(TOML, Format::Toml).unwrap();
    let gpu = Gpu {
        capacity: Bytes(24 << 30),
        chunk: Some(Bytes(64 << 20)),
        host_memory: None,
        duplex: Ppm(800_000),
        drain: Nanos(1_500_000),
        dispatch_latency: Nanos::ZERO,
    };
    assert_eq!(set.gpu, gpu);
    let mut cost = SwapCost::PAPER;
    cost.out.base = Nanos(10_000);
    cost.in_.base = Nanos(20_000);
    assert_eq!(set.swap_cost, cost);
    assert_eq!(set.swap_cost.out.bytes_per_second, 12_970_801_233);
    let first = RealtimeTask {
        name: "yolo-608".into(),
        timing: Timing {
            period: Nanos(4_000_000_000),
            deadline: Nanos(3_000_000_000),
            wcet: Nanos(63_000_000),
        },
        memory: MemoryProfile {
            footprint: Bytes(6_657_199_308),
            swappable: Bytes(5_583_457_484),
        },
    };
    assert_eq!(set.tasks[0], first);
    assert_eq!(
        set.tasks[1].timing.deadline,
        Nanos(33_300_000),
        "the period"
    );
    assert_eq!(set.tasks.len(), 2);
    assert_eq!(parse(JSON, Format::Json).unwrap(), set);
}

#[test]
fn what_is_left_out_has_its_default() {
    let mut text = String::from("version = 1\n[gpu]\nmemory = \"24GiB\"\n");
    text.push_str(&TOML[TOML.find("[[task]]").unwrap()..]);
    let set = parse(&text, Format::Toml).unwrap();
    let gpu = Gpu {
        capacity: Bytes(24 << 30),
        chunk: None,
        host_memory: None,
        duplex: Ppm::ONE,
        drain: Nanos::ZERO,
        dispatch_latency: Nanos::ZERO,
    };
    assert_eq!((set.gpu, set.swap_cost), (gpu, SwapCost::PAPER));
}

/// What is said of the good text with `from` replaced by `to`, once.
fn said(format: Format, from: &str, to: &str) -> String {
    let good = match format {
        Format::Toml => TOML,
        Format::Json => JSON,
    };
    assert!(good.contains(from), "{from}");
    let text = good.replacen(from, to, 1);
    match parse(&text, format) {
        Ok(_) => panic!("{to} is taken for {from}"),
        Err(error) => error.to_string(),
    }
}

/// Of each line, what the text says with its first part replaced by its second one, against its third
/// one; ⏎ is a new line.
fn all(format: Format, cases: &str) {
    for case in cases.trim().lines() {
        let case = case.replace('⏎', "\n");
        let parts: Vec<_> = case.split(" → ").collect();
        let [from, to, expected] = parts[..] else {
            panic!("{case} has not three parts");
        };
        assert_eq!(said(format, from, to), expected, "{case}");
    }
}

const VALUES: &str = r#"
period_ms = 4000.0 → period_ms = 0 → 19:13: task[0].period_ms: must be more than 0; write, for example, 4000.0
period_ms = 4000.0 → period_ms = -5.0 → 19:13: task[0].period_ms: -5.0 has a minus sign; write a number without one
period_ms = 4000.0 → period_ms = -0.0 → 19:13: task[0].period_ms: -0.0 has a minus sign; write a number without one
period_ms = 4000.0 → period_ms = nan → 19:13: task[0].period_ms: nan is not a finite number; write one in digits
period_ms = 4000.0 → period_ms = inf → 19:13: task[0].period_ms: inf is not a finite number; write one in digits
period_ms = 4000.0 → period_ms = 1e300 → 19:13: task[0].period_ms: 1e300 ms is longer than 584 years, which is the longest; write fewer ms
period_ms = 4000.0 → period_ms = "4s" → 19:13: task[0].period_ms: "4s" is a text, where a number of ms belongs; write 4000, the key has the unit
period_ms = 4000.0 → period_ms = "6.2GiB" → 19:13: task[0].period_ms: "6.2GiB" is a size, where a time belongs; write a number of ms
period_ms = 4000.0 → period_ms = "soon" → 19:13: task[0].period_ms: "soon" is not a time; write a number of ms
period_ms = 4000.0 → period_ms = true → 19:13: task[0].period_ms: a boolean where a number belongs; write, for example, period_ms = 4000.0
period_ms = 4000.0 → period_ms = 1.00000000000000000000000000001 → 19:13: task[0].period_ms: more digits than can be kept; write at most 26
period_ms = 4000.0 →  → 17:1: task[0].period_ms: missing; write, for example, period_ms = 4000.0
deadline_ms = 3000.0 → deadline_ms = 5000 → 20:15: task[0].deadline_ms: the deadline, 5000 ms, is after the end of the period, 4000 ms; write at most 4000, or a longer period_ms
deadline_ms = 3000.0 → deadline_ms = 0.0000001 → 20:15: task[0].deadline_ms: must be more than 0; write, for example, 4000.0
wcet_ms = 63.0 → wcet_ms = 3000.000001 → 21:11: task[0].wcet_ms: the WCET, 3000.000001 ms, is longer than the deadline, 3000 ms; write at most 3000, or a longer deadline_ms
wcet_ms = 8 → wcet_ms = 34 → 28:11: task[1].wcet_ms: the WCET, 34 ms, is longer than the deadline, 33.3 ms; write at most 33.3, or a longer period_ms
wcet_ms = 8 → wcet_ms = 0 → 28:11: task[1].wcet_ms: must be more than 0; write, for example, 63.0
"5.2GiB" → "6.3GiB" → 23:13: task[0].swappable: 6764573491 bytes (6.30 GiB) can be swapped of a footprint of 6657199308 bytes (6.20 GiB); write at most 6657199308
"6.2GiB" → "24GX" → 22:13: task[0].footprint: "24GX" has no unit that is known; did you mean "24GiB"?
"6.2GiB" → "1 XiB" → 22:13: task[0].footprint: "1 XiB" has no unit that is known; write B, KiB, MiB, GiB or TiB
"6.2GiB" → "24" → 22:13: task[0].footprint: "24" has no unit; write "24GiB", "24MiB", or for bytes "24B"
"6.2GiB" → "33ms" → 22:13: task[0].footprint: "33ms" is a time, where a size belongs; write whole bytes, or a unit as in "6.2GiB"
"6.2GiB" → "much" → 22:13: task[0].footprint: "much" is not a size; write whole bytes, or a number and a unit as "6.2GiB"
"6.2GiB" → "-1GiB" → 22:13: task[0].footprint: -1 has a minus sign; write a number without one
"6.2GiB" → -1 → 22:13: task[0].footprint: -1 has a minus sign; write a number without one
"6.2GiB" → 0.5 → 22:13: task[0].footprint: 0.5 is not a whole number of bytes; write one, or a number and a unit as "6.2GiB"
"6.2GiB" → "99999999TiB" → 22:13: task[0].footprint: 99999999TiB is 16 EiB or more; write less
"6.2GiB" → 0xffffffffffffffffff → 22:13: task[0].footprint: 0xffffffffffffffffff is 16 EiB or more; write less
"6.2GiB" → [1] → 22:13: task[0].footprint: an array where a size belongs; write, for example, footprint = "6.2GiB"
"yolo-608" → "" → 18:8: task[0].name: the name is empty; write one, for example "yolo-608"
"yolo-608" → " \t" → 18:8: task[0].name: the name is empty; write one, for example "yolo-608"
"yolo-608" → "a\u001bb" → 18:8: task[0].name: the name "a\u{1b}b" has a control character or an invisible one; leave it out
"yolo-608" → "a\u202eb" → 18:8: task[0].name: the name "a\u{202e}b" has a control character or an invisible one; leave it out
period_ms = 4000.0 → period_ms = 9223372036854.775807 → 19:13: task[0].period_ms: 9223372036854.775807 ms is longer than 1000 days; write at most 86400000000
period_ms = 4000.0 → period_ms = 86400000000.000001 → 19:13: task[0].period_ms: 86400000000.000001 ms is longer than 1000 days; write at most 86400000000
"yolo-608" → 608 → 18:8: task[0].name: a number where a text belongs; write, for example, name = "yolo-608"
"lanes" → "yolo-608" → 26:8: task[1].name: "yolo-608" is the name of the task on line 18, too; write another
"24GiB" → 0 → 3:10: gpu.memory: must be more than 0; write, for example, "24GiB"
"24GiB" → "63MiB" → 3:10: gpu.memory: 63.0 MiB does not hold one chunk of 64.0 MiB; write more memory, or a smaller chunk
chunk = "64MiB" → chunk = 0 → 4:9: gpu.chunk: must be more than 0; write, for example, "64MiB"
chunk = "64MiB" → chunk = "3MiB" → 4:9: gpu.chunk: 3145728 bytes (3.0 MiB) is no multiple of 2MiB, the least that CUDA maps; write "2MiB"
chunk = "64MiB" → chunk = "1MiB" → 4:9: gpu.chunk: 1048576 bytes (1.0 MiB) is no multiple of 2MiB, the least that CUDA maps; write "2MiB"
duplex = 0.8 → duplex = 0 → 5:10: gpu.duplex: 0 is no share: 0 < duplex ≤ 1; write, for example, 0.8
duplex = 0.8 → duplex = 1.0000001 → 5:10: gpu.duplex: 1.0000001 is no share: 0 < duplex ≤ 1; write, for example, 0.8
duplex = 0.8 → duplex = -0.5 → 5:10: gpu.duplex: -0.5 has a minus sign; write a number without one
drain_ms = 1.5 → drain_ms = -1.5 → 6:12: gpu.drain_ms: -1.5 has a minus sign; write a number without one
gib_per_s = 12.08 → gib_per_s = 0.0 → 11:13: swap_cost.out.gib_per_s: must be more than 0; write, for example, 12.08
gib_per_s = 12.08 → gib_per_s = 1e30 → 11:13: swap_cost.out.gib_per_s: 1e30 GiB/s is more than can be counted; write less
base_us = 10.0 → base_us = "10us" → 9:11: swap_cost.out.base_us: "10us" is a text, where a number of µs belongs; write 10, the key has the unit
"#;

const SHAPES: &str = r#"
version = 1⏎ →  → 1:1: version: missing; write, for example, version = 1
version = 1⏎ → version = 2⏎unheard = 3⏎ → 1:11: version: version 2 is not known; write version = 1
version = 1⏎ → version = "1"⏎ → 1:11: version: a text where a number belongs; write, for example, version = 1
version = 1⏎ → version = 1⏎period = 3⏎ → 2:1: period: unknown key; known here: version, gpu, swap_cost, task
memory = → memroy = → 3:1: gpu.memroy: unknown key; did you mean memory?
wcet_ms = 63.0 → wcet = 63.0 → 21:1: task[0].wcet: unknown key; did you mean wcet_ms?
wcet_ms = 63.0 → colour = 63.0 → 21:1: task[0].colour: unknown key; known here: name, period_ms, deadline_ms, wcet_ms, footprint, swappable, graph, context
[swap_cost.out] → [swap_cost.in_] → 8:12: swap_cost.in_: unknown key; did you mean in?
[swap_cost.out] → [unheard] → 8:2: unheard: unknown key; known here: version, gpu, swap_cost, task
base_us = 10.0⏎ →  → 8:1: swap_cost.out.base_us: missing; write, for example, base_us = 0.0
[[task]] → [task] → 25:3: not TOML: duplicate key; write it once, and [[task]] before each task
[gpu] → [[gpu]] → 2:1: gpu: an array where a table belongs; write, for example, [gpu]
[gpu] → [gpu → 2:5: not TOML: unclosed table, expected `]`
drain_ms = 1.5 → drain_ms = 1.5⏎drain_ms = 2 → 7:1: not TOML: duplicate key; write it once, and [[task]] before each task
drain_ms = 1.5 → drain_ms = 1.5.5 → 6:15: not TOML: invalid float, expected nothing
drain_ms = 1.5 → drain_ms = 1979-05-27 → 6:12: gpu.drain_ms: a date where a number belongs; write, for example, drain_ms = 0.0
version = 1 → version = 1⏎task = [] → 18:3: not TOML: duplicate key; write it once, and [[task]] before each task
"#;

const IN_JSON: &str = r#"
"period_ms": 4000.0 → "period_ms": NaN → 10:40: NaN is not a finite number; write one in digits
"period_ms": 4000.0 → "period_ms": null → 10:40: task[0].period_ms: null where a number belongs; write, for example, "period_ms": 4000.0
"period_ms": 4000.0 → "period_ms": 1, "period_ms": 2 → 10:43: task[0].period_ms: written twice, first on line 10; leave one out
"period_ms": 4000.0 → "period_ms": {} → 10:40: task[0].period_ms: a table where a number belongs; write, for example, "period_ms": 4000.0
"period_ms": 4000.0,  →  → 9:5: task[0].period_ms: missing; write, for example, "period_ms": 4000.0
"wcet_ms": 63.0 → "wcet_ms": 3001 → 11:18: task[0].wcet_ms: the WCET, 3001 ms, is longer than the deadline, 3000 ms; write at most 3000, or a longer deadline_ms
"wcet_ms": 63.0 → "wcet": 3001 → 11:7: task[0].wcet: unknown key; did you mean wcet_ms?
"wcet_ms": 63.0 → "wcet_ms\u001b": 3001 → 11:7: task[0].wcet_ms\u{1b}: unknown key; did you mean wcet_ms?
"version": 1, →  → 1:1: version: missing; write, for example, "version": 1
"version": 1, → "version": 1 → 3:3: not JSON: expected `,` or `}`
l\u0061nes → l\ud800nes → 14:15: not JSON: unexpected end of hex escape
"#;

#[test]
fn each_wrong_value_is_told_with_what_to_write() {
    all(Format::Toml, VALUES);
}

#[test]
fn each_wrong_shape_is_told_with_what_to_write() {
    all(Format::Toml, SHAPES);
    let from = |head| TOML.find(head).unwrap();
    let inward = &TOML[from("[swap_cost.in]")..from("[[task]]")];
    let tasks = &TOML[from("[[task]]")..];
    for (from, to, expected) in [
        (
            inward,
            "",
            "8:2: swap_cost.in: missing beside the other direction; measure and write both, or leave both out for the fit to the paper's GPU",
        ),
        (
            tasks,
            "",
            "15:18: task: no task; write at least one [[task]]",
        ),
        (
            tasks,
            "task = 3",
            "17:1: swap_cost.in.task: unknown key; known here: base_us, per_chunk_us, gib_per_s",
        ),
        (
            tasks,
            "[[task.task]]",
            "17:3: task: a table where an array of tables belongs; write, for example, [[task]]",
        ),
    ] {
        assert_eq!(said(Format::Toml, from, to), expected);
    }
}

#[test]
fn json_is_told_in_json() {
    all(Format::Json, IN_JSON);
    for (text, expected) in [
        ("", "1:1: not JSON: EOF while parsing a value"),
        (
            "[]",
            "1:1: an array where a table belongs; write, for example, { \"version\": 1, … }",
        ),
        (
            "{\"version\": 1, \"gpu\": {\"memory\": 0.5}}",
            "1:34: gpu.memory: 0.5 is not a whole number of bytes; write one, or a number and a unit as \"6.2GiB\"",
        ),
        (
            "{\"version\": 1, \"gpu\": {\"memory\": \"24GiB\"}}",
            "1:43: task: no task; write at least one \"task\": [{ … }]",
        ),
        (
            "{\"version\": 1, \"gpu\": {\"memory\": \"24GiB\"}, \"task\": [3]}",
            "1:53: task[0]: a number where a table belongs; write, for example, { \"name\": \"yolo-608\", … }",
        ),
    ] {
        assert_eq!(said(Format::Json, JSON, text), expected);
    }
}

#[test]
fn names_are_short_and_seen() {
    let named = |name: &str| parse(&TOML.replace("yolo-608", name), Format::Toml);
    assert_eq!(named(&"ü".repeat(255)).unwrap().tasks.len(), 2);
    assert!(named("yolo 608 · 一").is_ok());
    for length in [256, 65_536] {
        let error = named(&"x".repeat(length)).unwrap_err().to_string();
        let expected =
            format!("18:8: task[0].name: the name has {length} characters; write at most 255");
        assert_eq!(error, expected);
    }
    let refused = ('\u{200b}'..='\u{200f}')
        .chain('\u{202a}'..='\u{202e}')
        .chain('\u{2066}'..='\u{2069}')
        .chain(['\u{feff}', '\u{7f}']);
    for c in refused {
        let error = named(&format!("a\\u{:04x}b", u32::from(c))).unwrap_err();
        assert!(matches!(error.fault, Fault::ControlCharacter(_)), "{error}");
        assert!(!error.to_string().contains(c), "{error}");
        let key = JSON.replace("\"gpu\"", &format!("\"g{c}pu\""));
        let error = parse(&key.replace('\u{7f}', "\\u007f"), Format::Json).unwrap_err();
        assert!(!error.to_string().contains(c), "{error}");
    }
}

#[test]
fn a_mark_of_the_byte_order_changes_nothing() {
    for (text, format) in [(TOML, Format::Toml), (JSON, Format::Json)] {
        let marked = |text: &str| parse(&format!("\u{feff}{text}"), format);
        assert_eq!(marked(text), parse(text, format));
        for change in [
            ("1", "nan"),
            ("version", "vresion"),
            ("63.0", "4e9"),
            ("=", "!"),
            (":", "!"),
        ] {
            let wrong = text.replacen(change.0, change.1, 1);
            assert_eq!(marked(&wrong), parse(&wrong, format), "{wrong}");
        }
    }
    let error = parse(&format!("\u{feff}\n {JSON}"), Format::Toml).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2:2: this looks like JSON; give the file a name that ends in .json"
    );
}

#[test]
fn a_set_has_at_most_4096_tasks() {
    let with = |count: usize| {
        let task = |place| {
            format!(
                "[[task]]\nname = \"{place}\"\nperiod_ms = 9\nwcet_ms = 1\nfootprint = 0\nswappable = 0\n"
            )
        };
        let head = String::from(&TOML[..TOML.find("[[task]]").unwrap()]);
        let text = head + &(0..count).map(task).collect::<String>();
        parse(&text, Format::Toml)
    };
    assert_eq!(with(4_096).unwrap().tasks.len(), 4_096);
    let error = with(4_097).unwrap_err();
    assert_eq!(
        error.to_string(),
        "24593:1: task: 4097 tasks, and at most 4096 fit in a set; leave out 1"
    );
}

#[test]
fn what_is_nested_deeply_is_refused_and_not_followed() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let json = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        assert!(parse(&json, Format::Json).is_err());
        let toml = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&toml, Format::Toml).is_err());
    }
    assert!(parse(&format!("a{} = 1", ".a".repeat(100_000)), Format::Toml).is_err());
    assert!(parse(&format!("[a{}]", ".a".repeat(100_000)), Format::Toml).is_err());
}

const WORDS: [&str; 34] = [
    "-",
    "0",
    "9999999999",
    "e",
    "e999",
    ".",
    "\"",
    "'",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ":",
    ",",
    "\n",
    "#",
    "nan",
    "inf",
    "0x",
    "_",
    "null",
    "true",
    "\\u",
    "\\",
    "é",
    "\u{feff}",
    "GiB",
    "ms",
    "1979-05-27",
    "task",
    "gpu",
    "version",
];

/// One change of a text: at a place, so much removed, and this put there.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, String)> {
    let put = prop_oneof![
        prop::sample::select(&WORDS[..]).prop_map(String::from),
        ".{0,4}"
    ];
    (any::<prop::sample::Index>(), 0_usize..6, put)
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_taken_keeps_the_rules(
        json in any::<bool>(),
        changes in prop::collection::vec(change(), 0..5),
    ) {
        let (good, format) = if json { (JSON, Format::Json) } else { (TOML, Format::Toml) };
        let mut text: Vec<char> = good.chars().collect();
        for (place, removed, put) in changes {
            let from = place.index(text.len() + 1);
            let to = (from + removed).min(text.len());
            text.splice(from..to, put.chars());
        }
        let text: String = text.into_iter().collect();
        match parse(&text, format) {
            Ok(set) => {
                prop_assert!(sound(&set), "{set:?}");
                // Whatever the numbers are, there is an answer.
                let _ = set.plan(Test::default(), Objective::default());
            }
            Err(error) => {
                let lines = text.split('\n').count();
                prop_assert!((1..=lines).contains(&error.line), "{error}");
                let line = text.split('\n').nth(error.line - 1).unwrap();
                prop_assert!((1..=line.chars().count() + 1).contains(&error.column), "{error}");
                prop_assert!(!error.to_string().contains(char::is_control), "{error}");
            }
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written(nanos in 8_000_000..=MAX_PERIOD.0) {
        let (whole, rest) = (nanos / 1_000_000, nanos % 1_000_000);
        for format in [Format::Toml, Format::Json] {
            let (good, from) = match format {
                Format::Toml => (TOML, "period_ms = 33.3\n"),
                Format::Json => (JSON, "\"period_ms\": 33.3,"),
            };
            let to = from.replace("33.3", &format!("{whole}.{rest:06}"));
            let text = good.replace(from, &to);
            let set = parse(&text, format).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(set.tasks[1].timing.period, Nanos(nanos));
        }
    }
}

fn sound(set: &TaskSet) -> bool {
    let chunk = set.gpu.chunk.unwrap_or(GRANULARITY);
    let names: std::collections::BTreeSet<_> = set.tasks.iter().map(|task| &task.name).collect();
    (1..=MAX_TASKS).contains(&set.tasks.len())
        && names.len() == set.tasks.len()
        && (GRANULARITY..=set.gpu.capacity).contains(&chunk)
        && chunk.round_down(GRANULARITY) == chunk
        && (1..=1_000_000).contains(&set.gpu.duplex.0)
        && set.swap_cost.out.bytes_per_second > 0
        && set.swap_cost.in_.bytes_per_second > 0
        && set.tasks.iter().all(|task| {
            let Timing {
                period,
                deadline,
                wcet,
            } = task.timing;
            (Nanos::ZERO < wcet || !set.graphs.is_empty())
                && wcet <= deadline
                && deadline <= period
                && period <= MAX_PERIOD
                && task.memory.swappable <= task.memory.footprint
                && !task.name.trim().is_empty()
                && task.name.chars().count() <= MAX_NAME
        })
}
