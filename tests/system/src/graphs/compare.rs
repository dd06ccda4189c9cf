//! Graphs that were recorded beside those that are kept, by the hashes of their texts.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, ensure};

/// Where the graphs are kept.
const FOLDER: &str = "tests/eval/graphs";

/// Which recorded graphs are not those that are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// How many were compared.
    graphs: usize,
    /// Those that differ.
    pub(crate) differing: Vec<Difference>,
}

/// A graph that was recorded otherwise than it is kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    name: String,
    recorded: String,
    /// None if no file of this name is kept.
    kept: Option<String>,
}

impl Comparison {
    /// Compares lines `HASH NAME`. Graphs that are only kept are of other batches.
    pub(crate) fn new(recorded: &str, kept: &str) -> Result<Self> {
        let recorded = hashes(recorded)?;
        let kept = hashes(kept)?;
        ensure!(!recorded.is_empty(), "no graph was recorded");
        let differing = recorded
            .iter()
            .filter(|(name, hash)| kept.get(*name) != Some(hash))
            .map(|(name, hash)| Difference {
                name: (*name).to_owned(),
                recorded: (*hash).to_owned(),
                kept: kept.get(name).map(|hash| (*hash).to_owned()),
            })
            .collect();
        Ok(Self {
            graphs: recorded.len(),
            differing,
        })
    }
}

/// The hash of each name.
fn hashes(text: &str) -> Result<BTreeMap<&str, &str>> {
    let lines = text.lines().map(|line| {
        let (hash, name) = line
            .split_once(' ')
            .with_context(|| format!("not a hash and a name: {line}"))?;
        Ok((name, hash))
    });
    lines.collect()
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differing {
            writeln!(f, "{difference}")?;
        }
        if !self.differing.is_empty() {
            let names: Vec<_> = self.differing.iter().map(|graph| &*graph.name).collect();
            writeln!(
                f,
                "Undo what changed the graph, in python/src/rtswap/graph or in {FOLDER}; or, if the change is meant, export it \
                 again where there is PyTorch, and commit the file with its row in {FOLDER}/README.md, which has the commands \
                 for other batches too:\n  PYTHONPATH=python/src python3 -m rtswap.graph {} -o {FOLDER}",
                names.join(" ")
            )?;
        }
        write!(f, "{} graphs, {} differ", self.graphs, self.differing.len())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            recorded,
            kept,
        } = self;
        writeln!(
            f,
            "DIFFERS {name}: PyTorch records another graph than the one that is kept"
        )?;
        writeln!(f, "  recorded {recorded}")?;
        match kept {
            Some(kept) => write!(f, "  kept     {kept} in {FOLDER}/{name}.json.gz"),
            None => write!(f, "  kept     none: there is no {FOLDER}/{name}.json.gz"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_that_are_kept_as_they_are_recorded_do_not_differ() {
        let comparison =
            Comparison::new("aa vgg-16\nbb lstm\n", "bb lstm\ncc lstm-b4\naa vgg-16\n").unwrap();
        assert_eq!(comparison.to_string(), "2 graphs, 0 differ");
    }

    #[test]
    fn a_graph_that_differs_is_named_with_both_hashes_and_what_to_do() {
        let text = Comparison::new("aa vgg-16\nbb lstm\ncc new\n", "aa vgg-16\nb0 lstm\n")
            .unwrap()
            .to_string();
        for part in [
            "DIFFERS lstm: ",
            "  recorded bb\n  kept     b0 in tests/eval/graphs/lstm.json.gz\n",
            "  recorded cc\n  kept     none: there is no tests/eval/graphs/new.json.gz\n",
            "python3 -m rtswap.graph lstm new -o tests/eval/graphs\n3 graphs, 2 differ",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("DIFFERS vgg-16"), "{text}");
    }

    #[test]
    fn nothing_recorded_is_an_error() {
        assert!(Comparison::new("", "aa lstm\n").is_err());
        assert!(Comparison::new("Killed\n", "aa lstm\n").is_err());
    }
}
