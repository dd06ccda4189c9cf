//! Gives the library the name by which it is installed, and keeps it loaded: the swap thread runs in
//! it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librtswap_cuda.so");
    // What we hand out as ours is ours, though a program has a function of the same name.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
