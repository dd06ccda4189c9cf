//! `cargo xtask eval`: the paper's tables and figures, by tests/eval.

use std::path::Path;

use anyhow::Result;

use crate::process::Run;
use crate::workspace::Workspace;

/// Builds the evaluation and hands over to it, in the folder where it was asked for. Its files go
/// to the target folder unless `options` say otherwise.
pub(crate) fn show(workspace: &Workspace, options: &[String]) -> Result<()> {
    workspace
        .cargo(&["build", "--release", "-p", "rtswap-eval"])
        .succeed()?;
    let built = workspace.target().join("release");
    if says_where(options) {
        return run(&built, options);
    }
    let folder = workspace.target().join("eval");
    let folder = ["--out".to_owned(), folder.to_string_lossy().into_owned()];
    run(&built, &[options, &folder].concat())
}

/// Runs the evaluation that was built in `built`.
pub(crate) fn run(built: &Path, options: &[String]) -> Result<()> {
    Run::new(built.join("eval"), Path::new("."))
        .args(options)
        .succeed()
}

fn says_where(options: &[String]) -> bool {
    options
        .iter()
        .any(|option| option == "--out" || option.starts_with("--out="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_seen_in_either_spelling() {
        let given = |options: &[&str]| {
            let options: Vec<_> = options.iter().map(ToString::to_string).collect();
            says_where(&options)
        };
        assert!(given(&["all", "--out", "x"]) && given(&["--out=x", "fig4"]));
        assert!(!given(&["fig4", "--json"]));
    }
}
