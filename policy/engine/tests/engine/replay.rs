//! The same inputs at the same times give the same outputs.

use rtswap_engine::Engine;

use crate::harness::{Entry, Op, Pair, Rng, Setting};

fn tape(seed: u64) -> (Setting, Vec<Entry>) {
    let setting = Setting::of(seed);
    let mut rng = Rng(seed);
    let mut pair = Pair::taped(setting.clone());
    pair.begin();
    for _ in 0..600 {
        let (op, bell) = Op::random(&mut rng, seed.is_multiple_of(2));
        pair.step(op, bell);
    }
    (setting, pair.tape.unwrap_or_default())
}

fn replay(setting: &Setting, tape: &[Entry]) -> usize {
    let mut engine = Engine::new(setting.config());
    let mut outputs = 0;
    for (place, entry) in tape.iter().enumerate() {
        match entry {
            Entry::Input(now, input) => engine.handle(*now, input.clone()),
            Entry::Output(expected) => {
                let output = engine.poll_output().map(|output| format!("{output:?}"));
                assert_eq!(output.as_ref(), Some(expected), "entry {place}");
                outputs += 1;
            }
            Entry::Quiet(wakes) => {
                let rest = (engine.poll_output(), engine.poll_timeout());
                assert_eq!(rest, (None, *wakes), "entry {place}");
            }
        }
    }
    outputs
}

#[test]
fn a_replay_gives_the_same_outputs() {
    for seed in 0..16 {
        let (setting, tape) = tape(seed);
        let outputs = replay(&setting, &tape);
        assert!(outputs > 300, "seed {seed} has {outputs} outputs");
        assert_eq!(replay(&setting, &tape), outputs);
    }
}
