use super::*;
use crate::config::OnViolation;

fn reload(shell: &mut Shell, tasks: Vec<TaskFile>) -> Result<Reply, CallError> {
    let config = shell.engine.config.clone();
    shell.call(Call::Reload { config, tasks })
}

fn shell(tasks: Vec<TaskFile>) -> Shell {
    Shell::start(config(vec![gpu(GPU)]), Saved::default(), &[], tasks)
}

fn longer(name: &str) -> TaskOptions {
    TaskOptions {
        period: Some(Nanos(30_000_000_000)),
        ..realtime(name)
    }
}

fn period(shell: &Shell, name: &str) -> Option<Nanos> {
    let id = shell.engine.registry.find(USER, name)?;
    match shell.engine.registry.get(id)?.task.class {
        rtswap_policy::task::Class::Realtime(timing) => Some(timing.period),
        rtswap_policy::task::Class::BestEffort => None,
    }
}

#[test]
fn an_error_in_one_file_changes_nothing() {
    let mut shell = shell(vec![file(realtime("a"))]);
    let before = shell.engine.saved();
    let twice = vec![file(options("b")), file(options("b"))];
    let wrong = vec![file(options("b")), file(options("../c"))];
    for tasks in [twice, wrong] {
        let error = reload(&mut shell, tasks).unwrap_err();
        assert!(error.to_string().starts_with("tasks.d"), "{error}");
    }
    let mut other = shell.engine.config.clone();
    other.gpus[0].chunk = Bytes(4 * MIB);
    let call = Call::Reload {
        config: other,
        tasks: Vec::new(),
    };
    let error = shell.call(call).unwrap_err();
    assert!(error.to_string().contains("restart rtswapd"), "{error}");
    assert_eq!(shell.engine.saved(), before);
}

#[test]
fn settings_and_files_take_effect_and_are_kept() {
    let mut shell = shell(vec![file(realtime("a")), file(options("b"))]);
    let mut config = shell.engine.config.clone();
    config.everybody.on_violation = Some(OnViolation::Demote);
    let tasks = vec![file(longer("a")), file(options("c"))];
    assert_eq!(shell.call(Call::Reload { config, tasks }), Ok(Reply::Done));
    assert_eq!(
        shell.engine.policy.on_violation(USER, USER, "a"),
        OnViolation::Demote
    );
    assert_eq!(shell.names(), ["a", "c"]);
    assert_eq!(period(&shell, "a"), Some(Nanos(30_000_000_000)));
    let id = shell.engine.registry.find(USER, "a");
    assert_eq!(id, Some(RegistrationId(1)), "under its number");
    assert_eq!(shell.disk.registrations, shell.engine.saved().registrations);
    assert_eq!(shell.engine.gpus[0].scheduler.state().tasks().count(), 1);
}

#[test]
fn another_weight_or_idle_time_is_another_declaration() {
    let mut shell = shell(vec![file(options("a"))]);
    let weighing = TaskOptions {
        weight: Some(300),
        ..options("a")
    };
    assert_eq!(reload(&mut shell, vec![file(weighing)]), Ok(Reply::Done));
    assert_eq!(shell.disk.registrations[0].task.weight.get(), 300);
    assert_eq!(shell.engine.status().tasks[0].weight.get(), 300);
    let idling = TaskOptions {
        idle_after: Some(Nanos(100_000_000)),
        weight: Some(300),
        ..options("a")
    };
    assert_eq!(
        reload(&mut shell, vec![file(idling.clone())]),
        Ok(Reply::Done)
    );
    let task = &shell.engine.status().tasks[0];
    assert_eq!(task.idle_after, idling.idle_after);
}

#[test]
fn what_runs_is_left_as_it_is() {
    let mut shell = shell(vec![file(realtime("a"))]);
    shell.greet(hello(1, 70, Some("a"))).unwrap();
    let error = reload(&mut shell, vec![file(longer("a"))]).unwrap_err();
    let expected = "all else is in effect, but these stay as they were: a: it runs as process 70; \
                    reload again when that has ended";
    assert_eq!(error.to_string(), expected);
    // Nor does it change while its process is awaited by the next daemon.
    let (config, files) = (shell.engine.config.clone(), vec![file(realtime("a"))]);
    let mut shell = Shell::start(config, shell.disk.clone(), &[70], files);
    let error = reload(&mut shell, vec![file(longer("a"))]).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert_eq!(period(&shell, "a"), Some(Nanos(20_000_000_000)));
}

#[test]
fn what_cannot_be_had_stays_as_it_was() {
    let mut shell = shell(vec![file(realtime("a"))]);
    let large = TaskOptions {
        footprint: Some(Bytes(64 * MIB)),
        ..realtime("a")
    };
    let error = reload(&mut shell, vec![file(large)]).unwrap_err();
    assert!(matches!(error, CallError::NotSchedulable(_)), "{error:?}");
    assert_eq!(period(&shell, "a"), Some(Nanos(20_000_000_000)));
    assert_eq!(shell.disk.registrations, shell.engine.saved().registrations);
    assert_eq!(shell.engine.gpus[0].scheduler.state().tasks().count(), 1);
    // It is still what its file said, so that file changes nothing.
    assert_eq!(
        reload(&mut shell, vec![file(realtime("a"))]),
        Ok(Reply::Done)
    );
}

#[test]
fn a_file_does_not_take_a_users_name() {
    let mut shell = Shell::new();
    let id = shell.register(options("a")).unwrap();
    let error = reload(&mut shell, vec![file(realtime("a"))]).unwrap_err();
    assert!(
        error.to_string().contains("has a task named a already"),
        "{error}"
    );
    assert_eq!(shell.engine.registry.find(USER, "a"), Some(id));
    assert_eq!(period(&shell, "a"), None);
}
