//! Checks of tenants: control groups, pressure, and the groups that the configuration names.

use std::path::{Path, PathBuf};

use tierwise_linux::cgroup::{self, Buffers, GroupPattern};
use tierwise_linux::file;
use tierwise_linux::roots::Roots;
use tierwised::config::{Config, TenantConfig};

use super::Ground;
use super::check::{HostCheck, Stops};

/// Depth to which groups with the memory controller are searched for: slices and their children.
const DEPTH: usize = 2;

pub fn checks(ground: &Ground, config: &Config) -> Vec<HostCheck> {
    let roots = &ground.roots;
    let mut checks = vec![controller(roots, config), pressure(roots), reclaim(roots)];
    checks.extend(config.tenants.iter().filter_map(|tenant| absent(roots, tenant)));
    checks
}

fn controller(roots: &Roots, config: &Config) -> HostCheck {
    const NAME: &str = "cgroup v2 memory";
    // Without it only tenants that name a group cannot be managed.
    let needed = config.tenants.iter().any(|tenant| tenant.cgroup.is_some());
    let stops = if needed { Stops::Managing } else { Stops::Nothing };
    match cgroup::check(roots) {
        Ok(_) => HostCheck::ok(NAME, "tenants can be control groups"),
        Err(error) => HostCheck::failed(NAME, &error).stopping(stops),
    }
}

fn pressure(roots: &Roots) -> HostCheck {
    const NAME: &str = "PSI";
    let path = roots.proc.join("pressure/memory");
    match file::text(&path) {
        Ok(_) => HostCheck::ok(NAME, "time that tasks wait for memory is measured"),
        Err(_) => HostCheck::missing(
            NAME,
            format!("{} cannot be read", path.display()),
            "boot with psi=1, on a kernel built with CONFIG_PSI; without it pressure is not shown",
        ),
    }
}

fn reclaim(roots: &Roots) -> HostCheck {
    const NAME: &str = "memory.reclaim";
    match first_with(&roots.cgroup, "memory.reclaim", DEPTH) {
        Some(_) => {
            HostCheck::ok(NAME, "the kernel demotes a control group's coldest pages on request")
        }
        None => HostCheck::missing(
            NAME,
            "no control group has it",
            "use Linux 5.19 or later with the memory controller on cgroup v2; move_pages does \
             without",
        ),
    }
}

/// Returns the first file of a name below a directory.
fn first_with(directory: &Path, name: &str, depth: usize) -> Option<PathBuf> {
    let here = directory.join(name);
    if here.exists() {
        return Some(here);
    }
    let below = depth.checked_sub(1)?;
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.into_iter().find_map(|entry| first_with(&entry.path(), name, below))
}

/// Reports a tenant of the configuration without processes now.
fn absent(roots: &Roots, tenant: &TenantConfig) -> Option<HostCheck> {
    const NAME: &str = "tenant";
    let name = &tenant.name;
    if let Some(written) = &tenant.cgroup {
        let mut groups = Vec::new();
        let found = GroupPattern::parse(written)
            .and_then(|pattern| pattern.groups(roots, &mut Buffers::default(), &mut groups));
        if let Err(error) = found {
            return Some(HostCheck::failed(NAME, &error).stopping(Stops::Everything));
        }
        let found = format!("{name}: no cgroup matches {written:?} now");
        return groups
            .is_empty()
            .then(|| HostCheck::note(NAME, found, Some("tierwised waits for it".into())));
    }
    let gone: Vec<String> = tenant
        .pids
        .iter()
        .filter(|pid| !roots.proc.join(pid.to_string()).exists())
        .map(i32::to_string)
        .collect();
    let found = format!("{name}: no process has the number {}", gone.join(", "));
    (!gone.is_empty()).then(|| {
        HostCheck::note(NAME, found, Some("name a cgroup: it outlives its processes".into()))
    })
}
