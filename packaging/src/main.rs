//! Writes what the packages say of the programs: manual pages, completions, Debian's changelogs and pkg-config's file.
//!
//! `rtswap-packaging FOLDER`; `cargo xtask deb` starts it. The command lines and docs/ are the source.

mod changelog;
mod command;
mod markdown;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use crate::command::Page;

/// Write the manual, the completions and the changelogs of the packages
#[derive(Parser)]
struct Arguments {
    /// Where they go
    folder: PathBuf,
    /// When the packaged sources were committed, as RFC 2822 writes it
    #[arg(long)]
    date: String,
    /// The name and the address of the packages' maintainer
    #[arg(long)]
    maintainer: String,
}

/// For programs that include rtswap.h, which calls dlsym.
const PKG_CONFIG: &str = concat!(
    "Name: rtswap\n",
    "Description: tells rtswap where a job on the GPU begins and ends\n",
    "Version: ",
    env!("CARGO_PKG_VERSION"),
    "\n",
    "Libs: -ldl\n"
);

fn main() -> Result<()> {
    let Arguments {
        folder,
        date,
        maintainer,
    } = Arguments::parse();
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for (name, text) in pages()
        .into_iter()
        .chain(changelog::all(&maintainer, &date))
    {
        write(&folder.join(name), text.as_bytes())?;
    }
    write(&folder.join("rtswap.pc"), PKG_CONFIG.as_bytes())?;
    let mut rtswapctl = rtswapctl::cli::Cli::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut rtswapctl, "rtswapctl", &folder)?;
    }
    Ok(())
}

/// Each manual page by its file name.
fn pages() -> Vec<(String, String)> {
    let mut pages = Page {
        section: "8",
        after: include_str!("../man/rtswapd.md"),
    }
    .render(rtswapd::cli::Arguments::command());
    pages.extend(
        Page {
            section: "1",
            after: include_str!("../man/rtswapctl.md"),
        }
        .render(rtswapctl::cli::Cli::command()),
    );
    for (name, section, text) in [
        (
            "rtswapd.toml",
            "5",
            include_str!("../../docs/configuration.md"),
        ),
        (
            "rtswap-planning",
            "7",
            include_str!("../../docs/planning.md"),
        ),
        ("rtswap-graphs", "7", include_str!("../../docs/graphs.md")),
        (
            "rtswap-simgpu",
            "1",
            include_str!("../man/rtswap-simgpu.md"),
        ),
        ("rtswap-dnn", "1", include_str!("../man/rtswap-dnn.md")),
    ] {
        pages.push((
            format!("{name}.{section}"),
            markdown::page(name, section, text),
        ));
    }
    pages
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())
}
