//! `rtswapctl profile` on models whose memory and times are known, and what its profiles promise.
#![allow(missing_docs)]

mod judge;
mod measure;
mod models;
mod promise;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rtswap_e2e::{Machine, Verdict, until_judged};

use judge::{Bounds, Judge};
use models::{MODELS, demo_gpu};

/// So many jobs `rtswapctl profile` runs by default.
const JOBS: usize = 200;
const BOUNDS: Bounds = Bounds {
    known: 2.0,
    median: 2.0,
    high: 5.0,
};
/// The same on a machine that may have other things to do.
const FEW_JOBS: usize = 30;
const LOOSE: Bounds = Bounds {
    known: f64::INFINITY,
    median: 30.0,
    high: 150.0,
};
/// How long the models run from their profiles, in seconds, unless this variable says otherwise.
const SPAN: &str = "RTSWAP_PROFILED_SECONDS";
const SECONDS: u64 = 300;

fn span() -> Result<Duration> {
    let seconds = match std::env::var(SPAN) {
        Ok(text) => text.parse().with_context(|| format!("{SPAN}={text}"))?,
        Err(_) => SECONDS,
    };
    Ok(Duration::from_secs(seconds))
}

#[test]
#[ignore = "7 minutes, and nothing beside it: cargo test -p rtswap-e2e --test profiled -- --ignored --nocapture"]
fn three_models_are_measured_and_run_from_their_profiles_alone() -> Result<()> {
    let span = span()?;
    let machine = Machine::new(demo_gpu())?;
    let daemon = machine.daemon()?;
    let mut judge = Judge::new(BOUNDS);
    let mut profiled = Vec::new();
    for model in MODELS {
        let (profile, truth) = measure::profile(&machine, &model, JOBS)?;
        judge.add(&profile, &truth);
        profiled.push((model, profile));
    }
    println!("{}", judge.table());
    promise::keep(&machine, &profiled, span).with_context(|| daemon.stderr())?;
    let Judge { sizes, times, .. } = judge;
    ensure!(
        sizes.is_empty() && times.is_empty(),
        "{sizes:#?} {times:#?}"
    );
    Ok(())
}

/// What is compared are the same jobs, as the program and as the recorder saw them, so that most of what a busy host adds
/// is in both. The configuration's time is not: it has nothing of the host.
#[test]
fn a_models_memory_is_exact_and_its_times_are_its_own() -> Result<()> {
    until_judged("the times of a profile", || {
        let machine = Machine::new(demo_gpu())?;
        let _daemon = machine.daemon()?;
        let model = MODELS[0].of_one_pass();
        let (profile, truth) = measure::profile(&machine, &model, FEW_JOBS)?;
        let mut judge = Judge::new(LOOSE);
        judge.add(&profile, &truth);
        let table = judge.table();
        ensure!(judge.sizes.is_empty(), "{:#?}\n{table}", judge.sizes);
        Ok(match &*judge.times {
            [] => Verdict::Judged,
            times => Verdict::Unjudged(times.join(", ") + "\n" + &table),
        })
    })
}
