//! Who may depend on whom: the table of ARCHITECTURE.md, kept true.

use cargo_metadata::Metadata;

/// A package and the packages of this workspace that it may depend on.
type Row = (&'static str, &'static [&'static str]);

const ALLOWED: [Row; 19] = [
    ("rtswap-policy", &[]),
    ("rtswap-engine", &["rtswap-policy"]),
    ("rtswap-planner", &[]),
    ("rtswap-taskset", &["rtswap-policy", "rtswap-planner"]),
    ("rtswap-simulator", &["rtswap-policy"]),
    ("rtswap-wire", &[]),
    ("rtswap-dbus", &[]),
    ("rtswap-probe-abi", &[]),
    ("rtswap-agent-core", &["rtswap-wire"]),
    ("rtswap-cuda", &["rtswap-agent-core", "rtswap-wire"]),
    (
        "rtswapd",
        &[
            "rtswap-policy",
            "rtswap-engine",
            "rtswap-taskset",
            "rtswap-wire",
            "rtswap-dbus",
            "rtswap-probe-abi",
        ],
    ),
    (
        "rtswapctl",
        &[
            "rtswap-policy",
            "rtswap-planner",
            "rtswap-taskset",
            "rtswap-simulator",
            "rtswap-dbus",
        ],
    ),
    ("simgpu-core", &[]),
    ("simgpu-cuda", &["simgpu-core"]),
    ("simgpu-nvml", &["simgpu-core"]),
    ("dnn", &[]),
    ("rtswap-demo", &["simgpu-core"]),
    ("rtswap-packaging", &["rtswapctl", "rtswapd"]),
    ("xtask", &[]),
];

/// A dependency between two packages of the workspace, of whatever kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arrow {
    /// Who depends.
    pub from: String,
    /// On whom.
    pub to: String,
}

/// All arrows inside the workspace, build and dev dependencies included, but for those of the
/// packages under tests/, which may use anything.
pub(crate) fn arrows(metadata: &Metadata) -> Vec<Arrow> {
    let members = metadata.workspace_packages();
    let tests = metadata.workspace_root.join("tests");
    members
        .iter()
        .filter(|package| !package.manifest_path.starts_with(&tests))
        .flat_map(|package| {
            let ours = |name: &str| members.iter().any(|member| member.name.as_str() == name);
            let dependencies = package.dependencies.iter();
            dependencies
                .filter(move |dependency| dependency.path.is_some() || ours(&dependency.name))
                .map(|dependency| Arrow {
                    from: package.name.to_string(),
                    to: dependency.name.clone(),
                })
        })
        .collect()
}

/// A text for each arrow that the table does not have.
pub(crate) fn forbidden(arrows: &[Arrow]) -> Vec<String> {
    arrows
        .iter()
        .filter_map(
            |Arrow { from, to }| match ALLOWED.iter().find(|(name, _)| name == from) {
                None => Some(format!(
                    "{from} -> {to}: {from} has no row in xtask/src/directions.rs"
                )),
                Some((_, allowed)) => (!allowed.contains(&to.as_str())).then(|| {
                    format!(
                        "{from} -> {to}: {from} may depend on [{}] only",
                        allowed.join(", ")
                    )
                }),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    fn arrow(from: &str, to: &str) -> Arrow {
        Arrow {
            from: from.into(),
            to: to.into(),
        }
    }

    #[test]
    fn allowed_arrows_pass() {
        let good = [
            arrow("rtswapd", "rtswap-policy"),
            arrow("rtswap-demo", "simgpu-core"),
        ];
        assert_eq!(forbidden(&good), [""; 0]);
    }

    #[test]
    fn forbidden_arrows_are_found() {
        for (from, to) in [
            ("rtswap-policy", "rtswap-wire"),
            ("rtswap-policy", "rtswap-taskset"),
            ("rtswap-engine", "rtswap-wire"),
            ("rtswap-engine", "rtswap-taskset"),
            ("rtswap-taskset", "rtswap-simulator"),
            ("rtswap-planner", "rtswap-policy"),
            ("rtswap-wire", "rtswap-dbus"),
            ("rtswap-agent-core", "rtswap-policy"),
            ("simgpu-core", "rtswap-wire"),
            ("dnn", "rtswap-agent-core"),
            ("xtask", "rtswap-policy"),
            ("rtswap-demo", "rtswap-dbus"),
            ("newcomer", "rtswap-policy"),
        ] {
            let found = forbidden(&[arrow("rtswapd", "rtswap-wire"), arrow(from, to)]);
            assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
            assert!(found[0].contains(from) && found[0].contains(to));
        }
    }

    #[test]
    fn metadata_is_read_with_every_kind_of_dependency() {
        let arrows = arrows(&Workspace::read().unwrap().metadata);
        assert!(arrows.contains(&arrow("rtswapd", "rtswap-policy")));
        assert!(arrows.contains(&arrow("rtswap-engine", "rtswap-policy")));
        assert!(arrows.contains(&arrow("rtswap-cuda", "rtswap-agent-core")));
        assert!(!arrows.iter().any(|arrow| arrow.from == "rtswap-e2e"));
        assert!(!arrows.iter().any(|arrow| arrow.to == "clap"));
    }
}
