//! Fig. 11 to 13: which models run together, in which memory, and how long they take.

use anyhow::{Context, Result};
use rtswap_planner::blocks::{BlockPlanner, Demand, Partition, divide, partition};
use rtswap_planner::validator::validate;

use super::ablation::fewest_blocks;
use super::models::{Device, FCN, MODELS, Model, Prepared, RESNET, VGG, YOLO};
use super::published::{self, Ranges};
use super::{MIB, mib};

/// A model in an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// The model.
    pub model: Model,
    /// How many of it run.
    pub count: u32,
    /// The budget of each in MB, which the paper's scheduling gave.
    pub budget: u64,
    /// The size of the compressed model in MB, where the text states it.
    pub compressed: Option<u64>,
}

/// Models that run together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Application {
    /// Its name.
    pub name: &'static str,
    /// The memory for all its models in MB, without the reserve δ.
    pub memory: u64,
    /// Its models.
    pub tasks: &'static [Task],
    /// What the text states of it.
    pub published: Ranges,
}

const fn task(model: Model, count: u32, budget: u64, compressed: Option<u64>) -> Task {
    Task {
        model,
        count,
        budget,
        compressed,
    }
}

/// Fig. 11. The reserve is 32 MB.
pub const SELF_DRIVING: Application = Application {
    name: "self-driving",
    memory: 843,
    tasks: &[
        task(VGG, 1, 475, Some(367)),
        task(RESNET, 1, 102, Some(83)),
        task(YOLO, 1, 142, Some(101)),
        task(FCN, 1, 124, Some(102)),
    ],
    published: published::SELF_DRIVING,
};

/// Fig. 12.
pub const ROAD_SIDE: Application = Application {
    name: "road-side unit",
    memory: 1088,
    tasks: &[
        task(VGG, 1, 520, None),
        task(RESNET, 2, 119, None),
        task(YOLO, 2, 165, None),
    ],
    published: published::ROAD_SIDE,
};

/// Fig. 13. The text gives the budgets of the models, not their sum.
pub const UAV: Application = Application {
    name: "UAV",
    memory: 325,
    tasks: &[task(RESNET, 1, 136, None), task(YOLO, 1, 189, None)],
    published: published::UAV,
};

/// All of them.
pub const APPLICATIONS: [Application; 3] = [SELF_DRIVING, ROAD_SIDE, UAV];

/// What became of a task.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The task.
    pub task: Task,
    /// The size of its parameters in MiB.
    pub size: f64,
    /// How long direct inference takes, in ms.
    pub direct_ms: f64,
    /// Its blocks.
    pub partition: Partition,
    /// The same with the fewest blocks that fit.
    pub fewest: Partition,
    /// What its plan needs beside its blocks, in MiB: inputs and results of operators.
    pub reserve: f64,
    /// The memory of its plan, in MiB.
    pub memory: f64,
}

impl Outcome {
    /// How long it takes in blocks, in ms.
    pub fn blocks_ms(&self) -> f64 {
        self.partition.latency_ns as f64 / 1e6
    }

    /// By how many ms blocks take longer than direct inference.
    pub fn longer_ms(&self) -> f64 {
        self.blocks_ms() - self.direct_ms
    }

    /// The most that its blocks take together, in MiB.
    pub fn peak(&self) -> f64 {
        mib(self.partition.peak_bytes)
    }
}

/// The models of the evaluation on a device, each read once.
pub fn prepare(device: &Device) -> Result<Vec<Prepared>> {
    let models = MODELS.into_iter();
    models.map(|model| Prepared::new(model, device)).collect()
}

/// Runs a task in its budget, and proves its plan.
pub fn run(prepared: &[Prepared], task: &Task) -> Result<Outcome> {
    let model = of(prepared, &task.model)?;
    let found = partition(&model.costs, task.budget * MIB);
    let does_not_fit = || format!("{} does not fit", task.model.name);
    let found = found.with_context(does_not_fit)?;
    let fewest = fewest_blocks(model, task.budget * MIB).with_context(does_not_fit)?;
    let planner = BlockPlanner::new(&model.graph, &model.info);
    let plan = planner.plan(&found);
    validate(&model.graph, &plan)?;
    Ok(Outcome {
        task: *task,
        size: model.mib(),
        direct_ms: model.direct_ms(),
        partition: found,
        fewest,
        reserve: mib(planner.reserve_bytes()),
        memory: mib(plan.budget),
    })
}

/// A model among those that were read.
pub fn of<'a>(prepared: &'a [Prepared], model: &Model) -> Result<&'a Prepared> {
    let found = prepared.iter().find(|one| one.model == *model);
    found.with_context(|| format!("{} was not read", model.name))
}

/// By how many percent tasks take longer than direct inference, on average over all models that run.
pub fn mean_longer(outcomes: &[Outcome]) -> f64 {
    let each = outcomes.iter().map(|one| {
        let count = f64::from(one.task.count);
        (count, count * one.longer_ms() / one.direct_ms)
    });
    let (count, sum) = each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    100.0 * sum / count
}

/// The budgets in MiB that Eq. (1) gives the tasks of an application, one for each model that runs; none where not even the
/// least budgets fit.
pub fn divided(prepared: &[Prepared], application: &Application) -> Result<Option<Vec<f64>>> {
    let mut demands = Vec::new();
    for task in application.tasks {
        let model = of(prepared, &task.model)?;
        let demand = Demand {
            bytes: model.costs.whole().bytes,
            least: model.costs.least_budget(),
            latency_ns: model.costs.whole().execution_ns,
            urgency: 1.0,
        };
        demands.extend((0..task.count).map(|_| demand));
    }
    let shares = divide(application.memory * MIB, 0, &demands);
    Ok(shares.map(|shares| shares.into_iter().map(mib).collect()))
}
