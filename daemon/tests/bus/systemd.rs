//! What the service manager is told.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use crate::common::{BOUND, Home, ONE_GPU};

#[test]
fn the_service_manager_is_told_of_the_start_the_life_and_the_end() {
    let home = Home::new(ONE_GPU);
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    let mut daemon = home.daemon_with(|command| {
        command
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", "300000");
    });
    let next = || {
        let mut text = [0; 256];
        let length = socket.recv(&mut text).expect("a word");
        String::from_utf8_lossy(&text[..length]).trim().to_owned()
    };
    assert_eq!(next(), "READY=1");
    for _ in 0..3 {
        assert_eq!(next(), "WATCHDOG=1");
    }
    assert_eq!(daemon.terminate(), Some(0));
    loop {
        match next().as_str() {
            "WATCHDOG=1" => {}
            other => break assert_eq!(other, "STOPPING=1"),
        }
    }
    socket
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    // Nothing more, but of its watchdog, which is fed until the process is gone.
    let mut text = [0; 256];
    while let Ok(length) = socket.recv(&mut text) {
        assert_eq!(text[..length].trim_ascii(), b"WATCHDOG=1");
    }
}
