//! Which steps have ended when a step begins.

use alloc::vec;
use alloc::vec::Vec;

use super::{PlanError, Step};
use crate::plan::{Plan, Queue, Waits};

/// For each step, how many steps of each queue have surely ended when it begins.
pub(super) struct Clock {
    ended: [Vec<[u32; 3]>; 3],
    /// All steps, each behind those that must have ended when it begins.
    pub order: Vec<Step>,
}

impl Clock {
    pub(super) fn of(plan: &Plan) -> Result<Self, PlanError> {
        let waits: [Vec<Waits>; 3] = [
            plan.compute.iter().map(|step| step.waits).collect(),
            plan.swap_in.iter().map(|step| step.waits).collect(),
            plan.swap_out.iter().map(|step| step.waits).collect(),
        ];
        check_counts(&waits)?;
        let mut ended = waits.each_ref().map(|queue| vec![[0; 3]; queue.len()]);
        let mut order = Vec::with_capacity(waits.iter().map(Vec::len).sum());
        let mut done = [0_usize; 3];
        loop {
            let before = order.len();
            for queue in Queue::ALL {
                let own = queue as usize;
                while let Some(Waits(counts)) = waits[own].get(done[own]) {
                    let is_ready = (0..3).all(|of| of == own || counts[of] as usize <= done[of]);
                    if !is_ready || counts[own] as usize > done[own] {
                        break;
                    }
                    let mut known = [0; 3];
                    for of in 0..3 {
                        // The step in front of it in its own queue has ended as well.
                        let count = if of == own {
                            done[own] as u32
                        } else {
                            counts[of]
                        };
                        if count > 0 {
                            let last = count as usize - 1;
                            let behind = ended[of][last];
                            known = core::array::from_fn(|at| behind[at].max(known[at]));
                            known[of] = known[of].max(count);
                        }
                    }
                    ended[own][done[own]] = known;
                    order.push(Step {
                        queue,
                        at: done[own] as u32,
                    });
                    done[own] += 1;
                }
            }
            if order.len() == before {
                break;
            }
        }
        for queue in Queue::ALL {
            let at = done[queue as usize];
            if at < waits[queue as usize].len() {
                let step = Step {
                    queue,
                    at: at as u32,
                };
                return Err(PlanError::Deadlock { step });
            }
        }
        Ok(Self { ended, order })
    }

    /// Whether `first` has surely ended when `second` begins.
    pub(super) fn is_before(&self, first: Step, second: Step) -> bool {
        self.ended[second.queue as usize][second.at as usize][first.queue as usize] > first.at
    }
}

fn check_counts(waits: &[Vec<Waits>; 3]) -> Result<(), PlanError> {
    for step_queue in Queue::ALL {
        for (at, step) in (0..).zip(&waits[step_queue as usize]) {
            for queue in Queue::ALL {
                let (count, most) = (step.of(queue), waits[queue as usize].len() as u32);
                if count > most {
                    let step = Step {
                        queue: step_queue,
                        at,
                    };
                    return Err(PlanError::WaitsForNothing {
                        step,
                        queue,
                        count,
                        most,
                    });
                }
            }
        }
    }
    Ok(())
}
