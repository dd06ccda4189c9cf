//! Every name that a driver has, and every function at an address of its own.

use std::collections::BTreeMap;

use crate::stage::{call, exported, isolated, ok};

/// What NVIDIA's library of 555.58.02 exports.
const NAMES: &str = include_str!("names.txt");

#[test]
fn all_names_are_there_each_at_an_address_of_its_own() {
    let mut addresses: BTreeMap<usize, &str> = BTreeMap::new();
    for name in NAMES.lines() {
        let address = exported(name) as usize;
        assert_ne!(address, 0, "{name} is missing");
        let other = addresses.insert(address, name);
        assert_eq!(other, None, "{name} is at the same address");
    }
    assert!(addresses.len() > 600, "only {} names", addresses.len());
    for name in ["cuLogsRegisterCallback", "cuLogsUnregisterCallback"] {
        assert!(!exported(name).is_null(), "{name} is missing");
    }
}

#[test]
fn what_is_not_supported_says_so_once_it_is_initialised() {
    let name = "names::what_is_not_supported_says_so_once_it_is_initialised";
    isolated(name, &[], || {
        let mut place = 1_u64;
        let argument = crate::stage::place(&mut place);
        assert_eq!(call("cuTexObjectCreate", &[argument]), 3);
        ok("cuInit", &[0]);
        assert_eq!(call("cuTexObjectCreate", &[argument]), 801);
        // As NVIDIA's library, whose check of arguments comes first.
        assert_eq!(call("cuLinkDestroy", &[0]), 400);
    });
}
