//! Manual pages of command lines, by clap_mangen.

use clap::Command;
use clap_mangen::Man;

use crate::markdown;

/// What a command line does not say.
pub(crate) struct Page {
    /// The manual's section.
    pub section: &'static str,
    /// Further sections, in Markdown.
    pub after: &'static str,
}

impl Page {
    /// The command's page and one for each command below it, by file name.
    pub(crate) fn render(&self, command: Command) -> Vec<(String, String)> {
        // Subcommands get their full names and the global options.
        let mut command = command.disable_help_subcommand(true);
        command.build();
        let subcommands = below(&command);
        let name = command.get_name().to_owned();
        let mut pages = vec![(self.file(&name), self.text(command, self.after))];
        let after = format!("\n## See also\n\n**{name}**({})\n", self.section);
        for subcommand in subcommands {
            // Building gave it its full name for this: rtswapctl-run.
            let file = self.file(subcommand.get_display_name().unwrap_or_default());
            pages.push((file, self.text(subcommand, &after)));
        }
        pages
    }

    fn file(&self, name: &str) -> String {
        format!("{name}.{}", self.section)
    }

    fn text(&self, command: Command, after: &str) -> String {
        let version = command.get_version().unwrap_or_default().to_owned();
        let man = Man::new(command)
            .section(self.section)
            .source(format!("rtswap {version}"))
            .manual("rtswap");
        let mut page = Vec::new();
        man.render(&mut page)
            .expect("memory takes all that is written");
        let mut page = String::from_utf8(page).expect("roff is text");
        page.push_str(&markdown::sections(after));
        page
    }
}

/// All commands below `command`.
fn below(command: &Command) -> Vec<Command> {
    let own = command.get_subcommands();
    own.flat_map(|command| [vec![command.clone()], below(command)].concat())
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_subcommand_has_a_page() {
        let page = Page {
            section: "1",
            after: "\n## Files\n\nNone.\n",
        };
        let pages = page.render(rtswapctl::cli::Cli::command());
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.starts_with(&["rtswapctl.1", "rtswapctl-run.1"]),
            "{names:?}"
        );
        assert!(names.contains(&"rtswapctl-policy-set.1"), "{names:?}");
        assert!(pages[0].1.contains(".SH FILES"));
        let run = &pages[1].1;
        assert!(
            run.contains("rtswapctl run") && run.contains("\\-\\-wcet"),
            "{run}"
        );
        assert!(run.contains("rtswapctl\\-run \\-"), "{run}");
    }
}
