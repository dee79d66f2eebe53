//! The connection that commands to a running `tierwised` share.

pub mod rates;
#[cfg(test)]
pub mod sample;
pub mod words;

use std::io::ErrorKind;
use std::path::PathBuf;

use clap::Args;
use tierwised::config::Control;
use tierwised::control::{ClientError, ControlCommand, Reply, call};
use tierwised::view::Snapshot;

use crate::failure::Failure;

// Without a doc comment: clap would print it in the help of every command that has this argument.
#[derive(Debug, Clone, Args)]
pub struct Socket {
    /// The daemon's control socket: `control.socket` of its configuration.
    #[arg(
        id = "socket",
        long = "socket",
        value_name = "PATH",
        default_value_os_t = Control::default().socket
    )]
    path: PathBuf,
}

impl Socket {
    /// Sends a command and waits for the answer.
    pub fn call(&self, command: &ControlCommand) -> Result<Reply, Failure> {
        Ok(call(&self.path, command)?)
    }

    /// Returns the daemon's current view.
    pub fn snapshot(&self) -> Result<Snapshot, Failure> {
        let reply = self.call(&ControlCommand::Snapshot)?;
        reply.snapshot.map(|snapshot| *snapshot).ok_or_else(|| {
            let path = self.path.display();
            Failure::Internal(format!(
                "{path}: the answer has no snapshot; this command and the daemon are of different \
                 versions: restart the daemon"
            ))
        })
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Refused(_) => Self::user(&error),
            ClientError::NotListening { path, source }
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                Self::User(format!(
                    "{}: only root and the daemon's own user may use it; use sudo",
                    path.display()
                ))
            }
            ClientError::NotListening { .. } | ClientError::Broken { .. } => {
                Self::Internal(error.to_string())
            }
        }
    }
}
