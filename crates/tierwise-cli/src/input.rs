//! Reads scenario and recipe files, and traces in their place.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tierwise_core::learn::{Learning, Null};
use tierwise_core::observe::Signals;
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::topology::Topology;
use tierwise_core::units::Bytes;
use tierwise_sim::machine::Machine;
use tierwise_sim::scenario::Scenario;
use tierwise_trace::format::MAGIC;
use tierwise_trace::model::unreadable;
use tierwise_trace::pipe;

use crate::bare_trace::{self, TraceMachine};
use crate::failure::Failure;

/// Size limit of a text file in bytes: the longest shipped scenario has a thousandth of it, so a
/// larger file is something else.
const MAX_TEXT: u64 = 4 << 20;

/// The kind of a file that may be a scenario or a trace.
enum Found {
    Trace,
    Text(String),
}

/// Reads a scenario file. Its traces are not opened.
pub fn scenario(path: &Path) -> Result<Scenario, Failure> {
    match found(path)? {
        Found::Text(text) => scenario_of(path, &text),
        Found::Trace => Err(Failure::User(format!(
            "{}: is a trace, and a scenario is needed here; `tierwise compare`, `simulate` and \
             `advise` take traces",
            path.display()
        ))),
    }
}

/// Reads a scenario file, or makes a scenario of a trace that runs alone on a machine.
pub fn scenario_or_trace(path: &Path, on: &TraceMachine) -> Result<Scenario, Failure> {
    match found(path)? {
        Found::Trace => bare_trace::scenario(&[path.to_owned()], on),
        Found::Text(text) => {
            on.refuse_beside(path)?;
            scenario_of(path, &text)
        }
    }
}

/// Reads one scenario file, or makes a scenario of traces that run together.
pub fn scenario_or_traces(paths: &[PathBuf], on: &TraceMachine) -> Result<Scenario, Failure> {
    if let [one] = paths {
        return scenario_or_trace(one, on);
    }
    for path in paths {
        if let Found::Text(text) = found(path)? {
            scenario_of(path, &text)?;
            return Err(Failure::User(format!(
                "{}: a scenario describes what runs together: give one scenario, or traces only",
                path.display()
            )));
        }
    }
    bare_trace::scenario(paths, on)
}

/// Reads the text of a plan.
pub fn plan_text(path: &Path) -> Result<String, Failure> {
    match found(path)? {
        Found::Text(text) => Ok(text),
        Found::Trace => Err(Failure::User(format!(
            "{}: is a trace, and a plan is needed here; name the plan first, traces after it",
            path.display()
        ))),
    }
}

fn scenario_of(path: &Path, text: &str) -> Result<Scenario, Failure> {
    let base = path.parent().unwrap_or(Path::new("."));
    Ok(Scenario::parse(&path.to_string_lossy(), text, base)?)
}

fn found(path: &Path) -> Result<Found, Failure> {
    let mut file = pipe::open(path).map_err(|error| cannot_read(path, &error))?;
    let mut bytes = Vec::new();
    let mut read = |most| file.by_ref().take(most).read_to_end(&mut bytes).map(drop);
    // A pipe can be read once, so the first bytes are kept.
    read(MAGIC.len() as u64).map_err(|error| cannot_read(path, &error))?;
    if bytes == MAGIC {
        let there = file.metadata().map_err(|error| cannot_read(path, &error))?;
        if there.is_file() {
            return Ok(Found::Trace);
        }
        // A second open would wait for another writer for ever.
        return Err(Failure::User(format!(
            "{}: the trace comes through a pipe or a device, and it is read more than once here; \
             write it to a file first",
            path.display()
        )));
    }
    let what = "is neither a trace (.twt) nor a scenario (TOML)";
    Ok(Found::Text(rest_of_text(path, file, bytes, what)?))
}

/// Reads a recipe file, and checks that a policy can be made of it on this machine.
pub fn recipe(path: &Path, machine: &Scenario) -> Result<Recipe, Failure> {
    // Parameters are checked before any work starts; this does not need the tiers' final sizes.
    recipe_on(path, &machine.resolve(Bytes(1 << 30)))
}

/// Like [`recipe`], on a machine with known sizes.
pub fn recipe_on(path: &Path, machine: &Machine) -> Result<Recipe, Failure> {
    let recipe = Recipe::parse(&path.to_string_lossy(), &text(path, "is no recipe (TOML)")?)?;
    let topology = machine.topology();
    signals(&recipe, &topology)?;
    Ok(recipe)
}

/// Returns the signals that a recipe's policy requires on a machine. A recipe that learns gets a
/// learner that does not learn; its signals are the same.
pub fn signals(recipe: &Recipe, topology: &Topology) -> Result<Signals, Failure> {
    let learning: Arc<dyn Learning> = Arc::new(Null);
    let ctx = BuildContext { topology, seed: 0, learning: Some(&learning) };
    Ok(recipe.build(&ctx)?.signals())
}

/// Returns a policy that Tierwise ships.
pub fn policy(name: &str) -> Result<Recipe, Failure> {
    // There is no file with a line to name.
    Recipe::named(name).map_err(|error| Failure::User(error.problem))
}

/// Returns a policy that Tierwise ships and that is no bound.
pub fn policy_that_runs(name: &str) -> Result<Recipe, Failure> {
    let recipe = policy(name)?;
    match recipe.bound() {
        None => Ok(recipe),
        Some(_) => Err(Failure::User(format!(
            "\"{name}\" is a bound, not a policy that a program could run under; `tierwise \
             policies` lists policies"
        ))),
    }
}

/// Returns the text of a file; `otherwise` names the kind of file that it is not.
pub fn text(path: &Path, otherwise: &str) -> Result<String, Failure> {
    let file = pipe::open(path).map_err(|error| cannot_read(path, &error))?;
    rest_of_text(path, file, Vec::new(), otherwise)
}

/// Returns the text of a file of which `bytes` were already read; `otherwise` names the kinds of
/// file that it is not.
fn rest_of_text(
    path: &Path,
    file: File,
    mut bytes: Vec<u8>,
    otherwise: &str,
) -> Result<String, Failure> {
    let refuse = |why: &str| Failure::User(format!("{}: {otherwise}: {why}", path.display()));
    file.take(MAX_TEXT).read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
    if bytes.len() as u64 >= MAX_TEXT {
        return Err(refuse(&format!("it is larger than {}", Bytes(MAX_TEXT))));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(refuse("it is empty"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        refuse(&format!("it is not UTF-8 text at byte {at}"))
    })
}

/// Returns the refusal of a file that cannot be opened or read.
pub fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::User(format!("{}: {}", path.display(), unreadable(path, error)))
}
