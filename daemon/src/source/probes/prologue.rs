//! Where in a function its probe belongs: at the first instruction that the kernel emulates.
//!
//! The kernel emulates the instruction under a uprobe or steps through a copy of it, which takes some 20 times
//! as long (docs/performance.md). What it emulates on x86-64 is in `branch_setup_xol_ops` and
//! `push_setup_xol_ops` of Linux's arch/x86/kernel/uprobes.c: relative jumps and calls, a nop, the push of a
//! register. Most of NVIDIA's drivers
//! begin each function with `cmpl $imm32, disp(%rip)` and a conditional jump. That comparison changes nothing but
//! flags: behind it the arguments are in their registers and the return address is on top of the stack, as an
//! entry and a return probe want them.

/// The instruction `endbr64`, with which a function begins where indirect branches are tracked.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// How many bytes behind the start of a function its probe belongs. `code` is the whole function; where it is
/// unknown or unfit, 0, which is always right and may be slow.
pub(super) fn probe_offset(code: &[u8]) -> usize {
    let start = if code.starts_with(&ENDBR64) {
        ENDBR64.len()
    } else {
        0
    };
    let body = &code[start..];
    let place = if is_emulated(body) {
        start
    } else {
        match comparison(body).and_then(|length| Some((length, body.get(length..)?))) {
            Some((length, rest)) if is_emulated(rest) => start + length,
            _ => 0,
        }
    };
    // Whatever comes back there is in the middle of a call: its stack may be another, and a return probe would
    // overwrite what lies on top of it.
    if may_jump_to(code, place) { 0 } else { place }
}

/// Whether the kernel emulates the first instruction.
fn is_emulated(code: &[u8]) -> bool {
    let length = match code {
        // push of a register and nop; push of r8 to r15, and short jcc and jmp; long jcc; call and jmp.
        [0x50..=0x57 | 0x90, ..] => 1,
        [0x41, 0x50..=0x57, ..] | [0x70..=0x7f | 0xeb, ..] => 2,
        [0x0f, 0x80..=0x8f, ..] => 6,
        [0xe8 | 0xe9, ..] => 5,
        _ => return false,
    };
    code.len() >= length
}

/// The length of the first instruction if it compares a constant with a global (cmp $imm, disp(%rip)), which
/// changes flags alone.
fn comparison(code: &[u8]) -> Option<usize> {
    match code {
        // imm32 with a double word.
        [0x81, 0x3d, ..] => Some(10),
        // imm8 with a double word, or with a byte.
        [0x83 | 0x80, 0x3d, ..] => Some(7),
        _ => None,
    }
}

/// Whether a jump or call at or behind `place` may lead there. Every byte is taken for the beginning of one:
/// instructions are not told apart, so this errs towards yes.
fn may_jump_to(code: &[u8], place: usize) -> bool {
    (place..code.len()).any(|at| {
        let (length, distance) = match code[at..] {
            [0x70..=0x7f | 0xe0..=0xe3 | 0xeb, near, ..] => (2, isize::from(near.cast_signed())),
            [0xe8 | 0xe9, a, b, c, d, ..] => (5, i32::from_le_bytes([a, b, c, d]) as isize),
            [0x0f, 0x80..=0x8f, a, b, c, d, ..] => (6, i32::from_le_bytes([a, b, c, d]) as isize),
            _ => return false,
        };
        (at + length).checked_add_signed(distance) == Some(place)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RET: u8 = 0xc3;
    /// cmpl $0x321cba00, disp(%rip), as NVIDIA's functions begin.
    const CMPL: [u8; 10] = [0x81, 0x3d, 1, 2, 3, 4, 0x00, 0xba, 0x1c, 0x32];
    const JE: [u8; 2] = [0x74, 1];

    fn offset(parts: &[&[u8]]) -> usize {
        probe_offset(&[parts.concat(), vec![RET; 4]].concat())
    }

    #[test]
    fn what_is_emulated_is_probed_where_it_is() {
        let emulated: [&[u8]; 8] = [
            &[0x55],
            &[0x41, 0x57],
            &[0x90],
            &[0x7f, 1],
            &[0xeb, 1],
            &[0xe9, 1, 0, 0, 0],
            &[0xe8, 1, 0, 0, 0],
            &[0x0f, 0x84, 1, 0, 0, 0],
        ];
        for instruction in emulated {
            assert_eq!(offset(&[instruction]), 0);
            assert_eq!(offset(&[&ENDBR64, instruction]), 4);
            assert_eq!(offset(&[&CMPL, instruction]), 10);
            assert_eq!(offset(&[&ENDBR64, &CMPL, instruction]), 14);
        }
    }

    #[test]
    fn each_comparison_has_its_length() {
        assert_eq!(offset(&[&[0x83, 0x3d, 1, 2, 3, 4, 5], &JE]), 7);
        assert_eq!(offset(&[&[0x80, 0x3d, 1, 2, 3, 4, 5], &JE]), 7);
        assert_eq!(offset(&[&CMPL, &JE]), 10);
    }

    #[test]
    fn what_is_not_known_is_probed_at_its_start() {
        let unknown: [&[u8]; 8] = [
            &[],
            // mov %rdi, %rdi.
            &[0x48, 0x89, 0xff],
            &[&CMPL[..], &[0x48, 0x89, 0xff]].concat(),
            // sub $8, %rsp: it moves the stack.
            &[0x48, 0x83, 0xec, 8, 0x74, 1],
            // cmp $imm32, (%rdi), and addl $imm32, disp(%rip), which writes.
            &[0x81, 0x3f, 1, 2, 3, 4, 0x74, 1],
            &[0x81, 0x05, 1, 2, 3, 4, 5, 6, 7, 8, 0x74, 1],
            // Jumps of 16 bits, which the kernel refuses, and the pause.
            &[0x66, 0xe9, 1, 0],
            &[0xf3, 0x90],
        ];
        for code in unknown {
            assert_eq!(offset(&[code]), 0, "{code:x?}");
            assert_eq!(offset(&[&ENDBR64, code]), 0, "{code:x?}");
        }
    }

    #[test]
    fn an_instruction_that_the_function_cuts_off_is_none() {
        let whole = [&CMPL[..], &[0x0f, 0x84, 1, 0, 0, 0]].concat();
        assert_eq!(probe_offset(&whole), 10);
        for length in 0..whole.len() {
            assert_eq!(probe_offset(&whole[..length]), 0);
        }
    }

    #[test]
    fn a_place_that_the_function_comes_back_to_is_left() {
        let near = [0xeb, 0xfc];
        assert_eq!(offset(&[&CMPL, &JE, &near]), 0, "jmp to the je");
        let far = [0x0f, 0x85, 0xf8, 0xff, 0xff, 0xff];
        assert_eq!(offset(&[&CMPL, &JE, &far]), 0, "jne to the je");
        let near = [0xeb, 0xfe];
        assert_eq!(offset(&[&CMPL, &JE, &near]), 10, "jmp to itself");
    }

    proptest! {
        #[test]
        fn nothing_but_flags_is_changed_before_a_probe(
            start in prop_oneof![Just(vec![]), Just(ENDBR64.to_vec()), Just(CMPL.to_vec())],
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let code = [start, rest].concat();
            let place = probe_offset(&code);
            let skipped = &code[..place];
            let skipped = skipped.strip_prefix(&ENDBR64).unwrap_or(skipped);
            match (skipped, skipped.len()) {
                (_, 0) | ([0x81, 0x3d, ..], 10) | ([0x83 | 0x80, 0x3d, ..], 7) => {}
                _ => prop_assert!(false, "{code:x?}: {place}"),
            }
            prop_assert!(place == 0 || is_emulated(&code[place..]));
        }
    }
}
