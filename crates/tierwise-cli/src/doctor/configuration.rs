//! Checks of the configuration: correct, suitable for this machine, and in use by a running daemon.

use std::path::Path;

use tierwise_linux::topology::LinuxHost;
use tierwised::config::{Config, DEFAULT_FILE};
use tierwised::control::{ClientError, ControlCommand, call};
use tierwised::judgement;

use super::check::{HostCheck, Stops};
use crate::live::words;
use crate::number::counted;

const NAME: &str = "configuration";

/// The configuration, if it can be read.
pub fn read(file: Option<&Path>) -> (Vec<HostCheck>, Option<Config>) {
    let standard = Path::new(DEFAULT_FILE);
    let Some(file) = file.or_else(|| standard.exists().then_some(standard)) else {
        let remedy = "`tierwise config example` prints one to start from".to_owned();
        let check = HostCheck::note(
            NAME,
            format!("{DEFAULT_FILE} does not exist: the defaults hold, without tenants"),
            Some(remedy),
        );
        return (vec![check], None);
    };
    match Config::read(file) {
        Ok(config) => {
            let tenants = counted(config.tenants.len() as u64, "tenant");
            let found = format!("{}: policy {}, {tenants}", file.display(), config.policy);
            (vec![HostCheck::ok(NAME, found)], Some(config))
        }
        Err(error) => {
            let remedy = "correct it; `tierwise config example` has every key";
            let check = HostCheck::missing(NAME, error.to_string(), remedy);
            (vec![check.stopping(Stops::Everything)], None)
        }
    }
}

/// Checks that an engine can be made of the configuration for this machine: floors against
/// capacity, and the policy's signals. Another check covers missing access monitoring.
pub fn fits(config: &Config, host: Option<&LinuxHost>) -> Option<HostCheck> {
    const NAME: &str = "policy and floors";
    Some(match judgement::fits(config, host?) {
        Ok(found) => HostCheck::ok(NAME, found),
        Err(problem) => {
            HostCheck::missing(NAME, problem, "change policy or tenants in the configuration")
                .stopping(Stops::Everything)
        }
    })
}

/// Checks that tierwised runs.
pub fn daemon(config: &Config) -> HostCheck {
    const NAME: &str = "tierwised";
    match call(&config.control.socket, &ControlCommand::Snapshot) {
        Ok(reply) => match reply.snapshot {
            Some(snapshot) => HostCheck::ok(NAME, words::title(&snapshot)),
            None => {
                HostCheck::note(NAME, "runs, and is of another version than this command", None)
            }
        },
        Err(ClientError::NotListening { path, source }) => HostCheck::note(
            NAME,
            format!("does not run ({}: {source})", path.display()),
            Some("systemctl start tierwised".into()),
        ),
        Err(error) => HostCheck::note(NAME, error.to_string(), None),
    }
}
