//! What is told of a profile.

use std::ffi::OsString;
use std::fmt::Write;

use rtswap_policy::units::Nanos;
use rtswap_taskset::exact_millis;
use rtswap_taskset::profile::{Execution, Jobs, Profile};

use super::Outcome;
use crate::table::{Widths, bytes, lines, millis, wrapped};

/// The columns of a terminal.
const WIDTH: Option<usize> = Some(80);
/// The most characters of a name in the table: RUN and MAX have room beside them.
const LONGEST_NAME: usize = 56;

/// A program and its arguments as a shell reads them.
pub(crate) fn command(program: &[OsString]) -> String {
    let words = program.iter().map(|word| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || "._-/=:,+@%".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a promise that rests on a profile rests on, in one line.
pub(crate) fn promise(profile: &Profile) -> String {
    format!(
        "{}: C {}, measured over {} jobs, not proven; footprint {}, {} of it swappable",
        profile.name,
        millis(profile.wcet),
        profile.count(),
        bytes(profile.memory.footprint.0),
        bytes(profile.memory.swappable.0),
    )
}

/// All of it.
pub(super) fn told(outcome: &Outcome) -> String {
    let folded = &outcome.folded;
    let whole = &folded.whole;
    let mut text = wrapped(&promise(whole), 2, WIDTH) + "\n";
    let mut rows = Vec::new();
    for profile in std::iter::once(whole).chain(&folded.named) {
        rows.push(row(profile, "alone", &profile.alone));
        rows.push(row(profile, "loaded", &profile.loaded));
    }
    let heads = ["PROFILE", "RUN", "JOBS", "MEDIAN", "HIGH", "MAX", "PERIOD"];
    let widths = Widths {
        most: WIDTH,
        // PERIOD, HIGH, MEDIAN, JOBS.
        first_to_go: &[6, 4, 3, 2],
    };
    text.push_str(&lines(&heads, &[0, 1], &rows, widths).concat());
    text.push('\n');
    for line in notes(outcome) {
        text.push_str(&wrapped(&line, 0, WIDTH));
    }
    let _ = write!(
        text,
        "\nkept in {}\nnext: {}\n",
        outcome.path.display(),
        next(whole)
    );
    text
}

fn row(profile: &Profile, run: &str, seen: &Execution) -> Vec<String> {
    vec![
        shortened(&profile.name),
        run.into(),
        seen.count.to_string(),
        millis(seen.median),
        format!("P{} {}", seen.high.0.0 / 10_000, millis(seen.high.1)),
        millis(seen.max),
        millis(profile.period.0),
    ]
}

/// A name without its beginning where it is too long: jobs of one program differ at the end.
fn shortened(name: &str) -> String {
    let letters = name.chars().count();
    if letters <= LONGEST_NAME {
        return name.to_owned();
    }
    let rest = name.chars().skip(letters + 1 - LONGEST_NAME);
    std::iter::once('…').chain(rest).collect()
}

fn notes(outcome: &Outcome) -> Vec<String> {
    let folded = &outcome.folded;
    let whole = &folded.whole;
    let percent = |share: u32| f64::from(share) / 10_000.0;
    let loaded = &whole.loaded;
    let mut notes = vec![format!(
        "If jobs are independent and alike, {} % of them take no longer than the longest beside copies, with a \
         confidence of {} %. C holds as far as the inputs were the worst.",
        percent(loaded.quantile.0),
        percent(loaded.confidence.0),
    )];
    if !folded.named.is_empty() {
        let sum = folded.named.iter().map(|it| it.wcet).sum::<Nanos>();
        notes.push(format!(
            "One process is one task: what may be promised is {} as a whole, with the longest of its jobs as C and the \
             shortest time between two of them, {}, as its period; or one job around all of them, with the sum, {}, as \
             C. The profiles of single jobs are for programs that are split.",
            whole.name,
            millis(whole.period.1),
            millis(sum),
        ));
    }
    if whole.jobs == Jobs::Mixed {
        notes.push(
            "GPU work between the declared jobs is a job of its own to the daemon: declare it too, or do it in one."
                .into(),
        );
    }
    if folded.loading > 0 {
        let loading = folded.loading;
        notes.push(format!(
            "{loading} jobs while the program loaded do not count."
        ));
    }
    if !folded.rare.is_empty() {
        let rare = folded.rare.join(", ");
        notes.push(format!(
            "Too few jobs for a profile: {rare}; give more --jobs."
        ));
    }
    for name in &folded.long {
        notes.push(format!(
            "{name} is too long for a task's name and not kept: give a shorter --name."
        ));
    }
    let jobs = folded.named.iter().zip(&outcome.named);
    for (job, _) in jobs.filter(|(_, path)| path.is_none()) {
        let name = &job.name;
        notes.push(format!(
            "{name} is the name of another profile, which stays, and this one is not kept: give another --name."
        ));
    }
    if outcome.others > 0 {
        let others = outcome.others;
        notes.push(format!(
            "{others} other processes had jobs too, which this profile leaves out."
        ));
    }
    notes
}

/// The command that asks whether it fits.
fn next(whole: &Profile) -> String {
    let median = whole.period.0.0;
    // Cut to about a thousandth: the host wakes a program late, and a longer period would be promised than it has.
    let step = if median < 100_000_000 {
        100_000
    } else {
        1_000_000
    };
    // A program that never pauses has its jobs as fast as they go: sooner none can be promised.
    let least = whole.wcet.0.next_multiple_of(step);
    let period = Nanos((median - median % step).max(least));
    format!("rtswapctl plan {}:{}ms", whole.name, exact_millis(period))
}

#[cfg(test)]
mod tests {
    use rtswap_taskset::profile::Folded;

    use super::super::store::tests::profile;
    use super::*;

    #[test]
    fn a_profile_is_told_with_what_it_rests_on_and_the_next_command() {
        let whole = profile();
        let mut front = profile();
        front.name = "yolo.front".into();
        let folded = Folded {
            named: vec![front.clone(), front],
            rare: vec!["rear".into()],
            long: vec!["yolo.long".into()],
            loading: 3,
            whole,
        };
        let outcome = Outcome {
            folded,
            path: "/p".into(),
            named: vec![Some("/q".into()), None],
            others: 1,
        };
        let text = told(&outcome);
        for part in [
            "yolo: C 12.40 ms, measured over 400 jobs, not proven; footprint 12 MiB, 10 MiB",
            "98.5 % of them",
            "with the sum, 24.80 ms",
            "3 jobs while",
            "a profile: rear",
            "1 other processes",
            "yolo.long is too long",
            "yolo.front is the name of another profile",
            "next: rtswapctl plan yolo:33.3ms\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }

    #[test]
    fn a_long_name_takes_the_other_columns_first_and_then_its_beginning() {
        let shown = |letters: usize| {
            let mut whole = profile();
            whole.name = "x".repeat(letters - 4) + "tail";
            let outcome = Outcome {
                folded: Folded {
                    whole,
                    named: Vec::new(),
                    rare: Vec::new(),
                    long: Vec::new(),
                    loading: 0,
                },
                path: "/p".into(),
                named: Vec::new(),
                others: 0,
            };
            let text = crate::color::render(&told(&outcome), false);
            let mut table = text.lines().filter(|line| line.contains("  "));
            let heads = table.find(|line| line.starts_with("PROFILE"));
            let row = table.find(|line| line.contains("loaded")).unwrap();
            assert!(row.chars().count() <= 80, "{text}");
            let heads: Vec<_> = heads.unwrap().split_whitespace().collect();
            (heads.join(" "), row.split("  ").next().unwrap().to_owned())
        };
        let (heads, _) = shown(9);
        assert_eq!(heads, "PROFILE RUN JOBS MEDIAN HIGH MAX PERIOD");
        let (heads, name) = shown(40);
        assert_eq!(
            (&*heads, name.chars().count()),
            ("PROFILE RUN JOBS MEDIAN MAX", 40)
        );
        let (heads, name) = shown(63);
        assert_eq!(
            (&*heads, name.chars().count()),
            ("PROFILE RUN JOBS MAX", 56)
        );
        assert!(name.starts_with("…x") && name.ends_with("tail"), "{name}");
    }

    #[test]
    fn the_next_period_is_no_longer_than_the_programs_and_no_shorter_than_its_jobs() {
        let next = |median: u64, wcet: u64| {
            let mut whole = profile();
            whole.period.0 = Nanos(median);
            whole.wcet = Nanos(wcet);
            next(&whole)
        };
        assert_eq!(next(1_000_140_000, 5), "rtswapctl plan yolo:1000ms");
        assert_eq!(next(33_370_000, 5), "rtswapctl plan yolo:33.3ms");
        assert_eq!(next(154_900_000, 154_210_000), "rtswapctl plan yolo:155ms");
        assert_eq!(next(70_000, 61_000), "rtswapctl plan yolo:0.1ms");
    }

    #[test]
    fn a_command_is_what_a_shell_reads() {
        let words = ["a", "", "b c", "it's"].map(OsString::from);
        assert_eq!(command(&words), r"a '' 'b c' 'it'\''s'");
    }
}
