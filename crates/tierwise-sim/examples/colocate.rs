//! Runs policies on a scenario of services and prints, for each, latency, throughput and where
//! every tenant's memory lies:
//! `cargo run --release -p tierwise-sim --example colocate SCENARIO POLICY...`

use std::path::Path;
use std::time::{Duration, Instant};

use tierwise_core::recipe::Recipe;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::Scenario;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: colocate SCENARIO POLICY...")?;
    let base = Path::new(&file).parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse(&file, &std::fs::read_to_string(&file)?, base)?;
    let prepared = Prepared::load(scenario)?;
    for policy in args {
        let recipe = match Recipe::named(&policy) {
            Ok(recipe) => recipe,
            Err(_) => Recipe::parse(&policy, &std::fs::read_to_string(&policy)?)?,
        };
        let started = Instant::now();
        let timeline = Some(Duration::from_secs(20));
        let options = RunOptions { seed: 1, timeline, ..RunOptions::default() };
        let output = run(&prepared, &recipe, &options, &mut |_| ())?;
        println!("{policy}: {:.1} s of real time", started.elapsed().as_secs_f64());
        for tenant in &output.result.tenants {
            println!(
                "  {:12} slowdown {:.3}  fast {:.3}  promoted {} demoted {}  {:?}",
                tenant.name,
                tenant.slowdown,
                tenant.fast_access_ratio,
                tenant.promotions,
                tenant.demotions,
                tenant.latency.map(|l| (l.p99_ms, l.violations, l.requests, l.violating_seconds))
            );
        }
        for point in &output.timeline {
            let fast: Vec<String> = point
                .tenants
                .iter()
                .map(|t| format!("{:5.1}", t.usage_bytes[0] as f64 * 1e-9))
                .collect();
            let p99: Vec<f64> = point.tenants.iter().filter_map(|t| t.p99_ms).collect();
            println!(
                "  {:5.0} s  fast GB {}  P99 ms {p99:.2?}",
                point.time_seconds,
                fast.join(" ")
            );
        }
    }
    Ok(())
}
