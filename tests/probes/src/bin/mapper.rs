//! Maps every file of a folder to be executed, as one user: `mapper FOLDER UID`. Prints `mapped N`, and ends with
//! its standard input.

use std::fs::File;
use std::os::fd::AsRawFd as _;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, user] = &arguments[..] else {
        panic!("mapper FOLDER UID");
    };
    let user: u32 = user.parse().expect("a number");
    // SAFETY: it takes no pointer.
    assert_eq!(unsafe { libc::setuid(user) }, 0, "setuid");
    let mut mapped = 0;
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let file = File::open(entry.expect("an entry").path()).expect("a file");
        let (access, flags) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE);
        // SAFETY: a mapping at an address of the kernel's choice, which nobody touches.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                access,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED, "mmap");
        mapped += 1;
    }
    println!("mapped {mapped}");
    let _ = std::io::stdin().read_line(&mut String::new());
}
