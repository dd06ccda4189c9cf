//! Where probes go in NVIDIA's own libraries, which need no GPU to be looked at.
//!
//! In the folders `target/driver/VERSION` (`cargo xtask driver` fetches them) or those of
//! `RTSWAP_DRIVER_LIBRARIES`; without any the test is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rtswap_probe_abi::functions::FUNCTIONS;
use rtswap_probes_test::places;

/// The newest branch that is judged, as in tests/driver/src/version.rs: faults of later ones are told as UNJUDGED.
const NEWEST_KNOWN: u32 = 555;

/// The `libcuda.so.1` of each version.
fn drivers() -> Vec<PathBuf> {
    let folder = std::env::var_os("RTSWAP_DRIVER_LIBRARIES").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("driver"),
        PathBuf::from,
    );
    let versions = fs::read_dir(folder).into_iter().flatten();
    let libraries = versions.filter_map(|version| Some(version.ok()?.path().join("libcuda.so.1")));
    let mut libraries: Vec<_> = libraries.filter(|library| library.is_file()).collect();
    libraries.sort();
    if libraries.is_empty() {
        // Not by a macro, whose words a test that passes keeps to itself.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED drivers: there are no libraries of NVIDIA's, which `cargo xtask driver` fetches"
        );
    }
    libraries
}

/// The first bytes of what the kernel emulates (arch/x86/kernel/uprobes.c): push, conditional jumps and the rest.
fn is_emulated(code: &[u8]) -> bool {
    let long = code[0] == 0x0f && (0x80..=0x8f).contains(&code[1]);
    let push = |byte: u8| (0x50..=0x57).contains(&byte);
    let one = matches!(code[0], 0x70..=0x7f | 0xe8 | 0xe9 | 0xeb | 0x90) || push(code[0]);
    one || long || (code[0] == 0x41 && push(code[1]))
}

/// The places that a jump or call from anywhere in the file may lead to, if it began at that byte.
fn led_to(bytes: &[u8], places: &BTreeMap<usize, &str>) -> Vec<String> {
    let far = |at: usize| {
        let distance = bytes.get(at..at + 4)?;
        let distance = i32::from_le_bytes(distance.try_into().ok()?);
        (at + 4).checked_add_signed(distance as isize)
    };
    let mut found = Vec::new();
    for (at, &byte) in bytes.iter().enumerate() {
        let leads = match byte {
            0xe8 | 0xe9 => far(at + 1),
            0x0f if matches!(bytes.get(at + 1), Some(0x80..=0x8f)) => far(at + 2),
            _ => None,
        };
        if let Some(symbol) = leads.and_then(|place| places.get(&place)) {
            found.push(format!("{symbol} from {at:#x}"));
        }
    }
    found
}

/// Whether the folder of this library is of a branch after [`NEWEST_KNOWN`].
fn is_newer(library: &Path) -> bool {
    let version = library.parent().and_then(Path::file_name);
    let version = version.map(|version| version.to_string_lossy());
    let branch = version.and_then(|version| version.split('.').next()?.parse().ok());
    branch > Some(NEWEST_KNOWN)
}

/// Probes that are not where they are cheap, and whatever else must not be.
fn faults(library: &Path) -> Vec<String> {
    let bytes = fs::read(library).unwrap();
    let places = match places(library, FUNCTIONS) {
        Ok(places) => places,
        Err(error) => return vec![format!("{error:#}")],
    };
    let mut faults = Vec::new();
    let mut by_offset: BTreeMap<u64, u32> = BTreeMap::new();
    for (on, place) in &places {
        let (start, probe) = (place.start as usize, place.probe as usize);
        if !is_emulated(&bytes[probe..]) {
            let code = &bytes[start..start + 24];
            faults.push(format!("{} begins with {code:x?}", on.symbol));
        }
        *by_offset.entry(place.probe - place.start).or_default() += 1;
    }
    println!("{}: {by_offset:?}", library.display());
    if places.len() <= 30 {
        faults.push(format!("{} functions", places.len()));
    }
    let moved = places
        .iter()
        .filter(|(_, place)| place.probe != place.start);
    let moved = moved.map(|(on, place)| (place.probe as usize, on.symbol));
    let led_to = led_to(&bytes, &moved.collect()).into_iter();
    faults.extend(led_to.map(|one| format!("a jump or a call may lead to {one}")));
    faults
}

#[test]
fn later_branches_are_told_by_their_folders() {
    let is_newer = |folder: &str| is_newer(&Path::new(folder).join("libcuda.so.1"));
    assert!(!is_newer("/x/470.256.02") && !is_newer("/999.1/mine"));
    assert!(is_newer(&format!("/x/{}.1", NEWEST_KNOWN + 1)));
}

#[test]
fn every_function_of_every_driver_is_probed_where_that_is_cheap() {
    for library in drivers() {
        let faults = faults(&library);
        let text = format!("{}: {faults:?}", library.display());
        if !is_newer(&library) {
            assert!(faults.is_empty(), "{text}");
        } else if !faults.is_empty() {
            let _ = writeln!(std::io::stderr(), "UNJUDGED drivers, newer: {text}");
        }
    }
}
