//! The plan's answer in the form of `--json`. Keys stay.

use serde::Serialize;
use tierwise_core::units::Bytes;

use super::beside::{NextStep, PairCost};
use super::curves::ProgramCurve;
use super::file::PlanFile;
use super::host::HostCourse;
use super::measure::{HostFigures, ProgramFigure, granule_bytes};
use super::programs::PlannedHost;
use super::search::JudgedMachine;
use crate::number::{counted, grouped};

/// A program and its limits.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramLimits {
    pub program: String,
    pub count: u64,
    pub resident_bytes: u64,
    pub slowdown: Option<f64>,
    pub slo_ms: Option<f64>,
}

/// The answer.
#[derive(Debug, Serialize)]
pub struct PlanAnswer {
    pub sentence: String,
    pub currency: String,
    pub seed: u64,
    pub repeats: u64,
    /// Bytes that one simulated page stands for.
    pub granule_bytes: u64,
    pub programs: Vec<ProgramLimits>,
    /// Ways to fit the modules into the machines.
    pub catalogue: usize,
    /// Those that were judged, cheapest first.
    pub machines: Vec<JudgedMachine>,
    /// Index of the recommended machine.
    pub recommended: Option<usize>,
    /// Index of the machine of curves, next step and pairs.
    pub shown: Option<usize>,
    pub curves: Vec<ProgramCurve>,
    pub next: Option<NextStep>,
    pub pairs: Vec<PairCost>,
    #[serde(skip)]
    pub course: Option<HostCourse>,
}

impl PlanAnswer {
    pub fn new(
        plan: &PlanFile,
        host: &PlannedHost,
        catalogue: usize,
        machines: Vec<JudgedMachine>,
    ) -> Self {
        let limits = host.programs.iter().map(|p| ProgramLimits {
            program: p.name.clone(),
            count: p.count,
            resident_bytes: p.resident,
            slowdown: p.slowdown,
            slo_ms: p.slo_ms,
        });
        Self {
            sentence: String::new(),
            currency: plan.currency.clone(),
            seed: 0,
            repeats: 0,
            granule_bytes: granule_bytes(host),
            programs: limits.collect(),
            catalogue,
            machines,
            recommended: None,
            shown: None,
            curves: Vec::new(),
            next: None,
            pairs: Vec::new(),
            course: None,
        }
    }

    /// "1,234 EUR".
    pub fn money(&self, price: f64) -> String {
        let whole = grouped(price.round() as u64);
        format!("{whole} {}", self.currency).trim_end().to_owned()
    }

    /// The policy of the machine that is shown.
    pub fn policy(&self) -> &str {
        let shown = self.shown.and_then(|i| self.machines[i].best.as_ref());
        shown.map_or("", |best| best.policy.as_str())
    }

    pub fn limit_words(&self, program: &str) -> String {
        let Some(limits) = self.programs.iter().find(|p| p.program == program) else {
            return String::new();
        };
        let slowdown = limits.slowdown.map(|most| format!("{most} x"));
        let slo = limits.slo_ms.map(|slo| format!("P99 {slo} ms"));
        [slowdown, slo].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// Returns the recommendation, its reason and its margin.
pub fn sentence(answer: &PlanAnswer) -> String {
    let all = counted(answer.catalogue as u64, "way");
    let Some(chosen) = answer.recommended else {
        let why = answer.shown.and_then(|i| answer.machines[i].why.clone());
        let nearest = answer.shown.map(|i| answer.machines[i].machine.clone());
        return match nearest.zip(why) {
            Some((machine, why)) => format!(
                "Buy none of these: of {all} to fit the modules none keeps every limit; on \
                 the dearest, {machine}, {why}."
            ),
            None => {
                format!("Buy none of these: of {all} to fit the modules none holds the programs.")
            }
        };
    };
    let machine = &answer.machines[chosen];
    let mut text = format!(
        "Buy {} for {}, under {}: of {all} to fit the modules it is the cheapest that \
         keeps every limit",
        machine.machine,
        answer.money(machine.price),
        answer.policy()
    );
    if let Some(tightest) = machine.best.as_ref().and_then(HostFigures::tightest) {
        text += &format!("; {}", margin(answer, tightest));
    }
    // Of machines that hold the programs, the nearest below says what the money buys.
    let cheaper = answer.machines[..chosen].iter().rev().find(|one| one.best.is_some());
    if let Some((cheaper, why)) = cheaper.and_then(|one| Some((one, one.why.as_ref()?))) {
        let price = answer.money(cheaper.price);
        text += &format!("; on the next cheaper, {} for {price}, {why}", cheaper.machine);
    }
    text + "."
}

fn margin(answer: &PlanAnswer, program: &ProgramFigure) -> String {
    let left = (1.0 - program.of_limit) * 100.0;
    let name = &program.program;
    let limit = answer.limit_words(name);
    format!(
        "nearest to its limit is {name} with {} in {} of {limit} allowed, a margin of {left:.1} %",
        program.slowdown.words(),
        counted(answer.repeats, "run"),
    )
}

/// Returns the next step's gain in words.
pub fn next_words(answer: &PlanAnswer, next: &NextStep) -> String {
    let (before, after) = (next.before.slowdown, next.after.slowdown);
    format!(
        "The next {} of fast memory would cost {} at the price of its modules; the host's mean \
         slowdown would go from {before:.3} x to {after:.3} x.",
        Bytes(next.step_bytes),
        answer.money(next.price)
    )
}
