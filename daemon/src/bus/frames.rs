//! Where messages begin and end in a connection's bytes, and how long they may be. Only the first 16
//! bytes of each are looked at; that the rest makes sense is zbus's to check.

use std::io;

/// The longest call that makes sense is a fraction of it.
const LONGEST: u64 = 64 << 10;

/// The part of a message that is always there, and has its lengths.
const HEADER: usize = 16;

const METHOD_CALL: u8 = 1;

/// "No answer, please", among the flags in byte 2.
const NO_REPLY_EXPECTED: u8 = 1;

/// How far the bytes have been followed.
#[derive(Debug)]
pub(super) struct Frames(Place);

#[derive(Debug)]
enum Place {
    /// Lines of text, until one that says BEGIN: so much of it was read.
    Authentication(usize),
    /// In a header.
    Header { bytes: [u8; HEADER], read: usize },
    /// So many bytes before the next.
    Body(u64),
}

const BEGIN: &[u8] = b"\nBEGIN\r\n";

const NEXT: Place = Place::Header {
    bytes: [0; HEADER],
    read: 0,
};

impl Default for Frames {
    fn default() -> Self {
        Self(Place::Authentication(0))
    }
}

impl Frames {
    /// Whether the next byte begins a message.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.0, Place::Header { read: 0, .. })
    }

    /// Follows `bytes`: how many calls begin in them. Each is made to ask for an answer, as D-Bus
    /// allows, so that its end is seen.
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut calls = 0;
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.0 {
                Place::Authentication(matched) => {
                    let byte = bytes[at];
                    at += 1;
                    *matched = match byte {
                        byte if byte == BEGIN[*matched] => *matched + 1,
                        b'\n' => 1,
                        _ => 0,
                    };
                    if *matched == BEGIN.len() {
                        self.0 = NEXT;
                    }
                }
                Place::Header {
                    bytes: header,
                    read,
                } => {
                    if *read == 2 && header[1] == METHOD_CALL {
                        bytes[at] &= !NO_REPLY_EXPECTED;
                    }
                    header[*read] = bytes[at];
                    (*read, at) = (*read + 1, at + 1);
                    if *read == HEADER {
                        calls += usize::from(header[1] == METHOD_CALL);
                        self.0 = after(header)?;
                    }
                }
                Place::Body(left) => {
                    let here = (*left).min((bytes.len() - at) as u64);
                    (*left, at) = (*left - here, at + here as usize);
                    if *left == 0 {
                        self.0 = NEXT;
                    }
                }
            }
        }
        Ok(calls)
    }
}

/// What follows a header.
fn after(header: &[u8; HEADER]) -> io::Result<Place> {
    let number = |at: usize| {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        u64::from(match header[0] {
            b'B' => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        })
    };
    let (body, fields) = (number(4), number(12));
    let left = fields.next_multiple_of(8) + body;
    if left > LONGEST {
        let text = format!("a message of {left} bytes, where no call has more than {LONGEST}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(if left == 0 { NEXT } else { Place::Body(left) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zbus::Message;
    use zbus::message::Flags;

    const HELLO: &[u8] = b"\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n";

    fn call(text: &str, flags: Flags) -> Message {
        let call = Message::method_call("/org/rtswap", "Register");
        call.with_flags(flags).build(&(text,)).unwrap()
    }

    proptest! {
        #[test]
        fn messages_are_found_however_they_are_cut(
            texts in proptest::collection::vec("[a-z]{0,40}", 0..5),
            cuts in proptest::collection::vec(1_usize..50, 1..200),
        ) {
            let mut bytes = HELLO.to_vec();
            let mut expected = bytes.clone();
            for text in &texts {
                let signal = Message::signal("/", "a.b", "C").build(&()).unwrap();
                let call = call(text, Flags::NO_REPLY_EXPECTED);
                expected.extend_from_slice(call.data());
                let flags = bytes.len() + 2;
                prop_assert_eq!(expected[flags], NO_REPLY_EXPECTED);
                expected[flags] = 0;
                expected.extend_from_slice(signal.data());
                bytes.extend_from_slice(call.data());
                bytes.extend_from_slice(signal.data());
            }
            let (mut frames, mut calls, mut rest) = (Frames::default(), 0, bytes.as_mut_slice());
            for cut in cuts.iter().cycle() {
                let (part, others) = rest.split_at_mut((*cut).min(rest.len()));
                calls += frames.take(part).unwrap();
                rest = others;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(frames.is_between());
            prop_assert_eq!(calls, texts.len());
            prop_assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_at_its_header() {
        let mut frames = Frames::default();
        frames.take(&mut HELLO.to_vec()).unwrap();
        let mut header = *b"l\x01\0\x01\0\0\0\x07\x01\0\0\0\x40\0\0\0";
        let error = frames.take(&mut header).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a message of 117440576 bytes, where no call has more than 65536"
        );
    }

    #[test]
    fn begin_is_a_line_of_its_own() {
        let mut frames = Frames::default();
        frames
            .take(&mut b"\0AUTH BEGIN\r\n\nBEGI\nBEGIN".to_vec())
            .unwrap();
        assert!(!frames.is_between());
        frames.take(&mut b"\r\n".to_vec()).unwrap();
        assert!(frames.is_between());
    }
}
