use std::boxed::Box;
use std::vec;

use rtswap_policy::units::{Bytes, Nanos, Time};

use super::world::{GIB, GPU, World, config, realtime, shown};
use crate::config::OnViolation;
use crate::ids::{CallId, ConnectionId};
use crate::input::{Call, Input};
use crate::output::Output;
use crate::sample::{Held, ProbeSample, ProbeState, ProbedProcess};

/// A process with 2 GiB, as NVML shows it.
fn with_process() -> (World, ConnectionId) {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let agent = world.hello(7, None);
    world.ask_memory(agent, 2 * GIB);
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(7, 2 * GIB)])]);
    (world, agent)
}

#[test]
fn memory_of_the_dead_is_dying_until_nvml_shows_it_gone() {
    let (mut world, agent) = with_process();
    world.take_outputs();
    world.die(agent);
    assert_eq!(world.dying(), 2 * GIB);
    assert_eq!(world.hurries(), [true]);
    // Reading began before the death.
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.dying(), 2 * GIB, "it lived then");
    world.wait(20);
    world.nvml(vec![shown(GPU, &[(7, 2 * GIB)])]);
    assert_eq!(world.dying(), 2 * GIB, "the driver still has it");
    assert_eq!(world.hurries(), [true], "said once");
    world.wait(20);
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.dying(), 0);
    assert_eq!(world.hurries(), [true, false]);
}

#[test]
fn memory_of_the_dead_is_free_after_a_grace_where_there_is_no_nvml() {
    let mut world = World::new(config(), vec![], vec![]);
    let agent = world.hello(7, None);
    world.ask_memory(agent, 2 * GIB);
    world.nvml(vec![]);
    world.take_outputs();
    world.die(agent);
    world.wait(249);
    assert_eq!(world.dying(), 2 * GIB);
    world.wait(1);
    assert_eq!(world.dying(), 0);
    assert!(world.hurries().is_empty(), "nobody to ask");
}

#[test]
fn memory_of_a_program_that_executed_another_is_free_after_a_grace() {
    let (mut world, agent) = with_process();
    world.disconnect(agent);
    assert_eq!(world.dying(), 0, "the process may live on");
    world.take_outputs();
    world.hello_on(ConnectionId(70), 7, None);
    assert_eq!(world.dying(), 2 * GIB);
    // NVML may show for ever what the pid holds now.
    world.wait(249);
    world.nvml(vec![shown(GPU, &[(7, GIB)])]);
    assert_eq!(world.dying(), 2 * GIB);
    world.wait(2);
    world.nvml(vec![shown(GPU, &[(7, GIB)])]);
    assert_eq!(world.dying(), 0);
}

#[test]
fn what_nvml_shows_no_more_of_a_program_that_executed_another_is_free_at_once() {
    let (mut world, agent) = with_process();
    world.disconnect(agent);
    world.hello_on(ConnectionId(70), 7, None);
    world.wait(2);
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.dying(), 0);
    assert!(world.violations().is_empty(), "there is no realtime");
}

#[test]
fn the_dead_are_not_waited_for_once_the_driver_hangs() {
    let (mut world, agent) = with_process();
    world.die(agent);
    world.take_outputs();
    // A sample is late 10 s after its time.
    world.wait(10_499);
    assert_eq!(
        (world.dying(), world.lines("does not answer").len()),
        (2 * GIB, 0)
    );
    world.wait(1);
    assert_eq!(world.lines("does not answer").len(), 1);
    assert_eq!(world.dying(), 0, "the grace was over long ago");
    world.wait(60_000);
    assert_eq!(world.lines("does not answer").len(), 1, "said once");
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.lines("the driver answers again").len(), 1);
    world.take_outputs();
    world.wait(10_500);
    assert_eq!(world.lines("does not answer").len(), 1);
}

#[test]
fn a_process_that_the_driver_does_not_let_go_of_is_named_once() {
    let (mut world, agent) = with_process();
    world.die(agent);
    for _ in 0..60 {
        world.wait(500);
        world.nvml(vec![shown(GPU, &[(7, 2 * GIB)])]);
    }
    let late = world.lines("its memory is not back yet");
    assert_eq!(late.len(), 1);
    assert_eq!((late[0].pid, late[0].gpu), (Some(7), Some(0)));
    assert_eq!(world.dying(), 2 * GIB);
}

/// An agent of a realtime task that reports 1 GiB less than NVML shows, for 3 s.
fn underreports(on_violation: OnViolation) -> (World, ConnectionId) {
    let mut config = config();
    config.everybody.on_violation = Some(on_violation);
    let tasks = vec![realtime("a", 4 * GIB, 2 * GIB)];
    let mut world = World::new(config, tasks, vec![shown(GPU, &[])]);
    let agent = world.hello(7, Some("a"));
    world.ask_memory(agent, 2 * GIB);
    world.take_outputs();
    for _ in 0..30 {
        world.wait(100);
        world.nvml(vec![shown(GPU, &[(7, 3 * GIB)])]);
    }
    (world, agent)
}

#[test]
fn an_agent_that_underreports_is_told_of() {
    let (world, _) = underreports(OnViolation::Warn);
    assert_eq!(world.violations(), ["underreport"]);
    let lines = world.lines("underreport: the witnesses differ");
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].pid, Some(7));
    assert_eq!(
        lines[0].text,
        "underreport: the witnesses differ: 3.00 GiB by NVML, 2.00 GiB by its agent"
    );
    assert!(world.task("a").volume.is_some(), "it stays realtime");
    let capacity = (8 * GIB - 128 * (1 << 20)) - GIB;
    assert_eq!(
        world.capacity(),
        capacity,
        "what it hides takes from the capacity"
    );
}

#[test]
fn an_agent_that_underreports_is_demoted_where_the_configuration_says_so() {
    let (world, _) = underreports(OnViolation::Demote);
    assert_eq!(world.violations(), ["underreport"]);
    assert_eq!(world.lines("its task is best-effort from now on").len(), 1);
    assert_eq!(world.task("a").volume, None);
    let id = world.registration("a");
    assert!(world.engine.registry.get(id).unwrap().demoted);
}

#[test]
fn an_agent_that_underreports_is_killed_where_the_configuration_says_so() {
    let (mut world, agent) = underreports(OnViolation::Kill);
    assert_eq!(world.violations(), ["underreport"]);
    let said = world.lines("violation: process 7 holds 3.00 GiB by NVML");
    assert!(said[0].text.ends_with("; process 7 is killed"));
    assert_eq!(said[0].kind, Some("underreport"));
    let kills = |outputs: &[Output]| {
        let kills = outputs.iter().filter(|it| **it == Output::Kill(agent));
        kills.count()
    };
    assert_eq!(kills(&world.take_outputs()), 1);
    assert!(world.task("a").volume.is_some());
}

#[test]
fn capacity_falls_at_once_and_rises_once_that_lasts() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let all = world.capacity();
    assert_eq!(all, 8 * GIB - 128 * (1 << 20));
    world.take_outputs();
    world.wait(500);
    world.nvml(vec![shown(GPU, &[(99, 3 * GIB)])]);
    assert_eq!(world.capacity(), all - 3 * GIB);
    assert_eq!(
        world
            .lines("a process without an agent holds 3.00 GiB")
            .len(),
        1
    );
    assert_eq!(
        world.lines("capacity changed")[0].text,
        "capacity changed to 4.88 GiB: others hold 3.00 GiB"
    );
    assert_eq!(
        world.engine.shortage(0).unwrap(),
        (
            "memory was short because others hold 3.00 GiB".into(),
            ", most of it process 99 (unknown)".into()
        )
    );
    assert!(world.hurries().is_empty());
    world.wait(500);
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.capacity(), all - 3 * GIB, "not yet");
    assert_eq!(world.hurries(), [true], "soon known");
    world.wait(250);
    world.nvml(vec![shown(GPU, &[])]);
    assert_eq!(world.capacity(), all);
    assert_eq!(world.hurries(), [true, false]);
    assert_eq!(world.engine.shortage(0), None);
}

/// What the probes count of one process since it began.
fn probed(pid: u32, bytes: u64) -> ProbeSample {
    let process = ProbedProcess {
        pid,
        identity: None,
        first_seen: Time(1_000_000_000),
        early: false,
        exact: true,
        trusted: true,
        held: vec![Held {
            gpu: Some(GPU),
            bytes: Bytes(bytes),
            managed: Bytes::ZERO,
        }],
    };
    ProbeSample {
        state: ProbeState::On {
            libraries: 1,
            lost_news: 0,
            lost_calls: 0,
        },
        complete_at: Time::ZERO,
        processes: vec![process],
    }
}

#[test]
fn the_probes_see_a_process_grow_between_two_samples_of_nvml() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let all = world.capacity();
    world.put(Input::Probes(probed(99, GIB)));
    assert_eq!(world.capacity(), all, "NVML has not shown it there");
    assert_eq!(world.hurries(), [true]);
    world.wait(20);
    world.nvml(vec![shown(GPU, &[(99, GIB)])]);
    assert_eq!(world.capacity(), all - GIB);
    world.put(Input::Probes(probed(99, 3 * GIB)));
    assert_eq!(world.capacity(), all - 3 * GIB);
}

#[test]
fn the_probes_catch_an_agent_that_hides_a_chunk() {
    let (mut world, agent) = with_process();
    world.take_outputs();
    world.say_resident(agent, GIB);
    for _ in 0..4 {
        world.wait(100);
        world.put(Input::Probes(probed(7, 2 * GIB)));
    }
    assert_eq!(world.violations(), ["underreport"]);
    assert_eq!(
        world.lines("the witnesses differ")[0].text,
        "underreport: the witnesses differ: 2.00 GiB by the probes, 1.00 GiB by its agent"
    );
}

#[test]
fn lost_records_are_told_once_and_again_when_doubled() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let mut lose = |lost_news, lost_calls| {
        world.take_outputs();
        world.put(Input::Probes(ProbeSample {
            state: ProbeState::On {
                libraries: 1,
                lost_news,
                lost_calls,
            },
            complete_at: Time::ZERO,
            processes: vec![],
        }));
        (
            world.lines("records of the probes").len(),
            world.lines("calls of processes").len(),
        )
    };
    assert_eq!(lose(0, 0), (0, 0));
    assert_eq!(lose(1, 0), (1, 0));
    assert_eq!(lose(1, 0), (0, 0));
    assert_eq!(lose(1, 1), (1, 1));
    assert_eq!(lose(2, 1), (0, 0));
    assert_eq!(lose(2, 2), (1, 1));
}

#[test]
fn a_longer_period_of_nvml_is_no_hang() {
    let mut world = World::new(config(), vec![], vec![shown(GPU, &[])]);
    let mut config = config();
    config.settings.nvml_period = Nanos(60_000_000_000);
    let tasks = vec![];
    let call = Call::Reload { config, tasks };
    world.put(Input::Call(CallId(1), Box::new(call)));
    world.wait(69_999);
    assert_eq!(world.lines("does not answer").len(), 0);
    world.wait(1);
    assert_eq!(world.lines("does not answer").len(), 1);
}
