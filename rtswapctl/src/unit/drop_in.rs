//! The drop-in that gives a service the agent.

use std::fmt::Write;

use super::MARK;

/// What a service runs with.
#[derive(Clone, Debug, Default)]
pub(super) struct DropIn<'a> {
    /// The command that removes it.
    pub(super) removal: &'a str,
    /// Whether the service starts after the daemon: a user's manager knows no system service.
    pub(super) is_ordered: bool,
    /// The variables and their values.
    pub(super) variables: &'a [(&'static str, String)],
}

impl DropIn<'_> {
    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{MARK}; remove it by: {}\n", self.removal);
        if self.is_ordered {
            text.push_str("[Unit]\nWants=rtswapd.service\nAfter=rtswapd.service\n\n");
        }
        text.push_str("[Service]\n");
        for (name, value) in self.variables {
            let _ = writeln!(text, "Environment=\"{name}={}\"", escape(value));
        }
        text
    }
}

/// A value within double quotes, for systemd, which expands `%` there.
fn escape(value: &str) -> String {
    value
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
}

/// The agent in front of what the unit preloads, as `rtswapctl run` puts it in front of what its own environment
/// preloads. `agent` is there once, although `present` may have it from an attach before, by a path that ends in `file`.
pub(super) fn preload(agent: &str, file: &str, present: Option<&str>) -> String {
    let others = present.unwrap_or_default().split([' ', ':']);
    let is_other = |path: &&str| !path.is_empty() && path.rsplit('/').next() != Some(file);
    let all: Vec<_> = [agent].into_iter().chain(others.filter(is_other)).collect();
    all.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_who_wrote_it_and_what_the_service_gets() {
        let variables = [
            ("LD_PRELOAD", "/usr/$LIB/librtswap_cuda.so".to_owned()),
            ("RTSWAP_TASK", "ollama".to_owned()),
        ];
        let drop_in = DropIn {
            removal: "sudo rtswapctl detach ollama.service",
            is_ordered: true,
            variables: &variables,
        };
        assert_eq!(
            drop_in.text(),
            "# Written by rtswapctl attach; remove it by: sudo rtswapctl detach ollama.service\n\
             [Unit]\nWants=rtswapd.service\nAfter=rtswapd.service\n\n[Service]\n\
             Environment=\"LD_PRELOAD=/usr/$LIB/librtswap_cuda.so\"\nEnvironment=\"RTSWAP_TASK=ollama\"\n"
        );
        let of_user = DropIn {
            is_ordered: false,
            ..drop_in
        };
        assert!(!of_user.text().contains("rtswapd.service"));
    }

    #[test]
    fn what_systemd_would_expand_is_escaped() {
        assert_eq!(escape(r#"/a%i\b"c$d"#), r#"/a%%i\\b\"c$d"#);
    }

    #[test]
    fn what_the_unit_preloads_stays_behind_the_agent() {
        let merged = |present| preload("/new/agent.so", "agent.so", present);
        assert_eq!(merged(None), "/new/agent.so");
        assert_eq!(merged(Some("")), "/new/agent.so");
        assert_eq!(merged(Some("/a.so:/b.so")), "/new/agent.so:/a.so:/b.so");
        assert_eq!(merged(Some("/a.so /b.so")), "/new/agent.so:/a.so:/b.so");
        let again = merged(Some("/old/agent.so:/my-agent.so"));
        assert_eq!(again, "/new/agent.so:/my-agent.so");
    }
}
