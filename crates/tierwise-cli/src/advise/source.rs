//! What runs: a scenario, or traces on a machine by default.

use std::path::{Path, PathBuf};

use tierwise_core::migrate::Budget;
use tierwise_core::units::Bytes;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::Machine;
use tierwise_sim::scenario::{Scenario, Source, TierSize, Workload};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{Window, WindowSource};

use crate::failure::Failure;
use crate::input;

/// Recorded windows taken together, as in the scenarios of the shipped traces: policies look once a second
/// and cannot see finer ones.
const MERGE: u32 = 8;

/// Virtual nanoseconds that a trace's instructions alone shall take: as many looks as a policy needs to settle, and
/// as many again.
const LASTS_NS: f64 = 60e9;

/// The scenario that the arguments name.
pub fn scenario(sources: &[PathBuf]) -> Result<Scenario, Failure> {
    let is_scenario = |path: &Path| path.extension().is_some_and(|e| e == "toml");
    match sources {
        [one] if is_scenario(one) => input::scenario(one),
        several if several.iter().any(|path| is_scenario(path)) => Err(Failure::user(
            &"a scenario says by itself what runs together: give one scenario, or traces only",
        )),
        traces => of_traces(traces),
    }
}

fn of_traces(traces: &[PathBuf]) -> Result<Scenario, Failure> {
    let mut workloads: Vec<Workload> = Vec::new();
    for path in traces {
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        if workloads.iter().any(|other| other.name == stem) {
            return Err(Failure::User(format!(
                "{}: a trace called \"{stem}\" is there already; names tell results apart, so they must \
                 differ",
                path.display()
            )));
        }
        workloads.push(workload(stem, path)?);
    }
    // The sizes are the search's; these have the right shape.
    let (fast, slow) = (Bytes(1 << 30), Bytes(1 << 30));
    let machine = Machine::preset("dram-cxl", fast, slow)
        .ok_or_else(|| Failure::Internal("the machine dram-cxl is gone".to_owned()))?;
    let names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
    Ok(Scenario {
        name: names.join(" + "),
        summary: String::new(),
        machine,
        sizes: vec![TierSize::ShareOfResident(1.0), TierSize::ShareOfResident(2.0)],
        costs: Costs::default(),
        budget: Budget::default(),
        workloads,
        duration: None,
    })
}

/// A trace from its mark "run" to its mark "end", where it has them, stretched to a minute at least.
fn workload(name: String, path: &Path) -> Result<Workload, Failure> {
    let mut reader = TraceReader::open(path)?;
    let (mut instructions, mut run, mut end) = (0.0, false, false);
    let mut window = Window::default();
    while reader.next_window(&mut window)? {
        run |= window.marks.iter().any(|mark| mark == "run");
        end |= window.marks.iter().any(|mark| mark == "end");
        if !end {
            instructions += window.instructions as f64;
        }
    }
    let alone_ns = instructions * Machine::DEFAULT_INSTRUCTION_NS;
    let dilation = (LASTS_NS / alone_ns.max(1.0)).ceil().clamp(1.0, 1e6) as u32;
    Ok(Workload {
        measure_from: run.then(|| "run".to_owned()),
        measure_to: end.then(|| "end".to_owned()),
        merge: MERGE,
        dilation,
        ..Workload::new(name, Source::Trace(path.to_owned()))
    })
}
