//! The worker of a sweep: reads units from stdin, a JSON object a line, and answers each with its
//! record on stdout.

use std::io::{self, BufRead, Write};

use clap::Args;
use tierwise_sweep::{Unit, UnitRunner};

use crate::failure::{CommandResult, Failure};

/// Run the units that a sweep sends.
#[derive(Debug, Args)]
pub struct SweepWorker {}

impl SweepWorker {
    pub fn execute(&self) -> CommandResult {
        die_first();
        let runner = UnitRunner::default();
        let mut out = io::stdout().lock();
        // The end of stdin is the end of the sweep, also of one that was killed.
        for line in io::stdin().lock().lines() {
            let unit: Unit = serde_json::from_str(&line?).map_err(|error| {
                Failure::User(format!("stdin: not a unit: {error}; `tierwise sweep` sends units"))
            })?;
            let mut answer = serde_json::to_string(&runner.run(&unit))?;
            answer.push('\n');
            out.write_all(answer.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
}

/// Makes the kernel choose the worker, and not the sweep, when memory runs out: one unit is lost
/// then. 500 of 1000 puts the worker before every process of less than half of the memory
/// (`Documentation/filesystems/proc.rst`, `oom_score_adj`).
fn die_first() {
    // Where /proc is not to be written, the kernel chooses by size.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
}
