//! What is typed after a plan for profiles, and how it is broken to a terminal's width.

use std::fmt::Write as _;

use rtswap_policy::admission::Test;
use rtswap_policy::assign::Objective;
use rtswap_policy::task::Timing;
use rtswap_policy::units::Nanos;
use rtswap_taskset::exact_millis;

use super::Planned;

/// What a longer time is rounded up to: fewer digits to type.
const TENTH: u64 = 100_000;

/// The command that plans a refused set with the longer periods of the advice; none where these would be refused too.
pub(super) fn longer(planned: &Planned) -> Option<String> {
    let advice = planned.advice.as_ref()?;
    let timings = advice.timings(&planned.set.demands())?;
    let mut set = planned.set.clone();
    for (task, timing) in set.tasks.iter_mut().zip(timings) {
        let typed = task.timing;
        // A time that the advice leaves alone stays as it was typed.
        let rounded = |longer: Nanos, typed: Nanos| {
            let up = longer.0.checked_next_multiple_of(TENTH).map(Nanos);
            up.filter(|_| longer != typed).unwrap_or(longer)
        };
        let period = rounded(timing.period, typed.period);
        task.timing = Timing {
            period,
            deadline: rounded(timing.deadline, typed.deadline).min(period),
            wcet: timing.wcet,
        };
    }
    set.plan(planned.test, planned.objective).ok()?;
    let mut command = "rtswapctl plan".to_owned();
    match planned.test {
        Test::Demand => {}
        test => command.extend([" --test ", test.name()]),
    }
    match planned.objective {
        Objective::Time => {}
        Objective::Volume => command.push_str(" --objective volume"),
    }
    for task in &set.tasks {
        let Timing {
            period, deadline, ..
        } = task.timing;
        let _ = write!(command, " {}:{}ms", task.name, exact_millis(period));
        if deadline < period {
            let _ = write!(command, ":{}ms", exact_millis(deadline));
        }
    }
    Some(command)
}

/// A command with its newline, broken between words as a shell takes them, where it is longer than `width`.
pub(super) fn continued(command: &str, width: Option<usize>) -> String {
    const INDENT: &str = "    ";
    let width = width.unwrap_or(usize::MAX);
    if command.chars().count() <= width {
        return format!("{command}\n");
    }
    let mut lines = vec![String::new()];
    for word in shell_words(command) {
        let line = lines.last_mut().expect("one from the start");
        // The last two columns are the backslash's.
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() + 2 > width {
            lines.push(format!("{INDENT}{word}"));
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(" \\\n") + "\n"
}

/// The words between spaces that are in no quotes.
fn shell_words(command: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut is_escaped = false;
    let words = command.split(move |letter: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match (letter, quote) {
            _ if was_escaped => {}
            ('\\', None | Some('"')) => is_escaped = true,
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (' ', None) => return true,
            _ => {}
        }
        false
    });
    words.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use rtswap_taskset::{Format, parse};

    use super::*;
    use crate::cli::{self, TaskSetOptions};
    use crate::color::render;
    use crate::plan::profiled::typed;

    fn planned(text: &str, test: cli::Test) -> Planned {
        let options = TaskSetOptions {
            file: "set.toml".into(),
            on: None,
            test,
            objective: cli::Objective::Time,
            json: false,
        };
        Planned::new(parse(text, Format::Toml).unwrap(), &options)
    }

    const REFUSED: &str = include_str!("../../../examples/refused.toml");
    const ACCEPTED: &str = include_str!("../../../examples/taskset.toml");

    #[test]
    fn the_next_command_after_a_refusal_is_accepted() {
        for (test, begin) in [
            (
                cli::Test::Demand,
                "rtswapctl plan yolo-608:1000ms resnet-608:1032.6ms ",
            ),
            (
                cli::Test::Theorem1,
                "rtswapctl plan --test theorem1 yolo-608:",
            ),
        ] {
            let refused = planned(REFUSED, test);
            let next = longer(&refused).unwrap();
            assert!(next.starts_with(begin), "{next}");
            let tasks = next.split(' ').filter_map(typed).map(Result::unwrap);
            let mut set = refused.set.clone();
            for (task, typed) in set.tasks.iter_mut().zip(tasks) {
                (task.timing.period, task.timing.deadline) = typed.span();
            }
            assert!(set.plan(refused.test, refused.objective).is_ok(), "{next}");
        }
        assert_eq!(longer(&planned(ACCEPTED, cli::Test::Demand)), None);
    }

    #[test]
    fn a_plan_is_no_wider_than_its_terminal() {
        let place = "Planned for GPU 0 (GPU-01234567-89ab-cdef-0123-456789abcdef) as rtswapd has it, with them.";
        let commands = [
            "rtswapctl run --name a-name --period 1117.5ms -- python3 infer.py --model larger-one",
        ];
        for (text, end) in [
            (REFUSED, "\nnext: rtswapctl plan "),
            (
                ACCEPTED,
                " next:\nrtswapctl run --name a-name --period 1117.5ms -- python3 infer.py --model \\\n    larger-one\n",
            ),
        ] {
            let planned = planned(text, cli::Test::Demand);
            let text = |width| {
                render(
                    &planned.profiled_text(place, &commands.map(str::to_owned), width),
                    false,
                )
            };
            let narrow = text(Some(80));
            assert!(narrow.contains(end), "{narrow}");
            assert!(
                narrow.lines().all(|line| line.chars().count() <= 80),
                "{narrow}"
            );
            assert!(text(None).lines().any(|line| line.chars().count() > 80));
        }
    }

    #[test]
    fn a_long_command_is_continued_between_words_and_a_short_one_is_left_alone() {
        let command = r"rtswapctl run --name a -- sh -c 'a  long word' it\ is 'it'\''s  more' end";
        assert_eq!(continued(command, None), format!("{command}\n"));
        assert_eq!(continued(command, Some(80)), format!("{command}\n"));
        let broken = continued(command, Some(30));
        assert_eq!(
            broken,
            "rtswapctl run --name a -- sh \\\n    -c 'a  long word' it\\ is \\\n    'it'\\''s  more' end\n"
        );
        assert!(broken.lines().all(|line| line.chars().count() <= 30));
        assert_eq!(broken.replace(" \\\n   ", ""), continued(command, None));
    }
}
