//! What the documents show is what is printed. `TRYCMD=overwrite cargo test -p rtswapctl` writes
//! docs/planning.md and docs/graphs.md anew.
#![allow(missing_docs)]

use std::fs;

/// The block that begins so, without the line that ends it.
fn block<'a>(text: &'a str, begin: &str) -> &'a str {
    let from = text.find(begin).expect("the block is there");
    let length = text[from..].find("```").expect("the block ends");
    &text[from..from + length]
}

#[test]
fn what_the_documents_show_is_what_is_printed() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    std::env::set_current_dir(root).unwrap();
    trycmd::TestCases::new()
        .case("docs/planning.md")
        .case("docs/graphs.md")
        .run();
    let begin = "$ rtswapctl plan examples/taskset.toml\n";
    let manual = fs::read_to_string("docs/planning.md").unwrap();
    let readme = fs::read_to_string("README.md").unwrap();
    assert_eq!(block(&readme, begin), block(&manual, begin), "README.md");
}
