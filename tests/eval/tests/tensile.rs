//! x
use rtswap_eval::tensile::dynamic::*;
use rtswap_eval::tensile::measure::{Effort, measure};
use rtswap_eval::tensile::method::*;
use rtswap_eval::tensile::workloads::{UNFUSED, WORKLOADS, predicted};

#[test]
fn explore() {
    let methods = [
        Method::ours(Order::Trace, Kept::Resident),
        Method::ours(Order::Trace, Kept::Missed),
        Method::TRACE,
        Method::ours(Order::Deferred, Kept::Resident),
        Method::ours(Order::Deferred, Kept::Missed),
        Method::DEFERRED,
    ];
    for (w, n) in WORKLOADS
        .iter()
        .chain([&UNFUSED])
        .map(|w| (w, 1))
        .chain([(&WORKLOADS[0], 3)])
    {
        let graph = w.graph().unwrap();
        println!(
            "{} x{n} {:.1} ms {} MB",
            w.name,
            graph.compute_ns() as f64 / 1e6,
            rtswap_eval::tensile::workloads::unfreed(&graph) / 1_000_000
        );
        for s in 0..4 {
            print!(
                "r2 {:.3} ",
                r_squared(
                    &Prediction {
                        error: ERROR,
                        factor: 1.0
                    }
                    .of(&graph, s),
                    &predicted(&graph)
                )
            );
        }
        println!();
        let graphs = vec![&graph; n];
        for (m, r) in methods.iter().zip(
            measure(
                &graphs,
                &methods,
                Effort {
                    runs: 4,
                    iterations: 10,
                },
            )
            .unwrap(),
        ) {
            println!(
                "   {:50} msr {:.3} freed {:.3} eor {:.4}±{:.4} later {:.4} passive {:.1} {:.2} ms",
                format!("{m:?}"),
                r.saved,
                r.saved_of_freed,
                r.extra.mean,
                r.extra.deviation,
                r.extra_later,
                r.passive,
                r.passive_ns / 1e6
            );
        }
    }
}
#[test]
fn dynamic() {
    let visits = [
        Visit {
            workload: WORKLOADS[0],
            begins_ms: 0,
            iterations: 60,
        },
        Visit {
            workload: WORKLOADS[3],
            begins_ms: 300,
            iterations: 60,
        },
        Visit {
            workload: WORKLOADS[1],
            begins_ms: 600,
            iterations: 40,
        },
    ];
    for m in [
        Method::VDnn,
        Method::Capuchin,
        Method::TRACE,
        Method::DEFERRED,
    ] {
        println!(
            "{m:?} {:?}",
            course(
                &visits,
                m,
                Prediction {
                    error: ERROR,
                    factor: 1.0
                },
                Effort {
                    runs: 4,
                    iterations: 0
                }
            )
            .unwrap()
        );
    }
    for p in [
        Prediction::RIGHT,
        Prediction {
            error: ERROR,
            factor: 1.0,
        },
        Prediction {
            error: ERROR,
            factor: 0.5,
        },
        Prediction {
            error: ERROR,
            factor: 2.0,
        },
        Prediction {
            error: ERROR,
            factor: 4.0,
        },
    ] {
        for w in [WORKLOADS[0], WORKLOADS[1]] {
            println!(
                "{p:?} {:?}",
                course(
                    &[Visit {
                        workload: w,
                        begins_ms: 0,
                        iterations: 40
                    }],
                    Method::DEFERRED,
                    p,
                    Effort {
                        runs: 4,
                        iterations: 0
                    }
                )
                .unwrap()
            );
        }
    }
}
