//! Memory of the arena in other processes (cuIpcGetMemHandle and its kin). Drivers refuse that for
//! memory that was mapped, and the arena's address must not change: so the handle is ours. It names
//! this process and the object; the importing process's agent asks for the physical memory itself,
//! which `offer` gives as descriptors, and `open` maps it there. The chunks are held from then on:
//! never swapped, since the other's work does not stop at this gate. So peers of CUDA IPC need not
//! be processes of one task. Handles of processes without an agent stay the driver's.

mod message;
mod offer;
mod open;

pub use message::IpcHandle;
pub use offer::Offers;
pub use open::Opened;

#[cfg(test)]
mod tests;
