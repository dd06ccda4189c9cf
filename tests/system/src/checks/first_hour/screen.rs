//! A screen as a picture.

use std::fs;
use std::path::Path;

use anstyle_svg::Term;
use anyhow::{Context, Result};

use super::terminal::LINES;

/// What is on a screen, with a terminal's codes, as SVG.
pub(super) fn picture(styled: &str) -> String {
    let mut lines: Vec<_> = styled.lines().collect();
    lines.resize(LINES, "");
    Term::new().render_svg(&lines.join("\n"))
}

/// Writes the picture `name` into a folder.
pub(super) fn keep(folder: &Path, name: &str, picture: &str) -> Result<()> {
    let path = folder.join(format!("{name}.svg"));
    fs::write(&path, picture).with_context(|| path.display().to_string())
}
