//! Checks of the kernel, and of this process's privileges.

use tierwise_linux::file;
use tierwised::system::privilege::KEPT;

use super::Ground;
use super::check::{HostCheck, Stops};

/// The oldest kernel that the lab tests. Older ones may work; DAMON's regions are readable since
/// 6.2.
const TESTED: (u32, u32) = (6, 12);

pub fn checks(ground: &Ground) -> Vec<HostCheck> {
    vec![kernel(ground), privileges(ground)]
}

fn kernel(ground: &Ground) -> HostCheck {
    const NAME: &str = "kernel";
    let release = match file::text(&ground.roots.proc.join("sys/kernel/osrelease")) {
        Ok(text) => text.trim().to_owned(),
        Err(error) => return HostCheck::note(NAME, error.to_string(), None),
    };
    let found = format!("Linux {release}");
    match version(&release) {
        Some(version) if version < TESTED => {
            let (major, minor) = TESTED;
            let remedy = format!(
                "Tierwise is tested on {major}.{minor} and later; the checks below show what this \
                 one lacks"
            );
            HostCheck::note(NAME, found, Some(remedy))
        }
        _ => HostCheck::ok(NAME, found),
    }
}

/// Parses the major and minor number of "6.12.9-cloud-amd64".
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn privileges(ground: &Ground) -> HostCheck {
    const NAME: &str = "privileges";
    const REMEDY: &str =
        "start tierwised as root, as its systemd unit does, and run as root: sudo tierwise doctor";
    let path = ground.roots.proc.join("self/status");
    let status = match file::text(&path) {
        Ok(text) => text,
        Err(error) => {
            return HostCheck::missing(NAME, error.to_string(), REMEDY).stopping(Stops::Managing);
        }
    };
    let Some(effective) = effective(&status) else {
        let found = format!("{}: no line CapEff with a hexadecimal number", path.display());
        return HostCheck::missing(NAME, found, REMEDY).stopping(Stops::Managing);
    };
    let missing = KEPT.iter().filter(|(capability, _)| effective & capability.bitmask() == 0);
    let missing: Vec<String> = missing.map(|(name, what)| format!("{name} (for {what})")).collect();
    if missing.is_empty() {
        let has = KEPT.map(|(capability, _)| capability.to_string()).join(", ");
        return HostCheck::ok(NAME, format!("this process has {has}"));
    }
    HostCheck::missing(NAME, format!("this process is without {}", missing.join(" and ")), REMEDY)
        .stopping(Stops::Managing)
}

/// Parses the effective capabilities in `/proc/self/status`.
fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_as_distributions_write_them() {
        assert_eq!(version("6.12.9-cloud-amd64"), Some((6, 12)));
        assert_eq!(version("7.3+deb14-amd64"), Some((7, 3)));
        assert_eq!(version("6.1-rc3"), Some((6, 1)));
        assert_eq!(version("next"), None);
    }

    #[test]
    fn capabilities_are_read_as_bits() {
        assert_eq!(effective("Name:\tx\nCapEff:\t0000000000880000\n"), Some(1 << 23 | 1 << 19));
        assert_eq!(effective("CapEff:\tall\n"), None);
        assert_eq!(effective(""), None);
    }
}
