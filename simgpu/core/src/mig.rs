//! GPUs that are divided into MIG instances: what boards there are, what all are called, and which
//! of them one process sees.
//!
//! A CUDA process sees one instance, the first unless `CUDA_VISIBLE_DEVICES` names another, and no
//! whole GPU beside it (NVIDIA MIG User Guide, CUDA Device Enumeration).

use crate::config::Config;

/// What NVML enumerates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Board {
    /// A GPU of its own, by its place in the configuration.
    Whole(usize),
    /// One in MIG mode, with its instances by their places in the configuration.
    Divided {
        /// Its number, as `mig_parent` has it.
        parent: u32,
        /// At least one.
        instances: Vec<usize>,
    },
}

impl Board {
    /// The place of its first GPU or instance, which also numbers its PCI bus.
    pub fn first(&self) -> usize {
        match self {
            Self::Whole(gpu) => *gpu,
            Self::Divided { instances, .. } => instances[0],
        }
    }

    /// The ID of the GPU instance of an instance: from 1, since ID 0 is the whole GPU's in NVIDIA's
    /// count. None for a GPU of its own.
    pub fn gpu_instance(&self, gpu: usize) -> Option<u32> {
        match self {
            Self::Whole(_) => None,
            Self::Divided { instances, .. } => {
                let at = instances.iter().position(|instance| *instance == gpu);
                at.map(|at| at as u32 + 1)
            }
        }
    }

    /// Whether that GPU or instance is on it.
    pub fn holds(&self, gpu: usize) -> bool {
        match self {
            Self::Whole(whole) => *whole == gpu,
            Self::Divided { instances, .. } => instances.contains(&gpu),
        }
    }
}

impl Config {
    /// All boards, in the order of their first places.
    pub fn boards(&self) -> Vec<Board> {
        let mut boards: Vec<Board> = Vec::new();
        for (gpu, values) in self.gpus.iter().enumerate() {
            let Some(number) = values.mig_parent else {
                boards.push(Board::Whole(gpu));
                continue;
            };
            let known = boards.iter_mut().find_map(|board| match board {
                Board::Divided { parent, instances } if *parent == number => Some(instances),
                _ => None,
            });
            match known {
                Some(instances) => instances.push(gpu),
                None => boards.push(Board::Divided {
                    parent: number,
                    instances: vec![gpu],
                }),
            }
        }
        boards
    }

    /// The UUID of a GPU in MIG mode.
    pub fn parent_uuid(&self, parent: u32) -> [u8; 16] {
        self.uuid_of(format_args!("parent {parent}"))
    }

    /// What NVML and its tools call a GPU or an instance.
    pub fn uuid_text(&self, gpu: usize) -> String {
        let is_instance = self.gpus[gpu].mig_parent.is_some();
        text(if is_instance { "MIG" } else { "GPU" }, self.uuid(gpu))
    }

    /// What NVML and its tools call a board.
    pub fn board_text(&self, board: &Board) -> String {
        match board {
            Board::Whole(gpu) => self.uuid_text(*gpu),
            Board::Divided { parent, .. } => text("GPU", self.parent_uuid(*parent)),
        }
    }

    /// The GPUs that a process sees, in its order, where `CUDA_VISIBLE_DEVICES` is `asked`.
    ///
    /// Each of its entries is an index or the beginning of a UUID; the first that is neither ends
    /// it (CUDA C++ Programming Guide, CUDA Environment Variables). The index of a GPU in MIG mode
    /// stands for its first instance.
    pub(crate) fn visible(&self, asked: Option<&str>) -> Vec<usize> {
        let boards = self.boards();
        let mut visible: Vec<usize> = match asked {
            None => boards.iter().map(Board::first).collect(),
            Some(asked) => {
                let mut seen = Vec::new();
                for name in asked.split(',') {
                    match self.named(&boards, name.trim()) {
                        Some(gpu) if !seen.contains(&gpu) => seen.push(gpu),
                        _ => break,
                    }
                }
                seen
            }
        };
        let instance = visible
            .iter()
            .find(|gpu| self.gpus[**gpu].mig_parent.is_some());
        if let Some(&instance) = instance {
            visible = vec![instance];
        }
        visible
    }

    fn named(&self, boards: &[Board], name: &str) -> Option<usize> {
        if let Ok(index) = name.parse::<usize>() {
            return boards.get(index).map(Board::first);
        }
        if !name.starts_with("GPU-") && !name.starts_with("MIG-") {
            return None;
        }
        let gpus = (0..self.gpus.len()).map(|gpu| (self.uuid_text(gpu), gpu));
        let whole = boards
            .iter()
            .map(|board| (self.board_text(board), board.first()));
        let mut found: Vec<usize> = gpus
            .chain(whole)
            .filter(|(uuid, _)| uuid.starts_with(name))
            .map(|(_, gpu)| gpu)
            .collect();
        found.sort_unstable();
        found.dedup();
        match found[..] {
            [gpu] => Some(gpu),
            _ => None,
        }
    }
}

fn text(kind: &str, uuid: [u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(uuid));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &hex[part]);
    format!("{kind}-{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(parents: &[Option<u32>]) -> Config {
        let mut config = Config::default();
        let gpu = config.gpus[0].clone();
        config.gpus = parents
            .iter()
            .map(|parent| crate::config::GpuConfig {
                mig_parent: *parent,
                ..gpu.clone()
            })
            .collect();
        config
    }

    #[test]
    fn boards_gather_their_instances() {
        let config = config(&[Some(3), None, Some(3), Some(0)]);
        let divided = |parent, instances: &[usize]| Board::Divided {
            parent,
            instances: instances.to_vec(),
        };
        let boards = config.boards();
        assert_eq!(
            boards,
            [divided(3, &[0, 2]), Board::Whole(1), divided(0, &[3])]
        );
        let mut texts: Vec<_> = boards
            .iter()
            .map(|board| config.board_text(board))
            .chain((0..4).map(|gpu| config.uuid_text(gpu)))
            .collect();
        assert!(texts[0].starts_with("GPU-") && texts[3].starts_with("MIG-"));
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 6, "the whole GPU is one of both");
    }

    #[test]
    fn whole_gpus_are_chosen_as_the_driver_does() {
        let config = config(&[None, None, None]);
        let second = config.uuid_text(1);
        assert_eq!(config.visible(None), [0, 1, 2]);
        for (asked, seen) in [
            ("2,0", vec![2, 0]),
            ("1,nonsense,0", vec![1]),
            ("1,7,0", vec![1]),
            ("", vec![]),
            ("1,1,2", vec![1]),
            (&second, vec![1]),
            (&second[..20], vec![1]),
            ("GPU-", vec![]),
        ] {
            assert_eq!(config.visible(Some(asked)), seen, "{asked}");
        }
    }

    #[test]
    fn a_process_sees_one_instance_and_nothing_else() {
        let config = config(&[None, Some(0), Some(0)]);
        assert_eq!(config.visible(None), [1]);
        for (asked, seen) in [
            (config.uuid_text(2), vec![2]),
            (config.uuid_text(0), vec![0]),
            (format!("0,{}", config.uuid_text(2)), vec![2]),
            ("1".into(), vec![1]),
            (config.board_text(&config.boards()[1]), vec![1]),
        ] {
            assert_eq!(config.visible(Some(&asked)), seen, "{asked}");
        }
    }
}
