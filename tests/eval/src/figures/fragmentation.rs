//! Table II: what an allocation per memory object wastes.

use rtswap_policy::units::Bytes;

use super::workload::{Model, Reading, Resolution};
use crate::baselines::link::SMALLEST_CHUNK;
use crate::baselines::objects::Objects;
use rtswap_simulator::Rng;

/// What Table II counts in one model at a resolution of 416: objects below and above 2 MB.
const fn counted(model: Model) -> (usize, usize) {
    match model {
        Model::ResNet => (1_009, 312),
        Model::YoloV3 => (372, 282),
        Model::DenseNet => (1_689, 129),
        Model::ResNext => (962, 359),
    }
}

/// The lists of all models in all resolutions.
#[derive(Clone, Debug)]
pub struct Catalogue(Vec<[Objects; 3]>);

impl Catalogue {
    /// Draws the list of each model at 416, and scales it to the swappable memory of the other
    /// resolutions.
    pub fn draw(reading: &Reading, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let lists = Model::ALL.iter().map(|&model| {
            let total = |resolution| reading.memory(model, resolution).swappable;
            let (small, large) = counted(model);
            let drawn = Objects::draw(&mut rng, small, large, total(Resolution::Middle));
            Resolution::ALL.map(|resolution| match resolution {
                Resolution::Middle => drawn.clone(),
                other => drawn.scaled(total(other)),
            })
        });
        Self(lists.collect())
    }

    /// One list.
    pub fn objects(&self, model: Model, resolution: Resolution) -> &Objects {
        &self.0[model as usize][resolution as usize]
    }
}

/// One column of Table II.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The model, at 416.
    pub model: Model,
    /// Objects below and above 2 MiB.
    pub counted: (usize, usize),
    /// What was asked for.
    pub payload: Bytes,
    /// With an allocation per object.
    pub per_object: Bytes,
    /// Packed into chunks of 2 MiB.
    pub packed: Bytes,
    /// Packed into chunks of 64 MiB.
    pub packed_64: Bytes,
}

/// Table II.
pub fn table(reading: &Reading, seed: u64) -> Vec<Column> {
    let catalogue = Catalogue::draw(reading, seed);
    let column = |&model: &Model| {
        let objects = catalogue.objects(model, Resolution::Middle);
        let large = objects.large();
        Column {
            model,
            counted: (objects.count() - large, large),
            payload: objects.payload(),
            per_object: objects.per_object(),
            packed: objects.packed(SMALLEST_CHUNK),
            packed_64: objects.packed(Bytes(64 << 20)),
        }
    };
    [
        Model::ResNet,
        Model::DenseNet,
        Model::ResNext,
        Model::YoloV3,
    ]
    .iter()
    .map(column)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_published_counts_and_about_its_waste() {
        let published = [3.5, 4.0, 4.2, 3.5];
        for (column, published) in table(&Reading::default(), 1).iter().zip(published) {
            let (small, large) = counted(column.model);
            // A large object may come out at 2 MiB exactly, and then counts as small.
            assert!(column.counted.1 <= large && column.counted.1 + 3 >= large);
            assert_eq!(column.counted.0 + column.counted.1, small + large);
            let taken = column.per_object.0 as f64 / f64::from(1 << 30);
            assert!((taken / published - 1.0).abs() < 0.1, "{taken} {published}");
            assert!(column.packed - column.payload <= Bytes(4 << 20));
        }
    }

    #[test]
    fn a_larger_input_never_takes_less() {
        let catalogue = Catalogue::draw(&Reading::default(), 1);
        for model in Model::ALL {
            let taken = Resolution::ALL.map(|r| catalogue.objects(model, r).per_object());
            assert!(taken.is_sorted(), "{taken:?}");
        }
    }
}
