//! Names the multiarch folder of the target, where the packages put the agent.

fn main() {
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    println!("cargo:rustc-env=RTSWAP_MULTIARCH={arch}-linux-gnu");
    println!("cargo:rerun-if-changed=build.rs");
}
