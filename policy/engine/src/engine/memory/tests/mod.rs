//! Scenes of memory: NVML and probes around one engine. Tasks that wait for memory are tried in
//! tests/engine, where agents swap.

mod cgroups;
mod gpus;
mod lost;
mod notices;
mod scenes;
mod sizes;
mod unproven;
mod world;
