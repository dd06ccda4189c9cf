//! Client proxies, one file per interface.

mod gpu;
mod manager;
mod task;

pub use gpu::Gpu1Proxy;
pub use manager::Manager1Proxy;
pub use task::Task1Proxy;
