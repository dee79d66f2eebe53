//! `tierwise config check`: checks the configuration file.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tierwise_linux::roots::Roots;
use tierwise_linux::topology::{LinuxHost, Suitability};
use tierwised::config::{Config, DEFAULT_FILE, DaemonConfigError, difference};
use tierwised::judgement::{self, BLIND};

use crate::failure::{CommandResult, Failure};
use crate::output;

/// Check a configuration, and print its differences from the defaults.
///
/// The command checks the file itself, and checks it against this machine if that has several tiers
/// of memory, like `tierwise doctor` and the daemon's start. It prints what it could not check.
/// Exit code 2 if the configuration is wrong.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  \
                  tierwise config check\n  \
                  tierwise config check new.toml && tierwise daemon reload")]
pub struct CheckCommand {
    /// The configuration.
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// Skip this machine: the configuration is for another one.
    #[arg(long)]
    file_only: bool,
    /// Print JSON: one object with the file, the differences from the defaults, the findings on
    /// this machine, and what could not be checked.
    #[arg(long)]
    json: bool,
    /// Find the kernel's file systems under this directory: for tests on a tree of their own.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

/// Keys of `--json` stay.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    differs: Vec<String>,
    machine: Vec<String>,
    unchecked: Option<String>,
}

impl CheckCommand {
    pub fn execute(&self) -> CommandResult {
        let config = Config::read(&self.file)?;
        judgement::policy_runs(&config)
            .map_err(|why| DaemonConfigError::of_policy(&self.file, why))?;
        let (machine, unchecked) = self.on_this_machine(&config)?;
        let file = self.file.display().to_string();
        let differs = difference(&Config::default(), &config);
        let checked = Checked { file, differs, machine, unchecked };
        if self.json {
            return output::json(&checked);
        }
        let mut out = anstream::stdout().lock();
        writeln!(out, "{}: good", checked.file)?;
        for line in &checked.differs {
            writeln!(out, "  {line}")?;
        }
        for line in &checked.machine {
            writeln!(out, "On this machine: {line}")?;
        }
        if let Some(why) = &checked.unchecked {
            writeln!(out, "Not checked: floors and access monitoring: {why}")?;
        }
        Ok(out.flush()?)
    }

    /// Returns the findings, and the reason why there are no more.
    fn on_this_machine(&self, config: &Config) -> Result<(Vec<String>, Option<String>), Failure> {
        const THERE: &str = "run `tierwise doctor --config FILE` on the machine that it is for";
        let unchecked = |why: String| Ok((Vec::new(), Some(format!("{why}; {THERE}"))));
        if self.file_only {
            return unchecked("--file-only".to_owned());
        }
        let roots = self.root.clone().map_or_else(Roots::default, Roots::under);
        let host = match LinuxHost::discover(&roots, config.tier_override().as_ref()) {
            Ok(host) if host.suitability() == Suitability::Tiered => host,
            Ok(host) => return unchecked(format!("on this machine, {}", host.suitability())),
            Err(e) => return unchecked(e.to_string()),
        };
        let fits = judgement::fits(config, &host).map_err(|problem| {
            Failure::User(format!(
                "{}: right by itself, but tierwised would not start with it on this machine: \
                 {problem}; change it, or check it with --file-only if it is for another machine",
                self.file.display()
            ))
        })?;
        let sees = match judgement::source(config, &roots) {
            Ok(source) => format!("tierwised monitors accesses with {}", source.why),
            Err(why) => format!("{BLIND}, and tierwised only observes: {why}"),
        };
        let mut found = vec![fits, sees];
        // A tree of files does not reveal this kernel's system calls.
        found.extend(judgement::cannot_move(config, &roots, self.root.is_none()));
        Ok((found, None))
    }
}

impl From<DaemonConfigError> for Failure {
    fn from(error: DaemonConfigError) -> Self {
        Self::user(&error)
    }
}
