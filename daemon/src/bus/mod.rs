//! The D-Bus objects: `manager`, `task` and `gpu` are the interfaces, `options` reads what
//! `Register` is given, `auth` says who may, `limits` how much, `publish` keeps a connection's objects the
//! snapshot's, `control` serves them peer to peer on the control socket. State is the dispatch
//! thread's: no method here takes `&mut self`, so that none blocks another.

mod auth;
pub mod control;
mod gpu;
mod limits;
mod manager;
mod options;
mod publish;
mod task;
