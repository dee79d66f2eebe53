//! The label of a node of Kubernetes, as node-feature-discovery reads it: a file of lines
//! `NAME=VALUE` in /etc/kubernetes/node-feature-discovery/features.d. Its worker reads the file
//! once a minute, and its master, which alone has a token, sets the label. So nothing of Tierwise
//! talks to the API server.

use std::fs::Permissions;
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use tempfile::NamedTempFile;

use super::check::{CheckResult, HostCheck};
use super::{DoctorReport, memory};
use crate::failure::{CommandResult, Failure};

/// The label that the chart's DaemonSet selects.
const LABEL: &str = "tierwise.io/tiers";

/// Memory comes online within minutes of a boot, and hardly ever later.
pub const EVERY: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Writes the label of this machine into a file, or prints it; with an interval again and again.
pub fn write(
    examine: impl Fn() -> DoctorReport,
    file: &Path,
    every: Option<Duration>,
) -> CommandResult {
    loop {
        // A node that misses one check has its label until the next.
        let until = every.map(|interval| SystemTime::now() + interval * 3);
        let text = text(&examine(), until);
        if file == Path::new("-") {
            let mut out = anstream::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        } else {
            replace(file, &text)?;
        }
        match every {
            Some(interval) => thread::sleep(interval),
            None => return Ok(()),
        }
    }
}

/// The file's text: the label, after what is missing as a comment. Only the memory tiers count: the
/// other checks depend on the rights of the process that makes them, and the daemon has its own.
/// After `until` node-feature-discovery takes the label away.
fn text(report: &DoctorReport, until: Option<SystemTime>) -> String {
    let lacks =
        |check: &&HostCheck| check.name == memory::TIERS && check.status == CheckResult::Missing;
    let found = report.checks.iter().filter(lacks).map(|check| check.found.as_str());
    let comments: String =
        found.flat_map(str::lines).map(|line| format!("# {}\n", line.trim())).collect();
    let tiers = comments.is_empty();
    let expires = until.map_or_else(String::new, |at| {
        format!("# +expiry-time={}\n", humantime::format_rfc3339_seconds(at))
    });
    format!("{comments}{expires}{LABEL}={tiers}\n")
}

/// Writes beside and renames: the worker reads the file at any time. It skips names with a dot at
/// the start.
fn replace(file: &Path, text: &str) -> CommandResult {
    let refuse = |error: std::io::Error| {
        let shown = file.display();
        let remedy = "its directory is node-feature-discovery's, usually \
                      /etc/kubernetes/node-feature-discovery/features.d";
        Failure::User(format!("{shown}: cannot be written: {error}; {remedy}"))
    };
    let directory = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut beside = NamedTempFile::with_prefix_in(".", directory).map_err(refuse)?;
    beside.write_all(text.as_bytes()).map_err(refuse)?;
    // The worker is another user.
    beside.as_file().set_permissions(Permissions::from_mode(0o644)).map_err(refuse)?;
    beside.persist(file).map_err(|error| refuse(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::Can;
    use super::*;

    fn report(check: HostCheck) -> DoctorReport {
        let other = HostCheck::missing("moving", "no rights", "run as root");
        DoctorReport { can: Can::Observe, checks: vec![check, other] }
    }

    fn tiered() -> DoctorReport {
        report(HostCheck::ok(memory::TIERS, "fastest first: dram; cxl"))
    }

    #[test]
    fn label_tells_whether_node_has_tiers() {
        assert_eq!(text(&tiered(), None), "tierwise.io/tiers=true\n");
        let lacks = HostCheck::missing(memory::TIERS, "all memory is on node 0", "none");
        let without = text(&report(lacks), None);
        assert_eq!(without, "# all memory is on node 0\ntierwise.io/tiers=false\n");
        let until = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(86_400));
        let expiring = text(&tiered(), until);
        assert_eq!(expiring, "# +expiry-time=1970-01-02T00:00:00Z\ntierwise.io/tiers=true\n");
    }

    #[test]
    fn file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tierwise");
        fs::write(&file, "old").unwrap();
        write(tiered, &file, None).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "tierwise.io/tiers=true\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let missing = write(tiered, &directory.path().join("no/tierwise"), None);
        assert!(matches!(missing, Err(Failure::User(m)) if m.contains("features.d")));
    }
}
