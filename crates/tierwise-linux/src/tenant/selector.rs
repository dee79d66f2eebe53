//! Tenant selectors: the configured rule that selects a tenant's processes.
//!
//! ```
//! use tierwise_linux::tenant::{Qemu, TenantSelector};
//!
//! let redis: TenantSelector = "cgroup:redis-server.service".parse()?;
//! assert!(matches!(redis, TenantSelector::Cgroup(_)));
//! assert_eq!("pids:12,14".parse::<TenantSelector>()?, TenantSelector::Pids(vec![12, 14]));
//! let db = TenantSelector::Qemu(Qemu::Name("db-1".into()));
//! assert_eq!("qemu:db-1".parse::<TenantSelector>()?, db);
//!
//! let error = "cgruop:redis".parse::<TenantSelector>().unwrap_err();
//! assert!(error.to_string().contains("did you mean \"cgroup\"?"));
//! # Ok::<(), tierwise_linux::error::LinuxError>(())
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tierwise_core::config::nearest;

use crate::cgroup::GroupPattern;
use crate::error::LinuxError;

/// Selector of a tenant's processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TenantSelector {
    /// Processes of control groups: `cgroup:PATTERN`.
    Cgroup(GroupPattern),
    /// Processes of exactly these control groups, by their paths below the cgroup file system:
    /// `groups:PATH,PATH`. For tenants whose groups a container runtime names. Without a path there
    /// is no process.
    Groups(Vec<PathBuf>),
    /// These processes: `pids:12,14`. Their children and later processes with the same pids are not
    /// included.
    Pids(Vec<i32>),
    /// A QEMU guest.
    Qemu(Qemu),
}

/// Key by which a QEMU guest is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Qemu {
    /// Its name (`-name guest=NAME`): `qemu:NAME`.
    Name(String),
    /// The file that `-pidfile` names: `qemu-pidfile:PATH`.
    Pidfile(PathBuf),
    /// The QMP socket that its process listens on: `qemu-qmp:PATH`.
    Qmp(PathBuf),
}

/// Kinds of selectors, before the colon.
const KINDS: [&str; 6] = ["cgroup", "groups", "pids", "qemu", "qemu-pidfile", "qemu-qmp"];

impl TenantSelector {
    /// The selector of exactly these groups.
    ///
    /// # Errors
    /// A path is not one of a group below the cgroup file system, or has a comma, which separates
    /// paths in the selector's text.
    pub fn groups<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, LinuxError> {
        let one = |path: &str| {
            if path.contains(',') {
                return Err(LinuxError::Missing {
                    what: format!("cgroup {path:?}: a comma separates paths"),
                    remedy: "name a group without a comma".into(),
                });
            }
            GroupPattern::exact(path)
        };
        paths.into_iter().map(one).collect::<Result<_, _>>().map(Self::Groups)
    }

    /// True if control groups select the processes.
    pub(super) fn is_of_groups(&self) -> bool {
        matches!(self, Self::Cgroup(_) | Self::Groups(_))
    }
}

impl FromStr for TenantSelector {
    type Err = LinuxError;

    fn from_str(text: &str) -> Result<Self, LinuxError> {
        let refuse = |what: String, remedy: String| LinuxError::Missing {
            what: format!("tenant selector {text:?}: {what}"),
            remedy,
        };
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let path = || {
            if rest.starts_with('/') && !rest.contains('\0') {
                Ok(PathBuf::from(rest))
            } else {
                Err(refuse(format!("found {rest:?}"), "write the whole path, from /".into()))
            }
        };
        match kind {
            "cgroup" => GroupPattern::parse(rest).map(Self::Cgroup),
            "groups" => Self::groups(rest.split(',').filter(|path| !path.is_empty())),
            "pids" => pids(rest).map(Self::Pids).ok_or_else(|| {
                refuse(format!("found {rest:?}"), "write process ids, such as pids:12,14".into())
            }),
            "qemu" if rest.is_empty() => {
                Err(refuse("no name".into(), "write the guest's name: qemu:NAME".into()))
            }
            "qemu" => Ok(Self::Qemu(Qemu::Name(rest.into()))),
            "qemu-pidfile" => path().map(|path| Self::Qemu(Qemu::Pidfile(path))),
            "qemu-qmp" => path().map(|path| Self::Qemu(Qemu::Qmp(path))),
            _ => {
                let near = nearest(kind, KINDS);
                let near = near.map_or(String::new(), |n| format!("; did you mean {n:?}?"));
                let allowed = "cgroup:PATTERN, groups:PATH,PATH, pids:N,N, qemu:NAME, \
                               qemu-pidfile:PATH, qemu-qmp:PATH";
                Err(refuse("unknown kind".into(), format!("allowed: {allowed}{near}")))
            }
        }
    }
}

fn pids(text: &str) -> Option<Vec<i32>> {
    let pid = |word: &str| word.trim().parse().ok().filter(|&pid: &i32| pid > 0);
    let mut pids = text.split(',').map(pid).collect::<Option<Vec<i32>>>()?;
    pids.sort_unstable();
    pids.dedup();
    Some(pids)
}

impl fmt::Display for TenantSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(pattern) => write!(f, "cgroup:{pattern}"),
            Self::Groups(paths) => {
                let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "groups:{}", paths.join(","))
            }
            Self::Pids(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                write!(f, "pids:{}", pids.join(","))
            }
            Self::Qemu(Qemu::Name(name)) => write!(f, "qemu:{name}"),
            Self::Qemu(Qemu::Pidfile(path)) => write!(f, "qemu-pidfile:{}", path.display()),
            Self::Qemu(Qemu::Qmp(path)) => write!(f, "qemu-qmp:{}", path.display()),
        }
    }
}

impl TryFrom<String> for TenantSelector {
    type Error = LinuxError;

    fn try_from(text: String) -> Result<Self, LinuxError> {
        text.parse()
    }
}

impl From<TenantSelector> for String {
    fn from(selector: TenantSelector) -> Self {
        selector.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "cgroup:kubepods.slice/*/x.scope",
            "groups:kubepods.slice/a[1].scope,kubepods.slice/b.scope",
            "groups:",
            "pids:1,7",
            "qemu:db-1",
            "qemu-pidfile:/run/db.pid",
            "qemu-qmp:/run/db.qmp",
        ] {
            let selector: TenantSelector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
            let json = serde_json::to_string(&selector).unwrap();
            assert_eq!(serde_json::from_str::<TenantSelector>(&json).unwrap(), selector);
        }
    }

    #[test]
    fn refusals_name_what_is_allowed() {
        let message = |text: &str| text.parse::<TenantSelector>().unwrap_err().to_string();
        assert!(message("redis").contains("unknown kind; allowed: cgroup:PATTERN, groups:PATH"));
        for bad in ["pids:", "pids:0", "pids:-4", "pids:1,,2", "pids:all", "pids:99999999999"] {
            assert!(message(bad).contains("write process ids"), "{bad}");
        }
        assert!(message("qemu:").contains("no name"));
        assert!(message("qemu-qmp:db.qmp").contains("write the whole path"));
        for whole in ["cgroup:/", "groups:/", "groups:a.slice,/sys/fs/cgroup"] {
            assert!(message(whole).contains("the whole machine is no tenant"), "{whole}");
        }
        assert!(message("groups:a/../b").contains("\"..\""));
        assert!(TenantSelector::groups(["a,b"]).unwrap_err().to_string().contains("a comma"));
    }

    proptest! {
        #[test]
        fn no_selector_makes_it_panic(text in "(cgroup|groups|pids|qemu|qemu-qmp)?:?.{0,12}") {
            let _ = text.parse::<TenantSelector>();
        }
    }
}
