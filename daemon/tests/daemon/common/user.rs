//! Work as another user.

/// Who has no rights.
pub(crate) const NOBODY: u32 = 65534;

/// Runs `work` as the user nobody; none where that cannot be done, since we are not root.
pub(crate) fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    as_user(NOBODY, work)
}

/// The same as the user `uid`.
pub(crate) fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        super::skipped("only root can become another user");
        return None;
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            // SAFETY: plain system calls; raw, so that they change this thread alone.
            let dropped = unsafe {
                libc::syscall(libc::SYS_setgroups, 0, 0) == 0
                    && libc::syscall(libc::SYS_setresgid, uid, uid, uid) == 0
                    && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
            };
            assert!(dropped);
            work()
        });
        Some(thread.join().unwrap())
    })
}

/// Runs `work` of one thread.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(work)
}
