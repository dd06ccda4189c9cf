//! Debian root file systems in which programs test: `rtswap-system-test` boots one, `rtswap-graph-test` runs Debian's PyTorch
//! in another.

pub mod rootfs;
