//! What a program is told that the daemon refuses.

use super::*;
use crate::gate::lock_briefly;

#[test]
fn a_refusal_is_told_in_the_daemons_words() {
    let driver = FakeDriver::leak([9; 16], MEMORY);
    let listener = Listener::new("refusal");
    let config = Config {
        socket: listener.path.clone(),
        task: Some("yolo".into()),
        ..Config::default()
    };
    std::thread::scope(|scope| {
        let started = scope.spawn(|| Agent::start(driver, config).map(|_| ()));
        listener.refuse("no registration \"yolo\" of user 1000");
        let error = started.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("no registration"), "{error}");
    });
}

#[test]
fn the_reason_is_told_before_memory_is_refused() {
    let bench = bench("reason", |terms| terms.budget = CHUNK);
    let session = bench.agent.devices[0].memory().view().session.clone();
    std::thread::scope(|scope| {
        // As if another thread had read the reason, and not told it yet.
        let telling = lock_briefly(&session.telling);
        let asked = scope.spawn(|| bench.agent.alloc(3 * CHUNK));
        bench.daemon.answer_next(|_| CHUNK);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!asked.is_finished(), "the program may end now");
        drop(telling);
        assert_eq!(asked.join().unwrap(), Some(Err(Status::OUT_OF_MEMORY)));
    });
}

#[test]
fn what_left_the_gpu_while_the_daemon_was_asked_is_asked_about_again() {
    let mut bench = bench("moved", |terms| terms.budget = 2 * CHUNK + CONTEXT);
    bench.alloc(2 * CHUNK);
    bench.daemon.set_volume(2 * CHUNK);
    let agent = bench.agent;
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| agent.alloc(2 * CHUNK));
        let daemon = &mut bench.daemon;
        daemon.until("a question", |block| block.agent.wanted());
        assert_eq!(daemon.swap(Direction::Out, CHUNK), SwapOutcome::Done);
        let too_much = daemon.answer_next(|_| 0);
        let right = daemon.answer_next(|wanted| wanted);
        assert_eq!(
            (too_much, right),
            (4 * CHUNK + CONTEXT, 3 * CHUNK + CONTEXT)
        );
        asked.join().unwrap().expect("managed").expect("granted");
    });
    assert_eq!(bench.usage(), (3 * CHUNK + CONTEXT, CHUNK));
}
