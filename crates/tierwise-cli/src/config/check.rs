//! `tierwise config check`: is the file right?

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tierwised::config::{Config, ConfigError, DEFAULT_FILE, difference};

use crate::failure::{Failure, Outcome};
use crate::output;

/// Check a configuration, and print what in it differs from the defaults.
///
/// Whether it fits this machine says `tierwise doctor --config FILE`. Exit code 2 if it is wrong.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise config check\n  tierwise config check new.toml && tierwise daemon reload"
)]
pub struct Check {
    /// The configuration.
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,
    /// Print JSON: one object with the file and the list of what differs from the defaults.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    differs: Vec<String>,
}

impl Check {
    pub fn execute(&self) -> Outcome {
        let config = Config::read(&self.file)?;
        let file = self.file.display().to_string();
        let checked = Checked { file, differs: difference(&Config::default(), &config) };
        if self.json {
            return output::json(&checked);
        }
        let mut out = anstream::stdout().lock();
        writeln!(out, "{}: good", checked.file)?;
        for line in &checked.differs {
            writeln!(out, "  {line}")?;
        }
        Ok(out.flush()?)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::user(&error)
    }
}
