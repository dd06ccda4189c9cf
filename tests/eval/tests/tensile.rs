//! x
use rtswap_eval::tensile::measure::{Effort, measure};
use rtswap_eval::tensile::method::Method;
use rtswap_eval::tensile::workloads::{UNFUSED, WORKLOADS};

#[test]
fn explore() {
    let methods = [Method::VDnn, Method::Capuchin, Method::WITHIN, Method::TENSILE, Method::EARLY];
    for (w, n) in WORKLOADS.iter().chain([&UNFUSED]).map(|w| (w, 1)).chain([(&WORKLOADS[0], 2), (&WORKLOADS[0], 3)]) {
        let graph = w.graph().unwrap();
        println!("{} x{n} {:.1} ms {} MB", w.name, graph.compute_ns() as f64 / 1e6, rtswap_eval::tensile::workloads::unfreed(&graph) / 1_000_000);
        let graphs = vec![&graph; n];
        for (m, r) in methods.iter().zip(measure(&graphs, &methods, Effort { runs: 4, iterations: 10 }).unwrap()) {
            println!("   {:50} msr {:.3} freed {:.3} eor {:.4}±{:.4} later {:.4} cbr {:.2} passive {:.1} {:.2} ms", format!("{m:?}"), r.saved, r.saved_of_freed, r.extra.mean, r.extra.deviation, r.extra_later, r.ratios().benefit, r.passive, r.passive_ns / 1e6);
        }
    }
}

#[test]
fn one() {
    let graph = WORKLOADS[3].graph().unwrap();
    let _ = measure(&[&graph], &[Method::TENSILE], Effort { runs: 1, iterations: 2 });
}
