//! `rtswapctl policy get` and `set`: what users and tasks may have. `document` is what the daemon answers, `text` what
//! people see of it, `users` knows users by name.

mod document;
mod text;
mod users;

use std::collections::HashMap;
use std::path::Path;

use rtswap_dbus::{Error, Manager1Proxy};
use rtswapctl::cli::{PolicyCommand, PolicyGetOptions, PolicySetOptions};
use rtswapctl::rule::{Rule, RuleValue};
use zbus::Variant;

use self::document::{Document, Target};
use self::users::Users;
use crate::daemon::converse;
use crate::failure::Failure;
use crate::output;

/// Shows or sets the policy.
pub(crate) fn policy(runtime_dir: Option<&Path>, command: &PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::Get(options) => get(runtime_dir, options),
        PolicyCommand::Set(options) => set(runtime_dir, options),
    }
}

fn get(runtime_dir: Option<&Path>, options: &PolicyGetOptions) -> Result<(), Failure> {
    let users = Users::read();
    let target = target(&users, options.user.as_deref(), options.task.as_deref())?;
    let mut document = converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection).await.map_err(Error::from)?;
        Document::parse(&manager.policy().await?)
    })?;
    document.keep_about(&target);
    if options.json {
        output::json(&document)
    } else {
        output::text(&text::table_of(&document.rules, &users))
    }
}

fn set(runtime_dir: Option<&Path>, options: &PolicySetOptions) -> Result<(), Failure> {
    let users = Users::read();
    let target = target(&users, options.user.as_deref(), options.task.as_deref())?;
    let wire = wire(&target, &options.rules)?;
    let (document, is_there) = converse(async {
        let connection = rtswap_dbus::find(runtime_dir).await?;
        let manager = Manager1Proxy::new(&connection).await.map_err(Error::from)?;
        manager.set_policy(wire).await?;
        let document = Document::parse(&manager.policy().await?)?;
        let objects = rtswap_dbus::objects::list(&connection).await?;
        let is_there = match &target {
            Target::Task { uid, name } => {
                let mut tasks = objects.tasks.iter().map(|(_, task)| task);
                // Of a user whose tasks the caller does not see, one may be of that name.
                let is_hidden = objects.others.iter().any(|(_, task)| task.user_id == *uid);
                is_hidden || tasks.any(|task| (task.user_id, &task.name) == (*uid, name))
            }
            Target::User(_) | Target::Everybody => true,
        };
        Ok((document, is_there))
    })?;
    let keys: Vec<_> = options.rules.iter().map(|rule| rule.key).collect();
    output::text(&text::after_set(
        &document, &target, &keys, is_there, &users,
    ))
}

/// Whom a command is about.
fn target(users: &Users, user: Option<&str>, task: Option<&str>) -> Result<Target, Failure> {
    let uid = user.map(|user| users.uid(user)).transpose()?;
    Ok(match (uid, task) {
        (uid, Some(name)) => Target::Task {
            uid: uid.unwrap_or_else(|| rustix::process::getuid().as_raw()),
            name: name.to_owned(),
        },
        (Some(uid), None) => Target::User(uid),
        (None, None) => Target::Everybody,
    })
}

/// The options of `SetPolicy`.
fn wire<'a>(target: &Target, rules: &[Rule]) -> Result<HashMap<&'a str, Variant<'a>>, Failure> {
    let mut options = HashMap::new();
    if let Some(uid) = target.uid() {
        options.insert("user", Variant::U32(uid));
    }
    if let Target::Task { name, .. } = target {
        options.insert("task", Variant::from(name.clone()));
    }
    for rule in rules {
        let value = match &rule.value {
            RuleValue::Nothing => Variant::from(String::new()),
            RuleValue::Word(word) => Variant::from(word.clone()),
            RuleValue::Number(number) => Variant::U64(*number),
        };
        if options.insert(rule.key, value).is_some() {
            let name = Rule::name(rule.key);
            return Err(Failure::SaidTwice(name));
        }
    }
    Ok(options)
}
