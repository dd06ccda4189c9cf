use rtswap_planner::advisor::{Breeding, Individual, Planner, Pools, Search, Settings};
use rtswap_planner::graph::*;
use rtswap_planner::machine::{Link, run};
use rtswap_planner::validator::validate;
use std::io::Read;
fn load(path: &str, flops: f64, bw: f64, t0: f64) -> Graph {
    let out = std::process::Command::new("zcat").arg(path).output().unwrap().stdout;
    let v: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let kind = |k: &str| match k { "parameter" => Kind::Parameter, "optimizer_state" => Kind::OptimizerState, "input" => Kind::Input, "activation" => Kind::Activation, "gradient" => Kind::Gradient, _ => Kind::Scratch };
    let tensors = v["tensors"].as_array().unwrap().iter().map(|t| Tensor { name: String::new(), kind: kind(t["kind"].as_str().unwrap()), bytes: t["bytes"].as_u64().unwrap() }).collect();
    let list = |v: &serde_json::Value| -> Vec<u32> { v.as_array().map(|a| a.iter().map(|n| n.as_u64().unwrap() as u32).collect()).unwrap_or_default() };
    let ops = v["operators"].as_array().unwrap().iter().map(|o| {
        let (f, b) = (o["flops"].as_f64().unwrap(), o["bytes"].as_f64().unwrap());
        let t = t0 + (f / flops).max(b / bw) * 1e9;
        Operator { name: o["name"].as_str().unwrap().into(), inputs: list(&o["inputs"]), outputs: list(&o["outputs"]), updates: list(&o["updates"]), flops: f as u64, bytes: b as u64, time_ns: t as u64 }
    }).collect();
    Graph::new(tensors, ops).unwrap()
}
/// Trace order, but what frees memory as soon as it can.
fn early(graph: &Graph, order: &Order, limit: usize) -> Vec<u32> {
    let n = graph.operators().len();
    let mut users = vec![0u32; graph.tensors().len()];
    let mut consumers = vec![Vec::new(); graph.tensors().len()];
    for (op, o) in graph.operators().iter().enumerate() { for t in o.tensors() { users[t as usize] += 1; consumers[t as usize].push(op as u32) } }
    let mut done = vec![false; n];
    let mut out = Vec::new();
    let run = |op: u32, done: &mut Vec<bool>, users: &mut Vec<u32>, out: &mut Vec<u32>| {
        done[op as usize] = true; out.push(op);
        for t in graph.operator(op).tensors() { users[t as usize] -= 1 }
    };
    for op in 0..n as u32 {
        if done[op as usize] { continue }
        let mut made = vec![op];
        run(op, &mut done, &mut users, &mut out);
        while let Some(op) = made.pop() {
            let o = graph.operator(op);
            let touched: Vec<u32> = o.outputs.iter().chain(&o.updates).copied().collect();
            for t in touched {
                for c in consumers[t as usize].clone() {
                    if done[c as usize] { continue }
                    // closure
                    let mut closure = vec![c]; let mut at = 0; let mut ok = true;
                    while at < closure.len() {
                        for p in order.predecessors(closure[at]) { if !done[*p as usize] && !closure.contains(p) { closure.push(*p) } }
                        at += 1;
                        if closure.len() > limit { ok = false; break }
                    }
                    if !ok { continue }
                    closure.sort_unstable();
                    let mut net = 0i64; let mut less = std::collections::HashMap::new();
                    for op in &closure {
                        for t in &graph.operator(*op).outputs { net += graph.tensor(*t).bytes as i64 }
                        for t in graph.operator(*op).tensors() { *less.entry(t).or_insert(0u32) += 1 }
                    }
                    for (t, k) in less { if users[t as usize] == k && !graph.tensor(t).kind.is_kept() { net -= graph.tensor(t).bytes as i64 } }
                    let quiet = closure.iter().all(|op| graph.operator(*op).outputs.is_empty()); if net < 0 || net == 0 && quiet && graph.tensor(t).kind.is_kept() { for op in closure { run(op, &mut done, &mut users, &mut out); made.push(op) } }
                }
            }
        }
    }
    out
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let num = |at: usize, or: f64| args.get(at).map_or(or, |a| a.parse().unwrap());
    let scale = num(3, 1.0);
    let graph = load(&args[1], 15.7e12 * num(4, 0.85) * scale, 900e9 * num(5, 0.75) * scale, num(6, 25_000.0) / scale);
    let budget = (num(2, 16.0) * 1e9) as u64;
    let seconds = num(7, 5.0);
    println!("{} ops {} tensors {} sizes, ideal {:.4} s", graph.operators().len(), graph.tensors().len(), graph.sizes().len(), graph.compute_ns() as f64 / 1e9);
    let order = Order::of(&graph);
    let trace: Vec<u32> = (0..graph.operators().len() as u32).collect();
    // need per size: peak concurrently live in the trace
    let mut last = vec![0usize; graph.tensors().len()];
    for (at, op) in graph.operators().iter().enumerate() { for t in op.tensors() { last[t as usize] = at } }
    let sizes = graph.sizes().len();
    let mut live = vec![0i64; sizes]; let mut peak = vec![0i64; sizes];
    for (id, t) in graph.tensors().iter().enumerate() { if t.kind.is_given() { live[graph.size_index(id as u32)] += 1 } }
    for i in 0..sizes { peak[i] = live[i] }
    let mut need = vec![1i64; sizes];
    for (at, op) in graph.operators().iter().enumerate() {
        let mut n = vec![0; sizes];
        for t in op.tensors() { n[graph.size_index(t)] += 1 }
        for i in 0..sizes { need[i] = need[i].max(n[i]) }
        for t in &op.outputs { let s = graph.size_index(*t); live[s] += 1; peak[s] = peak[s].max(live[s]) }
        for t in op.tensors() { if last[t as usize] == at && !graph.tensor(t).kind.is_kept() { live[graph.size_index(t)] -= 1 } }
    }
    let mut planner = Planner::new(&graph);
    let whole: i64 = (0..sizes).map(|i| peak[i] * graph.sizes()[i] as i64).sum();
    println!("pools peak {:.1} GB, least {:.2} GB", whole as f64 / 1e9, (0..sizes).map(|i| need[i] * graph.sizes()[i] as i64).sum::<i64>() as f64 / 1e9);
    // scale counts to the budget: counts = need + f*(peak-need)
    let mut best: Option<(u64, Vec<u32>)> = None;
    let (mut lo, mut hi) = (0.0, 1.0);
    for _ in 0..30 {
        let f = (lo + hi) / 2.0;
        let counts: Vec<u32> = (0..sizes).map(|i| need[i] as u32 + (f * (peak[i] - need[i]) as f64) as u32).collect();
        let bytes: u64 = (0..sizes).map(|i| u64::from(counts[i]) * graph.sizes()[i].next_multiple_of(256)).sum();
        if bytes <= budget { lo = f; best = Some((bytes, counts)) } else { hi = f }
    }
    let early = early(&graph, &order, 6);
    assert!(order.allows(&early));
    let mut arena = rtswap_planner::advisor::arena::ArenaPlanner::new(&graph, 2 << 20);
    for (name, trace) in [("trace", &trace), ("early", &early)] { println!("{name}"); { { for lead in [0u64, 100, 300, 1000] { { let lead_ = rtswap_planner::advisor::arena::Lead { ns: lead * 1_000_000 };
        let from = std::time::Instant::now();
        let Ok(plan) = arena.plan(trace, budget, lead_) else { println!("arena infeasible"); continue };
        let t = from.elapsed();
        validate(&graph, plan).unwrap();
        let r = run(&graph, plan, Link::PCIE3).expect("deadlock");
        println!("arena lead {lead} ms: share {:.3} in {:.2} out {:.2} total {:.3}; {t:?}; ins {} extents {}", graph.compute_ns() as f64 / r.total_ns as f64, r.swap_in_ns as f64 / 1e9, r.swap_out_ns as f64 / 1e9, r.total_ns as f64 / 1e9, plan.swap_in.len(), plan.extents.len());
    } } } }
    let plan = arena.plan(&early, budget, rtswap_planner::advisor::arena::Lead { ns: 300_000_000 }).unwrap().clone();
    let mut last = 0.0; let mut stalls = vec![];
    let mut spans: [Vec<(f64, f64)>; 3] = Default::default();
    rtswap_planner::machine::observe(&graph, &plan, Link::PCIE3, |q, at, from, to| {
        spans[q as usize].push((from, to));
        if q == rtswap_planner::plan::Queue::Compute { stalls.push((at, from - last)); last = to; }
    });
    let n = stalls.len();
    for part in 0..20 { let (a, b) = (part * n / 20, (part + 1) * n / 20);
        let s: f64 = stalls[a..b].iter().map(|s| s.1).sum();
        let (t0, t1) = (spans[0][a].0, spans[0][b - 1].1);
        let busy = |q: usize| spans[q].iter().map(|(f, t)| (t.min(t1) - f.max(t0)).max(0.0)).sum::<f64>() / (t1 - t0).max(1.0);
        println!("part {part}: ops {a}..{b} t {:.2}..{:.2} stall {:.2} s, in busy {:.2} out busy {:.2}", t0 / 1e9, t1 / 1e9, s / 1e9, busy(1), busy(2));
    }
    stalls.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (at, s) in stalls.iter().take(8) { let c = &plan.compute[*at]; println!("  stall {:.0} ms at {at} {} waits {:?} of ins {} outs {}", s / 1e6, graph.operator(c.op).name, c.waits, plan.swap_in.len(), plan.swap_out.len()); }
    let Some((_, counts)) = best else { println!("infeasible by size classes"); return };
    let pools = Pools::new(&graph, (0..sizes as u32).collect(), &counts, budget);
    for recency in [0, 1, 2, 4, 8, 16, 32] {
        let from = std::time::Instant::now();
        match planner.plan(&trace, &pools, Settings { recency }) {
            Ok(plan) => {
                let t = from.elapsed();
                let r = run(&graph, plan, Link::PCIE3).unwrap();
                let t2 = from.elapsed() - t;
                validate(&graph, plan).unwrap();
                println!("recency {recency}: share {:.3} in {:.2} out {:.2} total {:.3} s; plan {t:?} run {t2:?} ins {} outs {}", graph.compute_ns() as f64 / r.total_ns as f64, r.swap_in_ns as f64 / 1e9, r.swap_out_ns as f64 / 1e9, r.total_ns as f64 / 1e9, plan.swap_in.len(), plan.swap_out.len());
            }
            Err(e) => println!("{e}"),
        }
    }
    let first = vec![Individual { schedule: trace, pools }; 4];
    let mut search = Search::new(&graph, &order, budget, Breeding { population: 24, mutation: num(8, 0.01) }, 1, first);
    let from = std::time::Instant::now();
    let mut n = 0;
    while from.elapsed().as_secs_f64() < seconds {
        search.step(|all| { n += all.len(); all.iter().map(|one| planner.plan(&one.schedule, &one.pools, Settings::default()).ok().map(|plan| run(&graph, plan, Link::PCIE3).unwrap().total_ns)).collect() });
    }
    if let Some((t, _)) = search.best() { println!("search: {n} plans, share {:.3}", graph.compute_ns() as f64 / *t as f64); }
}
