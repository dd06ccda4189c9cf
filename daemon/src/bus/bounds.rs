//! Bounds on the size of a message, checked on its first bytes, before memory is taken for the rest.
//! zbus checks the contents.

use std::io;

/// Most bytes of a message behind its fixed header; no sensible call has more than a fraction of them.
const LONGEST: u64 = 64 << 10;

/// Most bytes of an authentication; any real one has less.
const LONGEST_AUTHENTICATION: usize = 4 << 10;

/// Most descriptors in one message: `Register` takes one.
const MOST_FDS: usize = 1;

/// Bytes of a message's fixed header, which has the lengths of the rest.
const HEADER: usize = 16;

const METHOD_CALL: u8 = 1;

/// The flag in byte 2 of a call that wants no answer.
const NO_REPLY_EXPECTED: u8 = 1;

/// The part of the current message that was read, or of the authentication before the first message.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// The fixed header as far as it was read; none during the authentication.
    header: Option<Vec<u8>>,
    bytes: usize,
    fds: usize,
}

impl Bounds {
    /// Begins the next message, of which the bytes `early` came with the message before, and `fds`
    /// descriptors with them.
    pub(super) fn begin(&mut self, early: &mut [u8], fds: usize) -> io::Result<()> {
        *self = Self {
            header: Some(Vec::with_capacity(HEADER)),
            ..Self::default()
        };
        self.take(early, fds)
    }

    /// Counts bytes and `fds` descriptors that came, and fails if they are too many. The flag
    /// NO_REPLY_EXPECTED is cleared in calls, as D-Bus allows, so that each call has an end that is
    /// seen.
    pub(super) fn take(&mut self, bytes: &mut [u8], fds: usize) -> io::Result<()> {
        self.fds += fds;
        if self.fds > MOST_FDS {
            return Err(excess("more descriptors than any call takes".into()));
        }
        let Some(header) = &mut self.header else {
            self.bytes += bytes.len();
            if self.bytes > LONGEST_AUTHENTICATION {
                return Err(excess("an authentication without end".into()));
            }
            return Ok(());
        };
        let missing = HEADER - header.len();
        for byte in bytes.iter_mut().take(missing) {
            if header.len() == 2 && header[1] == METHOD_CALL {
                *byte &= !NO_REPLY_EXPECTED;
            }
            header.push(*byte);
        }
        let rest = rest(header);
        if header.len() == HEADER && rest > LONGEST {
            let text = format!("a message of {rest} bytes, where no call has more than {LONGEST}");
            return Err(excess(text));
        }
        Ok(())
    }
}

fn excess(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The number of bytes behind a complete fixed header: header fields and body.
fn rest(header: &[u8]) -> u64 {
    let number = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|four| four.try_into().ok());
        let bytes = bytes.unwrap_or_default();
        u64::from(match header.first() {
            Some(b'B') => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        })
    };
    number(12).next_multiple_of(8) + number(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zbus::Message;
    use zbus::message::Flags;

    fn begun() -> Bounds {
        let mut bounds = Bounds::default();
        bounds.begin(&mut [], 0).unwrap();
        bounds
    }

    proptest! {
        #[test]
        fn a_call_asks_for_its_answer_however_it_is_cut(
            early in 0_usize..40,
            cuts in proptest::collection::vec(1_usize..30, 1..20),
        ) {
            let call = Message::method_call("/org/rtswap", "Register");
            let call = call.with_flags(Flags::NO_REPLY_EXPECTED).build(&("x",)).unwrap();
            let mut bytes = call.data().to_vec();
            let mut expected = bytes.clone();
            prop_assert_eq!(expected[2], NO_REPLY_EXPECTED);
            expected[2] = 0;
            let (first, mut left) = bytes.split_at_mut(early);
            let mut bounds = Bounds::default();
            bounds.begin(first, 0).unwrap();
            for cut in cuts.iter().cycle() {
                let (part, others) = left.split_at_mut((*cut).min(left.len()));
                bounds.take(part, 0).unwrap();
                left = others;
                if left.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(bytes, expected);
        }
    }

    #[test]
    fn what_is_too_long_is_refused_at_its_header() {
        for mut header in [
            *b"l\x01\0\x01\0\0\0\x07\x01\0\0\0\x40\0\0\0",
            *b"B\x01\0\x01\x07\0\0\0\0\0\0\x01\0\0\0\x40",
        ] {
            let (first, last) = header.split_at_mut(15);
            let mut bounds = begun();
            bounds.take(first, 0).unwrap();
            assert_eq!(
                bounds.take(last, 0).unwrap_err().to_string(),
                "a message of 117440576 bytes, where no call has more than 65536"
            );
        }
    }

    #[test]
    fn descriptors_and_authentications_are_few() {
        let mut bounds = Bounds::default();
        bounds.take(&mut [0; LONGEST_AUTHENTICATION], 1).unwrap();
        assert!(bounds.take(&mut [0], 0).is_err());
        let mut bounds = begun();
        bounds.take(&mut [0; 4], 1).unwrap();
        assert!(bounds.take(&mut [0; 4], 1).is_err());
        bounds.begin(&mut [], 0).unwrap();
        bounds.take(&mut [0; 4], 1).unwrap();
    }
}
