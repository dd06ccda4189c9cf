//! The source of a program that calls each hooked name, and prints what it passed and what then reached the driver.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{c_type, parameters, structures};
use crate::signature::{Kind, Signature};

/// What all calls share. Pointers are to rooms of zeros, or of threes where calls fail: a graph's node of the third kind has
/// a host function, which an agent may replace. Numbers differ for each function and place, and use all their
/// bits.
const SHARED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct call {
    const char *name;
    size_t bytes;
    unsigned char arguments[256];
};

void stub_begin(int failing);
size_t stub_calls(const struct call **found);
int cuInit(unsigned int flags);
int cuDevicePrimaryCtxRetain(void *context, unsigned int device);
int cuCtxSetCurrent(void *context);

static _Alignas(64) unsigned char rooms[16][4096];
static struct call passed;
/* Whether an agent may look at what it is told, and go by it. */
static int looked_at;
/* Whether all pointers are NULL. */
static int nulls;

static void *room(unsigned place)
{
    return nulls ? NULL : rooms[place];
}

static unsigned long long number(unsigned function, unsigned place)
{
    if (looked_at)
        return place + 1;
    unsigned long long mixed = (function * 64ull + place + 1) * 0x9e3779b97f4a7c15ull;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull | 1;
}

static void fill(void *argument, size_t bytes, unsigned function, unsigned place)
{
    for (size_t at = 0; at < bytes; at += 8) {
        unsigned long long part = number(function, place + at * 16);
        memcpy((char *)argument + at, &part, bytes - at < 8 ? bytes - at : 8);
    }
}

static void put(const void *argument, size_t bytes)
{
    memcpy(passed.arguments + passed.bytes, argument, bytes);
    passed.bytes += bytes;
}

static void print(const struct call *call)
{
    printf(" %s ", call->name);
    for (size_t at = 0; at < call->bytes; at++)
        printf("%02x", call->arguments[at]);
    /* So that a call without arguments has a word too. */
    printf(".");
}

/* NAME PASSED. RESULT, then NAME RECEIVED. of each call that the driver got. */
static void report(int result)
{
    const struct call *calls;
    size_t called = stub_calls(&calls);
    printf("call");
    print(&passed);
    printf(" %d", result);
    for (size_t at = 0; at < called; at++)
        print(&calls[at]);
    printf("\n");
    fflush(stdout);
}
"#;

/// The whole source. The program calls all with `fail` or `succeed`, which is what the driver then does; with `serve` it
/// has a context, and calls what its standard input names, with NULL for each pointer after the word `null`.
pub fn source(called: &BTreeMap<String, Signature>) -> String {
    let mut text = SHARED.to_owned();
    text += &structures(called.values());
    let mut all = String::new();
    for (place, (name, signature)) in called.iter().enumerate() {
        let (mut arguments, mut names) = (String::new(), Vec::new());
        for (at, kind) in signature.0.iter().enumerate() {
            let named = c_type(*kind);
            let _ = match kind {
                Kind::Pointer => writeln!(arguments, "    void *a{at} = room({at});"),
                _ => writeln!(
                    arguments,
                    "    {named} a{at};\n    fill(&a{at}, sizeof a{at}, {place}, {at});"
                ),
            };
            let _ = writeln!(arguments, "    put(&a{at}, sizeof a{at});");
            names.push(format!("a{at}"));
        }
        let (parameters, names) = (parameters(signature), names.join(", "));
        let _ = write!(
            text,
            "int {name}({parameters});\nstatic void call_{name}(void)\n{{\n{arguments}    report({name}({names}));\n}}\n",
        );
        let _ = writeln!(all, "    {{\"{name}\", call_{name}}},");
    }
    let _ = write!(
        text,
        "static const struct {{\n    const char *name;\n    void (*call)(void);\n}} all[] = {{\n{all}}};\n{MAIN}"
    );
    text
}

const MAIN: &str = r#"
static void call(size_t at, int failing)
{
    for (size_t number = 0; number < sizeof rooms / 4; number++)
        ((unsigned *)rooms)[number] = failing ? 3 : 0;
    passed.name = all[at].name;
    passed.bytes = 0;
    stub_begin(failing);
    all[at].call();
    /* The driver writes nothing where it fails, and so may nobody else. */
    for (size_t number = 0; failing && number < sizeof rooms / 4; number++)
        if (((unsigned *)rooms)[number] != 3) {
            printf("%s changes memory\n", all[at].name);
            break;
        }
}

static void serve(void)
{
    char name[128];
    void *context = rooms;
    looked_at = 1;
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    printf("ready\n");
    fflush(stdout);
    while (fgets(name, sizeof name, stdin)) {
        name[strcspn(name, "\n")] = 0;
        nulls = !strncmp(name, "null ", 5);
        for (size_t at = 0; at < sizeof all / sizeof *all; at++)
            if (!strcmp(all[at].name, name + (nulls ? 5 : 0)))
                call(at, 0);
    }
}

int main(int count, char **arguments)
{
    const char *mode = count > 1 ? arguments[1] : "";
    /* The agent starts here, if it does. */
    stub_begin(0);
    if (cuInit(0))
        return 1;
    if (!strcmp(mode, "serve"))
        serve();
    for (size_t at = 0; strcmp(mode, "serve") && at < sizeof all / sizeof *all; at++)
        call(at, !strcmp(mode, "fail"));
    return 0;
}
"#;
