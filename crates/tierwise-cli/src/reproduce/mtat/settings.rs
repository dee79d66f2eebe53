//! Table 3: other numbers of cores for the service, and of best-effort programs.

use std::iter;

use rayon::prelude::*;
use tierwise_sim::result::RunOutput;
use tierwise_sim::scenario::{Scenario, WorkloadSource};

use super::super::claims::Here;
use super::super::measurements::Measurements;
use super::super::part::Findings;
use super::super::runs;
use super::super::sheet::FigureSheet;
use super::max_load::search;
use super::outputs::{NO_WORK, fairness, of_policy, throughput, violations};
use super::{COARSE, FINE, FMEM_ALL, LOADS, NEAR, krps, percent, steady};
use crate::failure::Failure;

/// Cores of the machine, for service and programs (section 5).
const CORES: usize = 24;

/// Cores of the service. The paper's text has no other mix than that of section 5, which is the
/// second here; the others have half of its cores, and half as many more.
const SERVICE_CORES: [usize; 3] = [4, 8, 12];

/// The programs of section 5.4.
const PROGRAMS: [&[&str]; 2] = [&["sssp", "pr"], &["sssp", "bfs", "pr", "xsbench"]];

/// The settings.
pub(super) const SETTINGS: usize = SERVICE_CORES.len() * PROGRAMS.len();

/// MEMTIS is what fairness and throughput are relative to. The paper reports the two variants of
/// MTAT.
const COMPARED: [&str; 4] = ["memtis", "mtat-lc-only", "mtat", "tierwise"];

/// Jobs of a setting: the search of FMEM_ALL's load, the searches of the others but MEMTIS, and the
/// steady loads.
pub(super) const JOBS: usize = COMPARED.len() + LOADS.len() * COMPARED.len();

/// What a setting shows.
struct Measured {
    /// Requests per second that FMEM_ALL sustains.
    full: f64,
    /// Maximum load over FMEM_ALL's, of all policies but MEMTIS.
    loads: Vec<f64>,
    /// Runs of all policies, by steady load.
    steady: Vec<Vec<RunOutput>>,
}

/// Measures every setting, with the service and the programs of a scenario.
pub(super) fn measure(m: &Measurements, scenario: &Scenario) -> Result<Findings, Failure> {
    let paper = "in every setting MTAT keeps the SLO; the figures of table 3 are not in the text";
    let head = [
        "cores",
        "programs",
        "FMEM_ALL KRPS",
        "policy",
        "maximum load",
        "NP at 20 %",
        "50 %",
        "80 %",
        "throughput at 20 %",
        "50 %",
        "80 %",
        "violations %",
    ];
    let mut sheet = FigureSheet::new(
        "Table 3: Memcached's cores and programs beside it (maximum load over FMEM_ALL's; smallest \
         NP and throughput over MEMTIS's; violations at the worst of the three loads)",
        paper,
        &head,
    );
    let settings: Vec<(usize, &[&str])> = SERVICE_CORES
        .iter()
        .flat_map(|&cores| PROGRAMS.iter().map(move |&programs| (cores, programs)))
        .collect();
    let measured: Vec<Measured> = settings
        .par_iter()
        .map(|&(cores, programs)| one(m, &setting(scenario, cores, programs)))
        .collect::<Result<_, Failure>>()?;
    for ((cores, programs), measured) in settings.iter().zip(&measured) {
        let names = [cores.to_string(), programs.len().to_string()];
        sheet.rows.extend(rows(&names, measured));
    }
    Ok(Findings::sheet(sheet, vec![kept(&measured, "mtat"), kept(&measured, "mtat-lc-only")]))
}

/// The scenario with a number of cores for its service, whose load grows with them, and the others
/// divided among some of its programs.
fn setting(scenario: &Scenario, cores: usize, programs: &[&str]) -> Scenario {
    let mut setting = scenario.clone();
    setting.name = format!("{cores} cores, {} programs", programs.len());
    setting.workloads.retain(|workload| {
        matches!(workload.source, WorkloadSource::Service(_))
            || programs.contains(&workload.name.as_str())
    });
    for workload in &mut setting.workloads {
        if let WorkloadSource::Service(service) = &mut workload.source {
            let grown = cores as f64 / service.servers as f64;
            service.servers = cores;
            service.max_per_second *= grown;
            service.arrivals = service.arrivals.scaled(grown);
        } else {
            workload.threads = ((CORES - cores) / programs.len()) as u32;
        }
    }
    setting
}

fn one(m: &Measurements, setting: &Scenario) -> Result<Measured, Failure> {
    let recipes = runs::recipes(&COMPARED)?;
    let share = search(m, setting, &runs::recipes(&[FMEM_ALL])?[0], &[], FINE)?;
    let sustained = runs::with_load(setting, share);
    let load = |recipe| search(m, &sustained, recipe, &NEAR, COARSE);
    let loads = recipes[1..].par_iter().map(load).collect::<Result<_, Failure>>()?;
    let service = setting.workloads.iter().find_map(|workload| match &workload.source {
        WorkloadSource::Service(service) => Some(service.max_per_second),
        _ => None,
    });
    let full = share * service.unwrap_or(0.0);
    let steady = runs::all(m, &LOADS.map(|load| steady(&sustained, load * share)), &recipes)?;
    Ok(Measured { full, loads, steady })
}

fn rows(names: &[String; 2], measured: &Measured) -> Vec<Vec<String>> {
    let loads = measured.loads.iter().map(|&load| percent(load));
    let loads = iter::once("not searched".to_owned()).chain(loads);
    let mut rows = Vec::new();
    for (i, (policy, load)) in COMPARED.iter().zip(loads).enumerate() {
        let mut row = names.to_vec();
        row.extend([krps(measured.full), (*policy).to_owned(), load]);
        for value in [&fairness, &throughput] as [&dyn Fn(&RunOutput) -> f64; 2] {
            let over = |outputs: &Vec<RunOutput>| value(&outputs[i]) / value(&outputs[0]);
            row.extend(measured.steady.iter().map(|outputs| format!("{:.3}", over(outputs))));
        }
        row.push(format!("{:.2}", worst(measured, policy)));
        rows.push(row);
    }
    rows
}

/// Per cent of the requests that violate the SLO, at the steady load where it is most; not a number
/// if none was answered at one.
fn worst(measured: &Measured, policy: &str) -> f64 {
    let outputs = measured.steady.iter().filter_map(|outputs| of_policy(outputs, policy));
    let shares = outputs.map(violations);
    shares.fold(0.0, |most: f64, share| if share > most || share.is_nan() { share } else { most })
}

/// Whether a policy keeps the SLO at every steady load of every setting: a violation is a request
/// of the slowest hundredth.
fn kept(measured: &[Measured], policy: &str) -> Here {
    let finite = |m: &Measured| {
        let mut outputs = m.steady.iter().flatten();
        outputs.all(|output| fairness(output).is_finite() && violations(output).is_finite())
    };
    if !measured.iter().all(finite) {
        return Here::NotMeasured(NO_WORK.into());
    }
    let count = measured.iter().filter(|m| worst(m, policy) <= 1.0).count();
    Here::Holds(count == measured.len(), format!("in {count} of {}", measured.len()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::*;

    #[test]
    fn cores_move_load_and_programs() {
        let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/mtat");
        let scenario = runs::scenario(&scenarios, "memcached").unwrap();
        let given = setting(&scenario, 8, PROGRAMS[1]);
        let same = Scenario { name: given.name.clone(), ..scenario.clone() };
        assert_eq!(given, same, "section 5's own mix");
        let setting = setting(&scenario, 12, PROGRAMS[0]);
        let WorkloadSource::Service(service) = &setting.workloads[0].source else {
            panic!("the service is first");
        };
        assert_eq!((service.servers, service.max_per_second), (12, 1.5 * 1_220_000.0));
        let load = 0.6 * service.max_per_second;
        assert!((service.arrivals.mean_per_second() - load).abs() < 1.0, "the ramp's mean");
        let programs: Vec<(&str, u32)> =
            setting.workloads[1..].iter().map(|w| (w.name.as_str(), w.threads)).collect();
        assert_eq!(programs, [("sssp", 6), ("pr", 6)]);
    }
}
