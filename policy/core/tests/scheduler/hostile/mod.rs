//! Random sequences of events, well-formed and hostile: nothing panics, the invariants hold after
//! each (`handle` checks them), every want is answered, every job is granted or ended.

mod step;
mod trial;

use proptest::prelude::*;
use rtswap_policy::admission::Test;
use rtswap_policy::scheduler::{Config, Overrun, Sharing};

use crate::world::Answers;
use crate::world::setting::config;
use step::step;
use trial::Trial;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn nobody_is_forgotten_and_nothing_breaks(
        steps in prop::collection::vec(step(), 1..250),
        prepared in prop::bool::weighted(0.8),
        prompt in any::<bool>(),
        sharing in prop::sample::select(vec![Sharing::Exclusive, Sharing::Shared, Sharing::Auto]),
        demote in any::<bool>(),
        pipelined in any::<bool>(),
    ) {
        let overrun = if demote { Overrun::Demote } else { Overrun::Continue };
        let test = if pipelined { Test::Pipelined } else { Test::Theorem1 };
        let answers = if prompt { Answers::Budgets } else { Answers::Nothing };
        let config = Config { sharing, overrun, test, ..config(100) };
        let mut trial = Trial::new(prepared, answers, config);
        for step in steps {
            trial.step(step);
        }
        trial.close();
    }
}
