//! `rtswapctl doctor`: what keeps rtswap from working on this machine, and what mends it.
//!
//! `costs`, `driver`, `mps`, `preload`, `memory`, `kernel`, `service`, `programs` and `host` are the checks, each of what its name
//! says; `machine` is what they read, `finding` what they find.

mod costs;
mod driver;
mod finding;
mod host;
mod kernel;
mod machine;
mod memory;
mod mps;
mod preload;
mod programs;
mod service;

use std::path::Path;

use rtswap_dbus::Manager1Proxy;
use rtswap_dbus::driver::Description;
use rtswapctl::cli::DoctorOptions;
use serde::Serialize;

use crate::color::{Style, mark_start};
use crate::daemon::{self, Everything, converse};
use crate::failure::Failure;
use crate::output;
use crate::table::wrapped;
use finding::{Finding, Level};
use machine::Machine;
use memory::Needs;

/// The JSON of `doctor`, version 1.
#[derive(Debug, Serialize)]
struct Diagnosis {
    version: u32,
    /// The worst of all findings.
    level: Level,
    findings: Vec<Finding>,
}

/// Runs all checks and prints what they find. Fails by the worst of it.
pub(crate) fn doctor(runtime_dir: Option<&Path>, options: &DoctorOptions) -> Result<(), Failure> {
    let diagnosis = Diagnosis::new(examine(&Machine::own(), runtime_dir));
    if options.json {
        output::json(&diagnosis)?;
    } else {
        output::text(&diagnosis.text(output::width()))?;
    }
    match diagnosis.level {
        Level::Ok => Ok(()),
        Level::Warning => Err(Failure::Warned),
        Level::Fault => Err(Failure::No),
    }
}

fn examine(machine: &Machine, runtime_dir: Option<&Path>) -> Vec<Finding> {
    let description = crate::driver::describe();
    let version = version(runtime_dir);
    let (daemon, unlisted) = match daemon::everything(runtime_dir) {
        Ok(daemon) => (Some(daemon), None),
        Err(failure) => (None, version.is_ok().then_some(failure)),
    };
    let needs = needs(&description, daemon.as_ref());
    let probes = daemon.as_ref().map(|daemon| daemon.probes.state.clone());
    let mut findings = driver::check(machine, &description);
    findings.extend(mps::check(machine));
    findings.extend(preload::check());
    findings.extend(service::check(machine, runtime_dir, &version));
    if let Some(failure) = unlisted {
        let found = format!("it does not say what it serves: {failure}");
        findings.push(Finding::warning(
            "daemon",
            found,
            "sudo systemctl restart rtswapd",
        ));
    }
    findings.extend(memory::check(machine, needs));
    findings.extend(kernel::check(machine, probes.as_deref()));
    if let Some(daemon) = daemon {
        findings.extend(costs::check(daemon.objects.gpus.iter().map(|(_, gpu)| gpu)));
        findings.extend(programs::check(machine, daemon.processes));
    }
    findings.extend(host::check(machine));
    findings
}

/// The daemon's.
fn version(runtime_dir: Option<&Path>) -> Result<String, Failure> {
    converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let asked = async { Manager1Proxy::new(&connection).await?.version().await };
        Ok(asked.await.map_err(rtswap_dbus::Error::from)?)
    })
}

/// By what the tasks declared, and by the largest GPU that the driver or the daemon knows.
fn needs(description: &Result<Description, String>, daemon: Option<&Everything>) -> Needs {
    let cuda = description
        .as_ref()
        .ok()
        .and_then(|it| it.cuda.as_ref().ok());
    let driver = cuda.into_iter().flat_map(|cuda| &cuda.gpus);
    let gpu = driver.map(|gpu| gpu.total_bytes).max();
    let Some(daemon) = daemon else {
        let gpu = gpu.unwrap_or(0);
        return Needs { declared: 0, gpu };
    };
    let (gpus, tasks) = (daemon.objects.gpus.iter(), daemon.objects.tasks.iter());
    let known = gpus.map(|(_, gpu)| gpu.capacity_bytes).max();
    Needs {
        declared: tasks
            .map(|(_, task)| task.swappable_bytes.saturating_sub(task.backing_bytes))
            .fold(0, u64::saturating_add),
        gpu: gpu.max(known).unwrap_or(0),
    }
}

impl Diagnosis {
    fn new(findings: Vec<Finding>) -> Self {
        let level = findings.iter().map(|finding| finding.level).max();
        Self {
            version: 1,
            level: level.unwrap_or(Level::Ok),
            findings,
        }
    }

    /// For a terminal of so many columns; without, no line is broken.
    fn text(&self, width: Option<usize>) -> String {
        const INDENT: usize = 9;
        let names = self.findings.iter().map(|finding| finding.check.len());
        let names = names.max().unwrap_or(0);
        let mut text = String::new();
        for finding in &self.findings {
            let (level, check) = (finding.level.name(), finding.check);
            let line = format!("{level:<7}  {check:<names$}  {}", finding.found);
            let style = match finding.level {
                Level::Ok => Style::Good,
                Level::Warning => Style::Warning,
                Level::Fault => Style::Bad,
            };
            text.push_str(&mark_start(
                style,
                &wrapped(&line, INDENT, width),
                level.len(),
            ));
            if let Some(mend) = &finding.mend {
                let line = format!("{:INDENT$}to mend it: {mend}", "");
                text.push_str(&wrapped(&line, INDENT, width));
            }
        }
        let count = |level| self.findings.iter().filter(|it| it.level == level).count();
        let [ok, warnings, faults] = [Level::Ok, Level::Warning, Level::Fault].map(count);
        let several = |count: usize| if count == 1 { "" } else { "s" };
        let (of_warnings, of_faults) = (several(warnings), several(faults));
        text + &format!("\n{ok} ok, {warnings} warning{of_warnings}, {faults} fault{of_faults}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::color::render;

    #[test]
    fn the_worst_counts_and_each_fault_says_what_mends_it() {
        let diagnosis = Diagnosis::new(vec![
            Finding::ok("driver", "CUDA 13.0"),
            Finding::fault("agent", "none", "sudo apt install rtswap"),
            Finding::warning("clock", "hpet", "echo tsc"),
        ]);
        assert_eq!(diagnosis.level, Level::Fault);
        assert_eq!(
            render(&diagnosis.text(None), false),
            "ok       driver  CUDA 13.0\n\
             fault    agent   none\n         to mend it: sudo apt install rtswap\n\
             warning  clock   hpet\n         to mend it: echo tsc\n\n\
             1 ok, 1 warning, 1 fault\n"
        );
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["level"], "fault");
        assert_eq!(json["findings"][0].get("mend"), None);
        assert_eq!(Diagnosis::new(vec![]).level, Level::Ok);
    }
}
