//! What another process is given, whatever the program does with its memory meanwhile.

use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::message::{IpcHandle, Reply};
use super::open::{ask, connect};
use crate::agent::tests::{Bench, CHUNK, bench, pattern};
use crate::driver::fake::FakeDriver;
use crate::session::fake_daemon::BOUND;

const BYTES: u64 = 2 * CHUNK;

/// How long the program may take to free and create anew, where nothing keeps it from doing so.
const RACE: Duration = Duration::from_millis(300);

/// The handle of an object that is filled with bytes and offered.
fn offer(bench: &Bench, at: u64, bytes: &[u8]) -> IpcHandle {
    let offered = bench.launch(|| {
        bench.driver.write(at, bytes).unwrap();
        bench.agent.offer(at)
    });
    offered.expect("of the arena").unwrap()
}

/// What another process is told and given.
fn asked(handle: &IpcHandle) -> Result<(Reply, Vec<OwnedFd>), Errno> {
    ask(&connect(handle.socket)?, handle, 0, Instant::now() + BOUND)
}

fn contents(chunks: &[OwnedFd]) -> Vec<u8> {
    let chunks = chunks.iter();
    let bytes = chunks.map(|chunk| FakeDriver::exported(chunk).unwrap());
    bytes.flatten().collect()
}

#[test]
fn memory_that_is_freed_during_an_export_makes_room_for_nobody_elses() {
    let bench = bench("export-race", |_| ());
    let at = bench.alloc(BYTES);
    let [offered, secret] = [3, 5].map(|seed| pattern(seed, BYTES as usize));
    let handle = offer(&bench, at, &offered);
    let (agent, driver) = (bench.agent, bench.driver);
    let (said, replaced) = mpsc::channel();
    let theirs = secret.clone();
    driver.before_export(Box::new(move || {
        let program = std::thread::spawn(move || {
            agent.free(at).expect("of the arena").unwrap();
            let other = agent.alloc(BYTES).expect("managed").unwrap();
            driver.write(other, &theirs).unwrap();
            other
        });
        let start = Instant::now();
        while !program.is_finished() && start.elapsed() < RACE {
            std::thread::yield_now();
        }
        said.send(program).unwrap();
    }));
    let given = asked(&handle);
    let program = replaced.recv_timeout(BOUND).unwrap();
    assert_eq!(program.join().unwrap(), at, "other memory lies there");
    assert_eq!(driver.read(at, secret.len()), Ok(secret));
    if let Ok((reply, chunks)) = given {
        assert_eq!((reply.chunks, reply.offset), (2, 0));
        assert!(contents(&chunks) == offered, "pages of other memory");
    }
    assert_eq!(asked(&handle).err(), Some(Errno::ACCESS), "it is freed");
}

#[test]
fn what_lies_where_something_was_offered_is_not_given() {
    let bench = bench("offered-before", |_| ());
    let at = bench.alloc(BYTES);
    let bytes = pattern(7, BYTES as usize);
    let handle = offer(&bench, at, &bytes);
    let (_, chunks) = asked(&handle).unwrap();
    assert!(contents(&chunks) == bytes);
    bench.agent.free(at).expect("of the arena").unwrap();
    assert_eq!(
        asked(&handle).err(),
        Some(Errno::ACCESS),
        "nothing is there"
    );
    assert_eq!(bench.alloc(BYTES), at);
    assert_eq!(asked(&handle).err(), Some(Errno::ACCESS), "it is another's");
}
