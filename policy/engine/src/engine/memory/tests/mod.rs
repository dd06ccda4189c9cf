//! Scenes of memory: NVML, probes and modelled agents around one engine.

mod gpus;
mod scenes;
mod starved;
mod world;
