//! GPU memory as NVML shows it: `nvml` follows its samples, `account` compares them with what is
//! claimed and tells the schedulers of the capacity that follows, `shown` has groups believe agents by
//! them, `dead` ends what is dying.

mod account;
mod dead;
mod nvml;
mod shown;
#[cfg(test)]
mod tests;

pub(crate) use nvml::Nvml;
