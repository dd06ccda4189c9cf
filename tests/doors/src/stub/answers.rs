//! What the functions of the stub write where calls succeed: as little as an agent needs to start and to let work through.

/// Names, and what they do, in C; their arguments are `a0`, `a1`, ….
const ANSWERS: &[(&str, &str)] = &[
    ("cuDriverGetVersion", "*(int *)a0 = 13000;"),
    ("cuDeviceGetCount", "*(int *)a0 = 1;"),
    // Virtual memory management; everything else, such as to be integrated, not.
    ("cuDeviceGetAttribute", "*(int *)a0 = a1 == 102;"),
    ("cuDeviceGetUuid_v2", "uuid(a0);"),
    ("cuDeviceTotalMem_v2", "*(size_t *)a0 = 1 << 30;"),
    ("cuMemGetAllocationGranularity", "*(size_t *)a0 = 2 << 20;"),
    ("cuCtxGetCurrent", "*(void **)a0 = current;"),
    ("cuCtxSetCurrent", "current = a0;"),
    ("cuCtxGetDevice", "*(int *)a0 = 0;"),
    ("cuDevicePrimaryCtxRetain", "*(void **)a0 = handle();"),
    ("cuMemAddressReserve", "*(void **)a0 = room(a1, a2);"),
    ("cuMemHostAlloc", "*(void **)a0 = calloc(1, a1);"),
    ("cuMemCreate", "*(void **)a0 = handle();"),
    ("cuStreamCreate", "*(void **)a0 = handle();"),
    ("cuEventCreate", "*(void **)a0 = handle();"),
    ("cuModuleLoadData", "*(void **)a0 = handle();"),
    ("cuModuleGetFunction", "*(void **)a0 = handle();"),
];

/// What [`ANSWERS`] use. `STUB_UUID` has 32 hexadecimal digits.
pub(super) const SHARED: &str = r#"
static __thread void *current;

static void *handle(void)
{
    return malloc(64);
}

static void *room(size_t bytes, size_t align)
{
    if (align < 4096)
        align = 4096;
    char *found = mmap(NULL, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return (void *)(((size_t)found + align - 1) / align * align);
}

static void uuid(unsigned char *to)
{
    const char *digits = getenv("STUB_UUID");
    for (int at = 0; at < 16; at++) {
        char two[3] = {0};
        if (digits && strlen(digits) >= 32)
            memcpy(two, digits + 2 * at, 2);
        to[at] = strtoul(two, NULL, 16);
    }
}
"#;

/// The lines of a function's body that answer.
pub(super) fn of(name: &str) -> String {
    let answer = ANSWERS.iter().find(|(known, _)| *known == name);
    let Some((_, answer)) = answer else {
        return String::new();
    };
    // A driver writes no answer to NULL, and some calls of it succeed all the same.
    let wanted = if answer.starts_with('*') {
        "if (a0)\n        "
    } else {
        ""
    };
    format!("    {wanted}{answer}\n")
}
