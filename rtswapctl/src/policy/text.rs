//! The policy as people see it.

use rtswapctl::rule::Rule;
use serde_json::Value;

use super::document::{Document, Row, Target};
use super::users::Users;
use crate::table::{Widths, bytes, lines, wrapped};

const HEADS: [&str; 4] = ["SCOPE", "RULE", "VALUE", "FROM"];
const WIDTH: usize = 80;

/// The table of rules, at most [`WIDTH`] columns wide: a scope that is too long for its column has a line of its own.
pub(super) fn table_of(rows: &[Row], users: &Users) -> String {
    if rows.is_empty() {
        return "no rules\n".to_owned();
    }
    let mut cells: Vec<[String; 4]> = rows.iter().map(|row| cells(row, rows, users)).collect();
    let width = |column: usize| {
        let all = cells.iter().map(|row| row[column].chars().count());
        all.max().unwrap_or(0).max(HEADS[column].len())
    };
    let room = WIDTH.saturating_sub((1..4).map(|column| width(column) + 2).sum());
    let mut own_lines = Vec::new();
    for row in &mut cells {
        let is_long = row[0].chars().count() > room;
        own_lines.push(is_long.then(|| std::mem::take(&mut row[0]) + "\n"));
    }
    let cells: Vec<Vec<String>> = cells.into_iter().map(Vec::from).collect();
    let widths = Widths {
        most: None,
        first_to_go: &[],
    };
    let mut lines = lines(&HEADS, &[0, 1, 2, 3], &cells, widths).into_iter();
    let mut text = lines.next().unwrap_or_default();
    let mut told = None;
    for (own_line, line) in own_lines.into_iter().zip(lines) {
        // Once for all rows of one scope.
        if let Some(scope) = &own_line
            && told.as_ref() != Some(scope)
        {
            text.push_str(scope);
        }
        told = own_line;
        text.push_str(&line);
    }
    text
}

/// What holds after rules were set or taken back, and how long.
pub(super) fn after_set(
    document: &Document,
    target: &Target,
    keys: &[&str],
    is_there: bool,
    users: &Users,
) -> String {
    let is_about = |row: &&Row| row.target() == *target && keys.contains(&row.key.as_str());
    let rows: Vec<_> = document.rules.iter().filter(is_about).cloned().collect();
    let scope = scope(target, users);
    let mut text = if rows.is_empty() {
        String::new()
    } else {
        table_of(&rows, users)
    };
    let is_said = |key: &&&str| rows.iter().any(|row| row.key == **key);
    let unsaid: Vec<_> = keys.iter().filter(|key| !is_said(key)).collect();
    if !unsaid.is_empty() {
        let names: Vec<_> = unsaid.into_iter().map(|key| Rule::name(key)).collect();
        let line = format!(
            "nothing is said of {} for {scope}: what is wider holds\n",
            names.join(", ")
        );
        text.push_str(&wrapped(&line, 0, Some(WIDTH)));
    }
    if !is_there {
        let line = format!("no {scope} is registered: the rules wait for one\n");
        text.push_str(&wrapped(&line, 0, Some(WIDTH)));
    }
    if rows.iter().any(|row| row.source == "run-time") {
        let line = "run-time rules last until the next rtswapctl reload or boot; to keep them, write them to \
                    /etc/rtswap/policy.toml\n";
        text.push_str(&wrapped(line, 0, Some(WIDTH)));
    }
    text
}

fn cells(row: &Row, rows: &[Row], users: &Users) -> [String; 4] {
    let same = |other: &&Row| other.holds && other.key == row.key && other.target() == row.target();
    let winner = rows.iter().find(same).filter(|_| !row.holds);
    let from = match winner {
        Some(winner) => format!("{} ({} holds)", row.source, winner.source),
        None => row.source.clone(),
    };
    [
        scope(&row.target(), users),
        Rule::name(&row.key).to_owned(),
        value(row),
        from,
    ]
}

fn scope(target: &Target, users: &Users) -> String {
    match target {
        Target::Everybody => "everybody".to_owned(),
        Target::User(uid) => format!("user {}", users.name(*uid)),
        Target::Task { uid, name } => format!("task {name} of {}", users.name(*uid)),
    }
}

fn value(row: &Row) -> String {
    let number = row.value.as_u64();
    match (row.key.as_str(), number, &row.value) {
        ("gpu_memory" | "pinned_memory", Some(size), _) => bytes(size),
        ("deadline_us" | "idle_after_us", Some(micros), _) => format!("{} ms", micros as f64 / 1e3),
        (_, _, Value::String(word)) => word.clone(),
        (_, _, other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::tests::ANSWER;
    use super::*;
    use crate::color::render;

    fn users() -> Users {
        Users::parse("root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n")
    }

    fn yolo() -> Target {
        Target::Task {
            uid: 1000,
            name: "yolo".into(),
        }
    }

    #[test]
    fn a_table_shows_where_each_rule_is_said_and_which_holds() {
        let document = Document::parse(ANSWER).unwrap();
        let text = render(&table_of(&document.rules, &users()), false);
        assert_eq!(
            text,
            "\
SCOPE             RULE          VALUE    FROM
everybody         max_tasks     64       policy.toml
everybody         max_tasks     512      rtswapd.toml (policy.toml holds)
everybody         on_violation  warn     built-in
user ann          gpu_memory    6.2 GiB  policy.toml
user 7            gpu_memory    5 B      policy.toml
task yolo of ann  deadline      20.5 ms  run-time
task yolo of ann  deadline      33 ms    policy.toml (run-time holds)
task b of ann     weight        300      policy.toml
"
        );
        assert_eq!(table_of(&[], &users()), "no rules\n");
    }

    #[test]
    fn a_long_name_does_not_make_it_wider_than_a_terminal() {
        let name = "n".repeat(63);
        let answer = ANSWER.replace("\"yolo\"", &format!("{name:?}"));
        let document = Document::parse(&answer).unwrap();
        let text = render(&table_of(&document.rules, &users()), false);
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let own = format!("task {name} of ann\n");
        assert_eq!(text.matches(&own).count(), 1, "{text}");
        assert!(text.contains("everybody      max_tasks"), "{text}");
    }

    #[test]
    fn after_a_change_what_holds_is_told_and_how_long() {
        let document = Document::parse(ANSWER).unwrap();
        let told = |keys: &[&str], is_there| {
            let text = after_set(&document, &yolo(), keys, is_there, &users());
            render(&text, false)
        };
        assert_eq!(
            told(&["deadline_us"], true),
            "\
SCOPE             RULE      VALUE    FROM
task yolo of ann  deadline  20.5 ms  run-time
task yolo of ann  deadline  33 ms    policy.toml (run-time holds)
run-time rules last until the next rtswapctl reload or boot; to keep them, write
them to /etc/rtswap/policy.toml
"
        );
        assert_eq!(
            told(&["weight"], false),
            "nothing is said of weight for task yolo of ann: what is wider holds\n\
             no task yolo of ann is registered: the rules wait for one\n"
        );
    }
}
