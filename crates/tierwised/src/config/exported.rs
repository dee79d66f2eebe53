//! Metrics for a monitoring system on another machine.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics for a monitoring system on another machine, and nothing else. Every request needs a
/// token.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsListener {
    /// Address and port, or `off`. Any address of this machine: `0.0.0.0:9471`, `[::]:9471`.
    pub listen: String,
    /// The file with the token that a request brings (`Authorization: Bearer TOKEN`), 16 to 4096
    /// visible characters. It is read for each request, so that a token can be replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "/etc/tierwise/metrics-token")]
    pub token_file: Option<PathBuf>,
}

impl Default for MetricsListener {
    fn default() -> Self {
        Self { listen: "off".into(), token_file: None }
    }
}

impl MetricsListener {
    /// The address and the token's file; none if it is off.
    pub fn open(&self) -> Option<(SocketAddr, &Path)> {
        self.listen.parse().ok().zip(self.token_file.as_deref())
    }

    /// The first mistake in it: the key and the problem.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        if self.token_file.as_deref().is_some_and(|file| !file.is_absolute()) {
            let problem = format!(
                "found {:?}; allowed: the file's whole path (/etc/tierwise/metrics-token)",
                self.token_file.as_deref().unwrap_or(Path::new(""))
            );
            return Some(("token_file", problem));
        }
        if self.listen == "off" {
            return None;
        }
        if self.listen.parse::<SocketAddr>().is_err() {
            let found = &self.listen;
            let problem = format!(
                "found {found:?}; allowed: an address with a port (0.0.0.0:9471, [::]:9471) or off"
            );
            return Some(("listen", problem));
        }
        self.token_file.is_none().then(|| {
            let problem = "missing; name the file with the token that each request must bring \
                           (`head -c 32 /dev/urandom | base64` makes one), or write listen = \
                           \"off\"";
            ("token_file", problem.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn listener_needs_address_and_token() {
        let printed = |text: &str| {
            let text = format!("[http]\nlisten = \"off\"\n[metrics]\n{text}");
            Config::parse("t.toml", &text).unwrap_err().to_string()
        };
        let missing = printed("listen = \"0.0.0.0:9471\"\n");
        assert!(missing.starts_with("t.toml:4: metrics.token_file: missing; name"), "{missing}");
        let found = printed("listen = \"everywhere\"\ntoken_file = \"/t\"\n");
        assert!(found.starts_with("t.toml:4: metrics.listen: found \"everywhere\""), "{found}");
        let relative = printed("token_file = \"token\"\n");
        assert!(
            relative.starts_with("t.toml:4: metrics.token_file: found \"token\""),
            "{relative}"
        );
        let text = "[metrics]\nlisten = \"[::]:9471\"\ntoken_file = \"/t\"\n";
        let config = Config::parse("t.toml", text).unwrap();
        assert_eq!(config.metrics.open().unwrap().0.port(), 9471);
        assert_eq!(Config::default().metrics.open(), None);
    }
}
