//! Asks a query twice, over bytes that differ.

use anyhow::{Result, ensure};

use super::query::Value;
use crate::cuda::{Status, exported};

/// Bytes for one result.
pub(super) const ROOM: usize = 256;
/// What lies there before; the last is what no result has.
pub(super) const FILLS: [u8; 2] = [0x00, 0xa5];
/// Results are at least so aligned.
#[repr(align(16))]
struct Room([u8; ROOM]);

/// Calls a function of the driver by name; none where this driver lacks it.
pub(super) fn call(name: &str, words: &[usize]) -> Option<Status> {
    type Call =
        unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> Status;
    let address = exported(name);
    if address.is_null() {
        return None;
    }
    let word = |index: usize| words.get(index).copied().unwrap_or(0);
    // SAFETY: a driver's function with no more than eight arguments, all of them words; it ignores those it does not have.
    let function: Call = unsafe { std::mem::transmute(address) };
    // SAFETY: the queries give what the function's documentation asks for, and room for every result.
    Some(unsafe {
        function(
            word(0),
            word(1),
            word(2),
            word(3),
            word(4),
            word(5),
            word(6),
            word(7),
        )
    })
}

/// Asks twice: the result must be the same, and what is behind it must stay. Whether it was answered: a driver may lack
/// the function, or refuse the query, and then writes nothing behind the result either.
pub(super) fn check(name: &str, args: &[Value]) -> Result<bool> {
    let mut results: Vec<Vec<u8>> = Vec::new();
    let mut answered = true;
    for fill in FILLS {
        let mut rooms: Vec<Room> = args.iter().map(|arg| Room(filled(*arg, fill))).collect();
        let words: Vec<usize> = args
            .iter()
            .zip(&mut rooms)
            .map(|(arg, room)| match arg {
                Value::Word(word) => *word,
                _ => room.0.as_mut_ptr().expose_provenance(),
            })
            .collect();
        let Some(status) = call(name, &words) else {
            return Ok(false);
        };
        answered &= status == Status::SUCCESS;
        for (number, (arg, room)) in args.iter().zip(&rooms).enumerate() {
            let width = arg.width();
            let behind = room.0[width..].iter().position(|byte| *byte != fill);
            ensure!(
                behind.is_none(),
                "{name}: argument {number} is {width} bytes wide, and byte {} was written",
                width + behind.unwrap_or(0)
            );
            let parts = arg.parts();
            results.push(parts.flat_map(|part| room.0[part].to_vec()).collect());
        }
    }
    let (first, second) = results.split_at(results.len() / 2);
    ensure!(
        !answered || first == second,
        "{name}: what was there before shows through: {first:02x?}, {second:02x?}"
    );
    Ok(answered)
}

/// What lies at an argument's place before the call.
fn filled(arg: Value, fill: u8) -> [u8; ROOM] {
    let mut room = [fill; ROOM];
    if let Value::Number(number) = arg {
        room[..8].copy_from_slice(&number.to_ne_bytes());
    }
    room
}
