//! All attacks, by the door that they come through.

mod claims;
mod commands;
mod descriptors;
mod elf;
mod files;
mod floods;
mod hello;
mod names;
mod namespaces;
mod orders;
mod page;
mod probes;
mod register;
mod socket;
mod stopped;

use crate::attack::Attack;

/// All, in the order in which they are made: those of one setting together.
pub(crate) fn all() -> Vec<Attack> {
    let rooms: [&[Attack]; 15] = [
        hello::ATTACKS,
        claims::ATTACKS,
        page::ATTACKS,
        orders::ATTACKS,
        stopped::ATTACKS,
        socket::ATTACKS,
        register::ATTACKS,
        names::ATTACKS,
        floods::ATTACKS,
        namespaces::ATTACKS,
        files::ATTACKS,
        elf::ATTACKS,
        probes::ATTACKS,
        commands::ATTACKS,
        descriptors::ATTACKS,
    ];
    let mut attacks = rooms.concat();
    attacks.sort_by_key(|attack| attack.setting);
    attacks
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The section of docs/security.md that names the attacks.
    fn threat_model() -> &'static str {
        let text = include_str!("../../../../docs/security.md");
        let (_, rest) = text
            .split_once("\n## Threat model\n")
            .expect("a threat model");
        rest.split("\n## ").next().expect("a section")
    }

    /// The last column of its table.
    fn documented() -> BTreeSet<&'static str> {
        let rows = threat_model().lines().filter(|line| line.starts_with('|'));
        let tests = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
        let names = tests.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        names.collect()
    }

    #[test]
    fn each_attack_is_in_the_threat_model_and_each_test_there_is_an_attack() {
        let all: BTreeSet<_> = all().iter().map(|attack| attack.name).collect();
        let documented = documented();
        let undocumented: Vec<_> = all.difference(&documented).collect();
        let unknown: Vec<_> = documented.difference(&all).collect();
        assert!(
            undocumented.is_empty(),
            "not in docs/security.md: {undocumented:?}"
        );
        assert!(unknown.is_empty(), "no such attack: {unknown:?}");
    }

    #[test]
    fn each_attack_has_a_name_of_its_own() {
        let attacks = all();
        let names: BTreeSet<_> = attacks.iter().map(|attack| attack.name).collect();
        assert_eq!(names.len(), attacks.len());
        assert!(attacks.len() >= 52, "{}", attacks.len());
    }
}
