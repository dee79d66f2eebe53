//! A scenario for a bare trace: its program alone on a machine of a preset.

use std::path::{Path, PathBuf};

use clap::Args;
use tierwise_core::migrate::Budget;
use tierwise_core::units::Bytes;
use tierwise_sim::costs::Costs;
use tierwise_sim::machine::{Machine, PRESETS};
use tierwise_sim::scenario::{Scenario, TierSize, WorkloadSource, WorkloadSpec};
use tierwise_trace::reader::TraceReader;
use tierwise_trace::{PageAccess, Window, WindowSource};

use crate::failure::{CommandResult, Failure};
use crate::number::counted;
use crate::prose::printable;

/// Recorded windows merged into one, as in the scenarios of the shipped traces: policies sample
/// once per second and cannot resolve finer windows.
const MERGE: u32 = 8;

/// Minimum duration of a trace in virtual nanoseconds with everything fast: as many sampling rounds
/// as a policy needs to settle, and as many again.
const LASTS_NS: f64 = 60e9;

/// Maximum duration: a day. Recordings last minutes, but a trace of a few bytes can claim years.
const MAX_NS: f64 = 86_400e9;

/// The default share of fast memory: a third of the memory, as in the scenarios of the shipped
/// traces.
const FAST_SHARE: f64 = 0.3333;

/// The largest share: with twice the resident memory everything fits, and a larger number is meant
/// in per cent.
const MAX_SHARE: f64 = 2.0;

/// The machine of a bare trace.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Machine of a bare trace")]
pub struct TraceMachine {
    /// Preset: dram-cxl, dram-remote, dram-cxl-252, dram-slow-140 or dram-optane [default:
    /// dram-cxl].
    #[arg(long, value_name = "PRESET", value_parser = preset)]
    machine: Option<String>,
    /// Fast memory as a share of the program's resident memory [default: 0.3333].
    #[arg(long, value_name = "SHARE", value_parser = share, conflicts_with = "fast")]
    fast_share: Option<f64>,
    /// Fast memory as a size such as 8GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    fast: Option<Bytes>,
}

/// Parses the name of a preset.
pub fn preset(text: &str) -> Result<String, String> {
    let names = PRESETS.iter().map(|preset| preset.name);
    if names.clone().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let near = tierwise_core::config::nearest(text, names.clone());
    let hint = near.map_or_else(String::new, |name| format!("did you mean \"{name}\"? "));
    Err(format!("{hint}allowed: {}", names.collect::<Vec<_>>().join(", ")))
}

fn share(text: &str) -> Result<f64, String> {
    let allowed = format!("allowed: a number above 0, up to {MAX_SHARE}");
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let found: f64 = number.trim().parse().map_err(|_| allowed.clone())?;
    if !percent && found > 0.0 && found <= MAX_SHARE {
        return Ok(found);
    }
    let meant = (found > 0.0 && found <= 100.0).then(|| found / 100.0);
    Err(meant.map_or(allowed.clone(), |meant| format!("{allowed}; did you mean {meant}?")))
}

fn size(text: &str) -> Result<Bytes, String> {
    let bytes = Bytes::parse(text).ok().filter(|bytes| bytes.0 > 0);
    bytes.ok_or_else(|| "allowed: a size above zero, up to 4096TiB, for instance 8GiB".to_owned())
}

impl TraceMachine {
    /// Returns the machine of a preset, with the usual sizes.
    pub fn preset(machine: Option<String>) -> Self {
        Self { machine, ..Self::default() }
    }

    /// Refuses arguments of the machine when a scenario describes one.
    pub fn refuse_beside(&self, scenario: &Path) -> CommandResult {
        let message = [
            ("--machine", self.machine.is_some()),
            ("--fast-share", self.fast_share.is_some()),
            ("--fast", self.fast.is_some()),
        ];
        match message.into_iter().find(|&(_, message)| message) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::User(format!(
                "{flag} describes the machine of a bare trace, and {} describes its own; change \
                 [machine] there",
                scenario.display()
            ))),
        }
    }

    fn model(&self) -> Result<Machine, Failure> {
        // The sizes follow; these have the right form.
        let size = Bytes(1 << 30);
        let name = self.machine.as_deref().unwrap_or("dram-cxl");
        Machine::preset(name, size, size)
            .ok_or_else(|| Failure::Internal(format!("the machine {name} is gone")))
    }

    fn fast_size(&self) -> TierSize {
        match self.fast {
            Some(bytes) => TierSize::Bytes(bytes),
            None => TierSize::ShareOfResident(self.fast_share.unwrap_or(FAST_SHARE)),
        }
    }

    fn words(&self) -> String {
        let machine = self.machine.as_deref().unwrap_or("dram-cxl");
        match self.fast_size() {
            TierSize::Bytes(bytes) => format!("on {machine}, with {bytes} of fast memory"),
            TierSize::ShareOfResident(share) => {
                format!("on {machine}, with {:.1} % of it in fast memory", share * 100.0)
            }
        }
    }
}

/// Returns the scenario of traces that run together.
pub fn scenario(traces: &[PathBuf], on: &TraceMachine) -> Result<Scenario, Failure> {
    let machine = on.model()?;
    let fast_ns = machine.tiers.first().map_or(0.0, |tier| tier.load_ns);
    let mut workloads: Vec<WorkloadSpec> = Vec::new();
    for path in traces {
        let stem = printable(&path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy());
        if workloads.iter().any(|other| other.name == stem) {
            return Err(Failure::User(format!(
                "{}: there is already a trace called \"{stem}\"; results are distinguished by \
                 name, so names must differ",
                path.display()
            )));
        }
        workloads.push(workload(stem, path, fast_ns)?.0);
    }
    let names: Vec<&str> = workloads.iter().map(|w| w.name.as_str()).collect();
    Ok(Scenario {
        name: names.join(" + "),
        summary: format!("{} {}", names.join(" + "), on.words()),
        machine,
        sizes: vec![on.fast_size(), TierSize::ShareOfResident(MAX_SHARE)],
        costs: Costs::default(),
        budget: Budget::default(),
        workloads,
        duration: None,
    })
}

/// Returns the part of a trace between its marks "run" and "end", if it has them, stretched to at
/// least a minute; and the nanoseconds that it takes in fast memory without being stretched.
pub fn workload(name: String, path: &Path, fast_ns: f64) -> Result<(WorkloadSpec, f64), Failure> {
    let mut reader = TraceReader::open(path)?;
    let (mut alone_ns, mut run, mut end) = (0.0, false, false);
    let mut window = Window::default();
    while reader.next_window(&mut window)? {
        run |= window.marks.iter().any(|mark| mark == "run");
        end |= window.marks.iter().any(|mark| mark == "end");
        if !end {
            alone_ns += least_ns(&window, fast_ns);
        }
        if alone_ns > MAX_NS {
            return Err(too_long(path, reader.totals().windows));
        }
    }
    let totals = reader.totals();
    // Recordings of accesses alone, such as lackey's, may count no instructions.
    if totals.instructions == 0 && totals.pages == 0 {
        return Err(nothing_ran(path, totals.windows));
    }
    let dilation = (LASTS_NS / alone_ns.max(1.0)).ceil().clamp(1.0, 1e6) as u32;
    let workload = WorkloadSpec {
        measure_from: run.then(|| "run".to_owned()),
        measure_to: end.then(|| "end".to_owned()),
        merge: MERGE,
        dilation,
        ..WorkloadSpec::new(name, WorkloadSource::Trace(path.to_owned()))
    };
    Ok((workload, alone_ns))
}

/// Returns the shortest duration of a window: its instructions, and its misses in fast memory one
/// after the other.
fn least_ns(window: &Window, fast_ns: f64) -> f64 {
    let missed =
        |access: &PageAccess| f64::from(access.load_misses) + f64::from(access.store_misses);
    let misses: f64 = window.accesses.iter().map(missed).sum();
    window.instructions as f64 * Machine::DEFAULT_INSTRUCTION_NS + misses * fast_ns
}

fn nothing_ran(path: &Path, windows: u64) -> Failure {
    Failure::User(format!(
        "{}: the trace holds {} and neither an instruction nor a page: the program that was \
         recorded ended before it ran; record one that runs",
        path.display(),
        counted(windows, "window")
    ))
}

fn too_long(path: &Path, windows: u64) -> Failure {
    let (file, hours) = (path.display(), MAX_NS / 3.6e12);
    Failure::User(format!(
        "{file}: by its first {windows} windows the program runs for more than {hours} \
         hours; run a part of it (tierwise trace cut), or write a scenario with a duration_s"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_fraction() {
        assert_eq!(share("0.25"), Ok(0.25));
        for (found, meant) in [("33", "0.33"), ("33%", "0.33"), ("100", "1")] {
            let message = share(found).unwrap_err();
            assert!(message.ends_with(&format!("; did you mean {meant}?")), "{message}");
        }
        for found in ["0", "-1", "nan", "inf", "1e9", "", "much"] {
            let message = share(found).unwrap_err();
            assert_eq!(message, "allowed: a number above 0, up to 2", "{found}");
        }
        assert_eq!(
            preset("dram-clx").unwrap_err().split("? ").next(),
            Some("did you mean \"dram-cxl\"")
        );
    }

    #[test]
    fn the_machine_is_described_in_words() {
        assert_eq!(
            TraceMachine::default().words(),
            "on dram-cxl, with 33.3 % of it in fast memory"
        );
    }
}
