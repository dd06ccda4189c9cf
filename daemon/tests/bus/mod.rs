//! The daemon on a real bus: a dbus-daemon of its own, with the shipped policy and, where polkit
//! is asked, an authority that answers as the test wants.

mod authority;
mod changes;
mod doors;
mod flood;
mod hand;
mod lease;
mod polkit;
mod private;
mod reload;
mod rules;
mod seen;
mod systemd;
