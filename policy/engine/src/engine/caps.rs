//! The memory that the policy lets tasks and users have. It is asked when a process requests more; what
//! somebody has already stays.

use alloc::format;
use alloc::string::String;

use rtswap_policy::task::TaskId;
use rtswap_policy::units::Bytes;

use super::Engine;
use crate::groups::Taken;
use crate::ids::RegistrationId;
use crate::rules::Rules;
use crate::sessions::SessionId;

/// One of the two caps.
struct Cap {
    name: &'static str,
    rule: fn(&Rules) -> Option<Bytes>,
    of: fn(&Taken) -> Bytes,
    text: &'static str,
}

const CAPS: [Cap; 2] = [
    Cap {
        name: "gpu_memory",
        rule: |rules| rules.gpu_memory,
        of: |taken| taken.all,
        text: "of GPU memory",
    },
    Cap {
        name: "pinned_memory",
        rule: |rules| rules.pinned_memory,
        of: |taken| taken.swappable,
        text: "that may need pinned memory",
    },
];

impl Engine {
    /// The text of why the policy does not let a process have a budget of `bytes` on a GPU; none where it does.
    pub(super) fn beyond_cap(&self, gpu: usize, id: SessionId, bytes: Bytes) -> Option<String> {
        if !self.policy.has_caps() {
            return None;
        }
        let entry = self.registry.get(id.registration)?;
        let user = entry.owner.uid();
        let task = self.tasks.on(id.registration, gpu)?;
        let group = &self.tasks.get(task)?.group;
        let asked = group.taken_with(id.process, bytes);
        let name = &entry.task.name;
        CAPS.iter().find_map(|cap| {
            let [own, of_user] = self.policy.caps(user, entry.uid, name, cap.rule);
            let by_task = (cap.of)(&asked);
            let Cap { name: key, text, .. } = cap;
            let beyond = |most: &Bytes, sum: Bytes| sum > *most;
            if let Some(most) = own.filter(|most| beyond(most, by_task)) {
                return Some(format!(
                    "the policy lets task {name} have {most} {text}, and this would make it {by_task} ({key})"
                ));
            }
            let others = || self.taken_by_owner(gpu, id.registration, cap.of);
            let most = of_user?;
            let sum = by_task + others();
            beyond(&most, sum).then(|| {
                format!(
                    "the policy lets {} have {most} {text}, and this would make it {sum} ({key})",
                    entry.owner
                )
            })
        })
    }

    /// The most that the policy lets a process have on a GPU; none where it says nothing.
    pub(super) fn most_by_caps(&self, gpu: usize, id: SessionId) -> Option<Bytes> {
        if !self.policy.has_caps() {
            return None;
        }
        let entry = self.registry.get(id.registration)?;
        let user = entry.owner.uid();
        let group = &self.tasks.get(self.tasks.on(id.registration, gpu)?)?.group;
        let others = group.taken_by_others(id.process);
        let usage = group.usage_of(id.process);
        let each = CAPS.iter().filter_map(|cap| {
            let [own, of_user] = self
                .policy
                .caps(user, entry.uid, &entry.task.name, cap.rule);
            let others = (cap.of)(&others);
            let by_owner = || self.taken_by_owner(gpu, id.registration, cap.of);
            let own = own.map(|most| most.saturating_sub(others));
            let of_user = of_user.map(|most| most.saturating_sub(others + by_owner()));
            // What a process has outside its arena counts for one of the two.
            let outside = (usage.resident + usage.swapped).saturating_sub(usage.arena);
            let counted = Taken {
                all: outside,
                swappable: Bytes::ZERO,
            };
            let free = outside.saturating_sub((cap.of)(&counted));
            own.into_iter().chain(of_user).min().map(|most| most + free)
        });
        each.min()
    }

    /// What all other tasks of the owner of a registration have taken on a GPU.
    fn taken_by_owner(&self, gpu: usize, id: RegistrationId, of: fn(&Taken) -> Bytes) -> Bytes {
        let owner = self.registry.get(id).map(|entry| &entry.owner);
        let others = self
            .registry
            .iter()
            .filter(|entry| Some(&entry.owner) == owner && entry.id != id);
        let tasks = others.filter_map(|entry| self.tasks.on(entry.id, gpu));
        tasks.map(|task| of(&self.taken(task))).sum()
    }

    fn taken(&self, task: TaskId) -> Taken {
        self.tasks
            .get(task)
            .map(|task| task.group.taken())
            .unwrap_or_default()
    }
}
