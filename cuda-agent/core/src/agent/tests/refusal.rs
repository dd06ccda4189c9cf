//! What a program is told that the daemon refuses.

use super::*;

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
