//! The plan file: modules, machines, programs and limits.

use std::path::{Path, PathBuf};

use tierwise_core::config::{ConfigError, Document, Section};
use tierwise_core::recipe::Recipe;
use tierwise_core::tenant::{DEFAULT_WEIGHT, MAX_WEIGHT};
use tierwise_core::units::Bytes;

use super::catalogue::{BareMachine, MemoryModule, ModuleKind};

/// A twentieth more time, which is within the daily variation of a machine; `advise` has the same.
const DEFAULT_SLOWDOWN: f64 = 1.05;

/// A usual step when memory is bought.
const DEFAULT_STEP: Bytes = Bytes(16 << 30);

/// Every pair of programs runs beside each other: 12 programs are 78 pairs, with themselves.
pub const MAX_PROGRAMS: usize = 12;

/// Instances of one program on a host; each is a tenant of the simulation.
const MAX_COUNT: u64 = 64;

/// Slots of a kind: two sockets of 12 channels with two modules each, rounded up.
const MAX_SLOTS: u64 = 64;

/// Shares of time: no program does nothing but wait for memory, and one that never does needs no
/// plan.
pub const SHARES: std::ops::RangeInclusive<f64> = 0.001..=0.99;

/// A price above a billion is a slip in any currency.
const PRICES: std::ops::RangeInclusive<f64> = 0.0..=1e9;

/// A program's source.
#[derive(Debug, Clone, PartialEq)]
pub enum ProgramSource {
    /// A recorded trace.
    Trace(PathBuf),
    /// A workload of a scenario; `None`: its only one.
    Scenario(PathBuf, Option<String>),
}

/// A program as the plan file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramEntry {
    pub name: String,
    pub source: ProgramSource,
    /// Instances on the host.
    pub count: u64,
    /// The resident memory of the real program; `None`: as recorded.
    pub size: Option<Bytes>,
    /// The share of its time that it waits for memory, with everything fast; `None`: as recorded.
    pub memory_bound: Option<f64>,
    /// The allowed slowdown; `None`: the plan's, unless the program has an SLO.
    pub slowdown: Option<f64>,
    pub weight: u32,
    pub threads: u32,
}

/// The whole file.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanFile {
    /// The unit of all prices, in output only.
    pub currency: String,
    /// The next amount of memory that is considered.
    pub step: Bytes,
    /// The slowdown that a program without a limit of its own may have.
    pub slowdown: f64,
    pub policies: Vec<String>,
    /// The end of every run in seconds, for programs that do not end by themselves.
    pub duration_s: Option<f64>,
    pub modules: Vec<MemoryModule>,
    pub machines: Vec<BareMachine>,
    pub programs: Vec<ProgramEntry>,
}

impl PlanFile {
    /// Parses a plan. Paths start at `base`, the file's directory. It opens no file.
    ///
    /// # Errors
    /// The first mistake, with file, line and key.
    pub fn parse(file: &str, text: &str, base: &Path) -> Result<Self, ConfigError> {
        let document = Document::parse(file, text)?;
        let root = document.root();
        let limits = root.section("limits")?;
        let slowdown = limits.number_or("slowdown", DEFAULT_SLOWDOWN, 1.0..=1000.0)?;
        limits.finish()?;
        let names = root.texts("policies")?;
        for name in &names {
            check_policy(name).map_err(|problem| root.error("policies", problem))?;
        }
        let policies = if names.is_empty() { vec!["static", "tpp", "tierwise"] } else { names };
        let plan = Self {
            currency: root.text("currency")?.unwrap_or("").trim().to_owned(),
            step: root.bytes_or("step", DEFAULT_STEP)?,
            slowdown,
            policies: policies.into_iter().map(str::to_owned).collect(),
            duration_s: root.number("duration_s", 1.0..=1e6)?,
            modules: each(&root, "module", module, |module| &module.name)?,
            machines: each(&root, "machine", machine, |machine| &machine.name)?,
            programs: each(&root, "program", |s| program(s, base), |program| &program.name)?,
        };
        root.finish()?;
        plan.check(&root)?;
        Ok(plan)
    }

    fn check(&self, root: &Section<'_>) -> Result<(), ConfigError> {
        for (kind, name) in [(ModuleKind::Dram, "dram"), (ModuleKind::Cxl, "cxl")] {
            if !self.modules.iter().any(|module| module.kind == kind) {
                let problem = format!(
                    "found no module with kind = \"{name}\"; allowed: at least one of dram and \
                     one of cxl; write a [[module]] of that kind"
                );
                return Err(root.error("module", problem));
            }
        }
        if self.machines.is_empty() {
            return Err(root.error("machine", "missing; write at least one [[machine]]"));
        }
        if self.programs.len() > MAX_PROGRAMS {
            let found = self.programs.len();
            let problem = format!(
                "found {found} programs; allowed: up to {MAX_PROGRAMS}; plan them in groups"
            );
            return Err(root.error("program", problem));
        }
        Ok(())
    }
}

/// Refuses a name that is no policy under which a program could run.
fn check_policy(name: &str) -> Result<(), String> {
    match Recipe::named(name) {
        Err(error) => Err(error.problem),
        Ok(recipe) if recipe.bound().is_some() => {
            Err(format!("found \"{name}\", which is a bound; allowed: policies that run"))
        }
        Ok(_) => Ok(()),
    }
}

/// Reads an array of tables whose names are unique.
fn each<T>(
    root: &Section<'_>,
    key: &'static str,
    read: impl Fn(&Section<'_>) -> Result<T, ConfigError>,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<T>, ConfigError> {
    let mut all: Vec<T> = Vec::new();
    for section in root.sections(key)? {
        let one = read(&section)?;
        section.finish()?;
        let its = name(&one);
        if its.is_empty() || its.chars().any(char::is_control) || its.chars().count() > 64 {
            let problem =
                format!("found {its:?}; allowed: 1 to 64 letters without control characters");
            return Err(section.error("name", problem));
        }
        if all.iter().any(|other| name(other) == its) {
            let problem = format!("found \"{its}\" a second time; names are unique");
            return Err(section.error("name", problem));
        }
        all.push(one);
    }
    Ok(all)
}

fn module(section: &Section<'_>) -> Result<MemoryModule, ConfigError> {
    let missing =
        |key: &'static str, what: &str| section.error(key, format!("missing; write {what}"));
    let kinds = [("dram", Some(ModuleKind::Dram)), ("cxl", Some(ModuleKind::Cxl))];
    let name = section.required_text("name")?;
    let kind = section.choice_or("kind", None, &kinds)?;
    let capacity = section.bytes("capacity")?;
    let load_ns = section.number("load_ns", 1.0..=1e6)?;
    let read_gbps = section.number("read_gbps", 0.001..=1e5)?;
    let write_gbps = section.number("write_gbps", 0.001..=1e5)?;
    let price = section.number("price", PRICES)?;
    // Before a missing key is reported: a misspelt key is the error that the user made.
    section.finish()?;
    let read_gbps = read_gbps.ok_or_else(|| missing("read_gbps", "the GB/s of one module"))?;
    Ok(MemoryModule {
        name: name.to_owned(),
        kind: kind.ok_or_else(|| missing("kind", "\"dram\" or \"cxl\""))?,
        capacity: capacity.ok_or_else(|| missing("capacity", "a size such as \"16GiB\""))?,
        load_ns: load_ns.ok_or_else(|| missing("load_ns", "the idle latency in nanoseconds"))?,
        read_gbps,
        write_gbps: write_gbps.unwrap_or(read_gbps),
        price: price.ok_or_else(|| missing("price", "the price of one module"))?,
    })
}

fn machine(section: &Section<'_>) -> Result<BareMachine, ConfigError> {
    let slots = |key| section.whole(key, 0..=MAX_SLOTS);
    let name = section.required_text("name")?;
    let price = section.number("price", PRICES)?;
    let (dram_slots, cxl_slots) = (slots("dram_slots")?, slots("cxl_slots")?.unwrap_or(0));
    let dram = counts(section, "dram_counts", dram_slots.unwrap_or(MAX_SLOTS), 1)?;
    let cxl = counts(section, "cxl_counts", cxl_slots, 0)?;
    section.finish()?;
    if dram_slots.unwrap_or(0) == 0 {
        let problem = format!("missing or zero; write the number of slots, 1 to {MAX_SLOTS}");
        return Err(section.error("dram_slots", problem));
    }
    let price = price
        .ok_or_else(|| section.error("price", "missing; write the price without memory, or 0"))?;
    Ok(BareMachine { name: name.to_owned(), price, dram, cxl })
}

/// Reads how many modules may be fitted. The default is what keeps channels balanced: powers of
/// two, and all slots.
fn counts(
    section: &Section<'_>,
    key: &'static str,
    slots: u64,
    least: u64,
) -> Result<Vec<u64>, ConfigError> {
    let mut counts = section.wholes(key)?;
    if let Some(wrong) = counts.iter().find(|count| !(least..=slots).contains(count)) {
        let problem = format!("found {wrong}; allowed: {least} to {slots}, the number of slots");
        return Err(section.error(key, problem));
    }
    if counts.is_empty() {
        counts = (0..7).map(|power| 1 << power).filter(|&count| count <= slots).collect();
        counts.extend((least == 0).then_some(0));
        counts.push(slots);
    }
    counts.sort_unstable();
    counts.dedup();
    Ok(counts)
}

fn program(section: &Section<'_>, base: &Path) -> Result<ProgramEntry, ConfigError> {
    let trace = section.text("trace")?.map(|path| base.join(path));
    let scenario = section.text("scenario")?.map(|path| base.join(path));
    let workload = section.text("workload")?;
    let memory_bound = section.number("memory_bound", SHARES)?;
    if memory_bound.is_some() && trace.is_none() {
        let problem = "is for a trace; a scenario says how often its programs access memory";
        return Err(section.error("memory_bound", problem));
    }
    let source = match (trace, scenario) {
        (Some(trace), None) if workload.is_none() => ProgramSource::Trace(trace),
        (None, Some(file)) => ProgramSource::Scenario(file, workload.map(str::to_owned)),
        (Some(_), None) => {
            let problem = "has no effect beside a trace; name a scenario, or remove it";
            return Err(section.error("workload", problem));
        }
        _ => {
            let problem = "allowed: one of trace = \"FILE.twt\" and scenario = \"FILE.toml\"";
            return Err(section.error("trace", problem));
        }
    };
    Ok(ProgramEntry {
        name: section.required_text("name")?.to_owned(),
        source,
        count: section.whole_or("count", 1, 1..=MAX_COUNT)?,
        size: section.bytes("size")?,
        memory_bound,
        slowdown: section.number("slowdown", 1.0..=1000.0)?,
        weight: section.whole_or("weight", DEFAULT_WEIGHT.into(), 1..=MAX_WEIGHT.into())? as u32,
        threads: section.whole_or("threads", 1, 1..=4096)? as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"
currency = "EUR"
[[module]]
name = "d"
kind = "dram"
capacity = "16GiB"
load_ns = 73
read_gbps = 30
price = 60
[[module]]
name = "c"
kind = "cxl"
capacity = "64GiB"
load_ns = 202
read_gbps = 15
price = 90
[[machine]]
name = "m"
price = 1000
dram_slots = 6
cxl_slots = 2
[[program]]
name = "p"
trace = "p.twt"
"#;

    fn refusal(from: &str, to: &str) -> String {
        assert!(PLAN.contains(from));
        let text = PLAN.replacen(from, to, 1);
        PlanFile::parse("p.toml", &text, Path::new("")).unwrap_err().to_string()
    }

    #[test]
    fn missing_keys_have_usual_values() {
        let plan = PlanFile::parse("p.toml", PLAN, Path::new("/x")).unwrap();
        assert_eq!((plan.step, plan.slowdown), (Bytes(16 << 30), 1.05));
        assert_eq!(plan.machines[0].dram, [1, 2, 4, 6]);
        assert_eq!(plan.machines[0].cxl, [0, 1, 2]);
        assert_eq!(plan.programs[0].source, ProgramSource::Trace("/x/p.twt".into()));
    }

    #[test]
    fn mistakes_name_line_and_key() {
        let cases = [
            ("kind = \"cxl\"", "kind = \"clx\"", "p.toml:12: module[1].kind: found \"clx\""),
            ("kind = \"cxl\"", "kind = \"dram\"", "found no module with kind = \"cxl\""),
            ("price = 60", "prize = 60", "p.toml:9: module[0].prize: unknown key; did you mean"),
            ("price = 60", "price = -60", "p.toml:9: module[0].price: found -60; allowed"),
            ("dram_slots = 6", "", "machine[0].dram_slots: missing or zero; write"),
            ("cxl_slots = 2", "cxl_slots = 2\ncxl_counts = [3]", "found 3; allowed: 0 to 2"),
            ("trace = \"p.twt\"", "", "program[0].trace: allowed: one of"),
            (
                "trace = \"p.twt\"",
                "trace = \"p.twt\"\nmemory_bound = 30",
                "program[0].memory_bound: found 30; allowed: a number from 0.001 to 0.99",
            ),
            (
                "trace = \"p.twt\"",
                "scenario = \"p.toml\"\nmemory_bound = 0.3",
                "program[0].memory_bound: is for a trace",
            ),
            ("name = \"c\"", "name = \"d\"", "found \"d\" a second time; names are unique"),
        ];
        for (from, to, words) in cases {
            let message = refusal(from, to);
            assert!(message.contains(words), "{to}: {message}");
        }
    }
}
