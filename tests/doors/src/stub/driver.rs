//! The source of a `libcuda.so.1` whose functions note their names and arguments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{answers, parameters, structures};
use crate::signature::Signature;

/// The library's file.
pub const SONAME: &str = "libcuda.so.1";

/// What the first function returns where calls are to fail; the next ones return the numbers after it.
pub const FAILURES: u32 = 100_000;

/// What all functions share. Each thread has notes of its own, so that those of the agent's are not mixed in.
const SHARED: &str = r"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct call {
    const char *name;
    size_t bytes;
    unsigned char arguments[256];
};

static __thread struct call calls[256];
static __thread size_t called;
static int fails;

/* From here on calls fail or not, and this thread's notes are empty. */
void stub_begin(int failing)
{
    fails = failing;
    called = 0;
}

/* What this thread called since. */
size_t stub_calls(const struct call **found)
{
    *found = calls;
    return called;
}

static struct call *enter(const char *name)
{
    if (called == sizeof calls / sizeof *calls)
        abort();
    struct call *call = &calls[called++];
    call->name = name;
    call->bytes = 0;
    return call;
}

static void put(struct call *call, const void *argument, size_t bytes)
{
    if (call->bytes + bytes > sizeof call->arguments)
        abort();
    memcpy(call->arguments + call->bytes, argument, bytes);
    call->bytes += bytes;
}
";

/// The whole source.
pub fn source(signatures: &BTreeMap<String, Signature>) -> String {
    let mut text = SHARED.to_owned();
    text += &structures(signatures.values());
    text += answers::SHARED;
    for (place, (name, signature)) in signatures.iter().enumerate() {
        let mut puts = String::new();
        for at in 0..signature.0.len() {
            let _ = writeln!(puts, "    put(call, &a{at}, sizeof a{at});");
        }
        let (parameters, answer) = (parameters(signature), answers::of(name));
        let failure = FAILURES as usize + place;
        let unused = if puts.is_empty() {
            "    (void)call;\n"
        } else {
            ""
        };
        let _ = write!(
            text,
            "int {name}({parameters})\n{{\n    struct call *call = enter(\"{name}\");\n{unused}{puts}    \
             if (fails)\n        return {failure};\n{answer}    return 0;\n}}\n",
        );
    }
    text
}
