//! `org.rtswap.Manager1`.

use std::collections::HashMap;

use zbus::{OwnedFd, OwnedObjectPath, OwnedVariant, Variant};

use crate::Error;

/// Registrations and processes. On a bus, a call that wants no answer is not taken.
#[zbus::proxy(
    interface = "org.rtswap.Manager1",
    default_service = "org.rtswap",
    default_path = "/org/rtswap"
)]
pub trait Manager1 {
    /// Registers a task; it ends if no process claims it in time. Options as in
    /// [`crate::Options`]; with `needs_executor`, a boolean, true is refused with [`Error::NeedsExecutor`].
    #[zbus(allow_interactive_auth)]
    fn register(
        &self,
        name: &str,
        options: HashMap<&str, Variant<'_>>,
    ) -> Result<OwnedObjectPath, Error>;

    /// Registers a task that lives until the returned descriptor (and all its copies) are closed.
    #[zbus(allow_interactive_auth)]
    fn register_with_lease(
        &self,
        name: &str,
        options: HashMap<&str, Variant<'_>>,
    ) -> Result<(OwnedObjectPath, OwnedFd), Error>;

    /// Ends a registration. A process that runs under it goes on as best-effort.
    #[zbus(allow_interactive_auth)]
    fn unregister(&self, task: &zbus::ObjectPath<'_>) -> Result<(), Error>;

    /// Has a task leave its GPUs, with its jobs waiting, until [`Self::resume`]: all of it leaves that can be swapped.
    /// A realtime task keeps its place in the plan. Returns at once: `Task1.Phase` says when it has left. No effect on
    /// a parked task.
    #[zbus(allow_interactive_auth)]
    fn park(&self, task: &zbus::ObjectPath<'_>) -> Result<(), Error>;

    /// Lets a parked task come back, with its next job. No effect on one that is not parked.
    #[zbus(allow_interactive_auth)]
    fn resume(&self, task: &zbus::ObjectPath<'_>) -> Result<(), Error>;

    /// What the admission test says of every GPU now: JSON with `version` 1, and the keys of
    /// `rtswapctl plan --json` for each of `gpus`.
    fn plan(&self) -> Result<String, Error>;

    /// Has the daemon keep what was measured on a GPU, the text of a file as `rtswapctl calibrate --export` writes it, and rest
    /// its promises there on it. Whether it does so at once: else as soon as no program has a session and no task is on
    /// that GPU. What rtswapd.toml says of the GPU goes before it. Root may, and those that polkit lets calibrate.
    #[zbus(allow_interactive_auth)]
    fn set_calibration(&self, text: &str) -> Result<bool, Error>;

    /// Changes rules of the policy until the files are read again. `user` (a number) and `task` (a name) say whom they are
    /// for: without both everybody, a task without a user is the caller's own. Rules are `class`, `deadline_us`, `weight`,
    /// `idle_after_us` (a number, or `never`), `gpu_memory`, `pinned_memory`, `max_tasks` and `on_violation`; an empty text takes back what was set. Root may, and
    /// those that polkit lets set the policy.
    #[zbus(allow_interactive_auth)]
    fn set_policy(&self, options: HashMap<&str, Variant<'_>>) -> Result<(), Error>;

    /// The rules of the policy that the caller may see, with where each is said and whether it holds: JSON with `version`
    /// 1, the document of `rtswapctl policy get --json`.
    fn policy(&self) -> Result<String, Error>;

    /// Reads the administrator's files again. Where one is wrong, all stays as it was.
    fn reload(&self) -> Result<(), Error>;

    /// The processes that the caller may see, one entry for each GPU that a process uses: `pid u,
    /// comm s, managed b, attached b`, and where it is known `uid u, gpu u, task o, origin s` (its
    /// container or unit), `nvml_bytes t, agent_bytes t, disagreement s`; the bytes that never
    /// leave because others use them, `kept_for_processes_bytes t, kept_for_devices_bytes t`; and of whom the
    /// probes have seen `probed_bytes t, probed_managed_bytes t, first_seen_usec t` (CLOCK_MONOTONIC), `baseline s`
    /// (`start`, `nvml`, `unknown`), `confidence s` (`exact`, `estimated`, `at-least`, `claimed`).
    fn list_processes(&self) -> Result<Vec<HashMap<String, OwnedVariant>>, Error>;

    /// The daemon's version.
    #[zbus(property(emits_changed_signal = "const"))]
    fn version(&self) -> zbus::Result<String>;

    /// When the daemon started, in µs since 1970.
    #[zbus(property(emits_changed_signal = "const"), name = "StartedUSec")]
    fn started_usec(&self) -> zbus::Result<u64>;

    /// How the eBPF probes do: `on`, `off` (by the configuration), or `missing: ` and what is.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probes(&self) -> zbus::Result<String>;

    /// GPUs that are no place for tasks, though the driver shows them: each with why, and what to do.
    #[zbus(property(emits_changed_signal = "false"))]
    fn left_alone(&self) -> zbus::Result<Vec<String>>;

    /// Copies of the driver's library that they are on.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probed_libraries(&self) -> zbus::Result<u32>;

    /// News of theirs that found no room. Totals are exact nonetheless.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probe_records_lost(&self) -> zbus::Result<u64>;

    /// Calls of processes for which the probes had no room. What those processes hold is known from NVML alone.
    #[zbus(property(emits_changed_signal = "false"))]
    fn probe_calls_lost(&self) -> zbus::Result<u64>;

    /// The rules of the policy have changed, by [`Self::set_policy`] or by [`Self::reload`]: [`Self::policy`] says what holds.
    /// At most one signal in 250 ms.
    #[zbus(signal)]
    fn policy_changed(&self) -> zbus::Result<()>;

    /// A job of `task` ended `lateness_us` late; `cause` says where its time went.
    #[zbus(signal)]
    fn deadline_missed(
        &self,
        task: zbus::ObjectPath<'_>,
        job: u64,
        lateness_us: u64,
        cause: &str,
    ) -> zbus::Result<()>;

    /// A promise was broken: `kind` is `overrun`, `swap-overdue`, `swap-failed`, `over-budget`, `undrainable`,
    /// `emergency`, `backing`, `lost` or `senseless-report`, `detail` has the numbers.
    #[zbus(signal)]
    fn violation(&self, task: zbus::ObjectPath<'_>, kind: &str, detail: &str) -> zbus::Result<()>;
}
