//! A good calibration, each way to be wrong with its message, and that what is written is read as the same.

use proptest::prelude::*;
use rtswap_policy::cost::DirectionCost;

use super::*;
use crate::GRANULARITY;

const GOOD: &str = r#"version = 1
gpu = "GPU-01234567-89ab-cdef-0123-456789abcdef"
name = "NVIDIA H200"
measured = 2026-11-27T13:00:00Z
chunk = "16MiB"
duplex = 0.93

[swap_cost.out]
base_us = 120
per_chunk_us = 73.6
gib_per_s = 12.08

[swap_cost.in]
base_us = 130.5
per_chunk_us = 79.5
gib_per_s = 11.18

[measured_with]
driver = "580.95.05"
create_us = "41.2"
"#;

fn good() -> Calibration {
    let mut swap_cost = SwapCost::PAPER;
    swap_cost.out.base = Nanos(120_000);
    swap_cost.in_.base = Nanos(130_500);
    Calibration {
        gpu: "GPU-01234567-89ab-cdef-0123-456789abcdef".into(),
        name: Some("NVIDIA H200".into()),
        measured: 1_795_784_400,
        chunk: Bytes(16 << 20),
        duplex: Ppm(930_000),
        swap_cost,
        notes: vec![
            ("driver".into(), "580.95.05".into()),
            ("create_us".into(), "41.2".into()),
        ],
    }
}

#[test]
fn everything_can_be_said() {
    assert_eq!(parse(GOOD), Ok(good()));
    assert_eq!(good().to_toml(), GOOD);
    let number = GOOD.replace("\"41.2\"", "41.2");
    assert_eq!(parse(&number), Ok(good()), "a note may be a number");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (from, to, expected) in [
        (
            "version = 1",
            "version = 2",
            "1:11: version: version 2 is not known; write version = 1",
        ),
        (
            "duplex",
            "duplx",
            "6:1: duplx: unknown key; did you mean duplex?",
        ),
        (
            "0.93",
            "1.5",
            "6:10: duplex: 1.5 is no share: 0 < duplex ≤ 1; write, for example, 0.8",
        ),
        (
            "16MiB",
            "3MiB",
            "5:9: chunk: 3145728 bytes (3.0 MiB) is no multiple of 2MiB, the least that CUDA maps; write \"2MiB\"",
        ),
        (
            "GPU-0",
            "gpu-0",
            "2:7: gpu: \"gpu-01234567-89ab-cdef-0123-456789abcdef\" is not the UUID of a GPU or MIG instance; write it as `nvidia-smi -L` does, such as GPU-01234567-89ab-cdef-0123-456789abcdef",
        ),
        (
            "13:00:00Z",
            "13:00:00",
            "4:12: measured: not a time with date and offset since 1970; write, for example, measured = 2026-11-27T13:00:00Z",
        ),
        (
            "measured = 2026-11-27T13:00:00Z\n",
            "",
            "1:1: measured: missing; write, for example, measured = 2026-11-27T13:00:00Z",
        ),
        (
            "base_us = 120",
            "base_us = 10000001",
            "9:11: swap_cost.out.base_us: longer than 10 s, which no swap is held up for; measure again",
        ),
        (
            "gib_per_s = 12.08",
            "gib_per_s = 1e6",
            "11:13: swap_cost.out.gib_per_s: faster than any link; write less than 1000000, or measure again",
        ),
        (
            "gib_per_s = 12.08",
            "gib_per_s = 0",
            "11:13: swap_cost.out.gib_per_s: must be more than 0; write, for example, 12.08",
        ),
        (
            "[swap_cost.in]\nbase_us = 130.5\nper_chunk_us = 79.5\ngib_per_s = 11.18",
            "",
            "8:2: swap_cost.in: missing; write, for example, [swap_cost.in]",
        ),
        (
            "\"41.2\"",
            "[1]",
            "20:1: measured_with: a note is a text of at most 255 visible characters, or a number; leave this one out",
        ),
        (
            "NVIDIA",
            "NVI\\u0007DIA",
            "3:8: name: the name \"NVI\\u{7}DIA H200\" has a control character or an invisible one; leave it out",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn direction() -> impl Strategy<Value = DirectionCost> {
    let most = 0..=MAX_COST.0;
    let rate = prop_oneof![1_u64..100_000, 1..RATE_LIMIT << 30];
    (most.clone(), most, rate).prop_map(|(base, per_chunk, bytes_per_second)| DirectionCost {
        base: Nanos(base),
        per_chunk: Nanos(per_chunk),
        bytes_per_second,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same(
        (out, in_) in (direction(), direction()),
        chunk in 1_u64..1_000,
        duplex in 1_u32..=1_000_000,
        measured in 0_u64..253_402_300_800,
        name in prop::option::of("[ -~]{1,20}[a-z]"),
        notes in prop::collection::btree_map("[ -~]{0,9}", "[ -~é]{0,20}", 0..5),
    ) {
        let calibration = Calibration {
            name,
            measured,
            chunk: Bytes(chunk * GRANULARITY.0),
            duplex: Ppm(duplex),
            swap_cost: SwapCost { out, in_ },
            notes: notes.into_iter().collect(),
            ..good()
        };
        let text = calibration.to_toml();
        prop_assert_eq!(parse(&text), Ok(calibration), "{}", text);
    }

    #[test]
    fn no_text_panics(at in any::<prop::sample::Index>(), removed in 0_usize..9, put in ".{0,4}") {
        let mut text: Vec<char> = GOOD.chars().collect();
        let from = at.index(text.len() + 1);
        let to = (from + removed).min(text.len());
        text.splice(from..to, put.chars());
        let text: String = text.into_iter().collect();
        if let Ok(calibration) = parse(&text) {
            prop_assert_eq!(parse(&calibration.to_toml()), Ok(calibration));
        }
    }
}
