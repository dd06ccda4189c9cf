//! Names of tasks in the engine's texts. The engine writes each as `NAME@UID`, and no name has an `@`: so
//! a text is made for whoever reads it only when it is shown, and names no task that the reader may not see.

use std::fmt::Write as _;

/// The parts of a text as `reader` may see it: names of tasks that `sees` denies become their users.
/// Names of the user `plain` are written without that user.
pub(crate) fn show(text: &str, plain: u32, sees: impl Fn(u32) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        let start = before
            .rfind(|letter: char| !is_of_name(letter))
            .map_or(0, |end| {
                end + before[end..].chars().next().map_or(0, char::len_utf8)
            });
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let name = &before[start..];
        let owner = after[..digits].parse().ok().filter(|_| !name.is_empty());
        shown.push_str(&before[..start]);
        // Writing to a String cannot fail.
        let _ = match owner {
            None => write!(shown, "{name}@{}", &after[..digits]),
            Some(uid) if !sees(uid) => write!(shown, "a task of user {uid}"),
            Some(uid) if uid == plain => write!(shown, "{name}"),
            Some(uid) => write!(shown, "{name}@{uid}"),
        };
        rest = &after[digits..];
    }
    shown.push_str(rest);
    shown
}

/// The text for root and the log: every name, those of the daemon's own user without it.
pub(crate) fn show_all(text: &str) -> String {
    show(text, rustix::process::geteuid().as_raw(), |_| true)
}

/// The text for a program of the user `uid`.
pub(crate) fn show_to(text: &str, uid: u32) -> String {
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return show_all(text);
    }
    show(text, uid, |owner| owner == uid)
}

/// The user of the task that the engine calls `name`.
pub(crate) fn owner(name: &str) -> Option<u32> {
    name.rsplit_once('@')?.1.parse().ok()
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "._-".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_names_become_their_users() {
        let text = "the plan of cam.1@1000, lidar@0 leaves 1 MiB";
        assert_eq!(
            show(text, 1000, |uid| uid == 1000),
            "the plan of cam.1, a task of user 0 leaves 1 MiB"
        );
        assert_eq!(
            show(text, 0, |_| true),
            "the plan of cam.1@1000, lidar leaves 1 MiB"
        );
        assert_eq!(show("behind a@7", 1, |_| false), "behind a task of user 7");
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(
            show_to("a@7, b@8", own + 9),
            "a task of user 7, a task of user 8"
        );
        assert_eq!(show_to("a@4000000000", 0), "a@4000000000");
    }

    #[test]
    fn what_is_no_name_stays() {
        for text in [
            "",
            "@",
            "a@",
            "@1",
            "é@1",
            "x@y",
            "a@99999999999",
            "no name",
        ] {
            assert_eq!(show(text, 0, |_| false), text);
        }
        assert_eq!(show("éa@1@2", 0, |_| false), "éa task of user 1@2");
    }

    #[test]
    fn the_owner_is_behind_the_name() {
        assert_eq!(
            (owner("a@17"), owner("a"), owner("a@")),
            (Some(17), None, None)
        );
    }
}
