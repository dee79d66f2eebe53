//! Simulates a machine with a terabyte of memory in 4 KiB pages, all of it in use, and prints the
//! time and the memory that the simulation took.

use std::time::{Duration, Instant};

use tierwise_core::migrate::Budget;
use tierwise_core::recipe::Recipe;
use tierwise_core::units::Bytes;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::Machine;
use tierwise_sim::run::{Prepared, RunOptions, run};
use tierwise_sim::scenario::{Scenario, WorkloadSource, WorkloadSpec};
use tierwise_trace::generate::GeneratorSpec;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let policy = std::env::args().nth(1).unwrap_or_else(|| "multi-clock".to_owned());
    let footprint: u64 = 1 << 40;
    let machine = Machine::preset("dram-cxl", Bytes(footprint / 4), Bytes(footprint))
        .ok_or("the preset dram-cxl is missing")?;
    let spec = GeneratorSpec {
        footprint_pages: footprint / 4096,
        accesses_per_window: 4_000_000,
        windows: None,
        scrambled: true,
        ..GeneratorSpec::default()
    };
    let source = WorkloadSource::Generator("zipf".to_owned(), spec);
    let measure_from = Some("run".to_owned());
    let workload = WorkloadSpec { measure_from, ..WorkloadSpec::new("zipf", source) };
    let scenario = Scenario {
        name: "one terabyte".to_owned(),
        summary: String::new(),
        machine,
        sizes: Vec::new(),
        costs: Costs::default(),
        budget: Budget::default(),
        workloads: vec![workload],
        duration: Some(Duration::from_secs(90)),
    };
    let prepared = Prepared::load(scenario)?;
    let started = Instant::now();
    let options = RunOptions { seed: 1, ..RunOptions::default() };
    let result = run(&prepared, &Recipe::named(&policy)?, &options, &mut |_| ())?.result;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or("VmHWM: unknown");
    println!(
        "{{\"policy\":\"{policy}\",\"pages\":{},\"seconds\":{:.1},\"peak\":\"{}\",\
         \"promotions\":{},\"demotions\":{},\"fast_access_ratio\":{:.4}}}",
        footprint / 4096,
        started.elapsed().as_secs_f64(),
        peak["VmHWM:".len()..].trim(),
        result.promotions,
        result.demotions,
        result.fast_access_ratio
    );
    Ok(())
}
