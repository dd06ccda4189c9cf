//! librtswap_cuda.so: the exported symbols of the agent, and nothing else. The logic and its tests
//! are in `rtswap-agent-core`.

mod hooks;
