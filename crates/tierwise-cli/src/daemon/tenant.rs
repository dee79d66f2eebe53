//! `tierwise daemon tenant`: tenants while the daemon runs.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tierwise_core::tenant::{DEFAULT_WEIGHT, MAX_WEIGHT};
use tierwised::config::{ClassName, FULL_LOAD, LimitText, TenantConfig};
use tierwised::control::{ControlCommand, TenantChange};

use super::Plain;
use super::report::milliseconds;
use crate::failure::CommandResult;
use crate::value::{PIDS, number, time, whole};

/// Add, change or remove a tenant.
#[derive(Debug, Args)]
#[command(
    after_help = "EXAMPLE\n  tierwise daemon tenant add shop --cgroup shop.slice --floor 80GB\n  \
                        tierwise daemon tenant set shop --floor 60GB\n  \
                        tierwise daemon tenant remove shop"
)]
pub struct Tenant {
    #[command(subcommand)]
    command: Change,
}

#[derive(Debug, Subcommand)]
enum Change {
    Add(Add),
    Set(Set),
    /// Remove a tenant: its processes are no longer managed, and their pages stay where they are.
    #[command(after_help = "EXAMPLE\n  tierwise daemon tenant remove shop")]
    Remove {
        /// Name of the tenant.
        name: String,
        #[command(flatten)]
        plain: Plain,
    },
}

/// Add a tenant.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("processes").required(true).args(["cgroup", "pids", "qemu"]),
    after_help = "EXAMPLE\n  \
                  tierwise daemon tenant add shop --cgroup shop.slice --class latency-critical \
                  --slo 5ms\n  \
                  tierwise daemon tenant add batch --pids 1201,1202 --cap 50%"
)]
struct Add {
    /// Its name, for display and for other commands.
    name: String,
    /// A cgroup: its path below the cgroup file system, a unit's name, or a pattern. It need not
    /// exist yet.
    #[arg(long, value_name = "CGROUP")]
    cgroup: Option<String>,
    /// Processes by their ids.
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', value_parser = whole(PIDS))]
    pids: Vec<i32>,
    /// A QEMU guest by its name, the path of its pid file, or qmp: and the path of its QMP socket.
    #[arg(long, value_name = "GUEST")]
    qemu: Option<String>,
    /// The measure of its success.
    #[arg(long, value_enum, default_value_t = Class::BestEffort)]
    class: Class,
    #[command(flatten)]
    entitled: Entitled,
    #[command(flatten)]
    plain: Plain,
}

/// Change a tenant's weight, floor, cap, SLO or full load; values that are not given stay.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("change")
        .required(true)
        .multiple(true)
        .args(["weight", "floor", "cap", "slo", "full_load"]),
    after_help = "EXAMPLE\n  tierwise daemon tenant set shop --floor 60GB --weight 200"
)]
struct Set {
    /// Name of the tenant.
    name: String,
    #[command(flatten)]
    entitled: Entitled,
    #[command(flatten)]
    plain: Plain,
}

// The memory to which a tenant is entitled. No doc comment: see `live::Socket`.
#[derive(Debug, Args)]
struct Entitled {
    /// Its weight among the tenants; 100 without one.
    #[arg(long, value_name = "NUMBER", value_parser = whole(1..=MAX_WEIGHT))]
    weight: Option<u32>,
    /// Memory of the fastest tier that other tenants' demand does not take away: 80GB, 25% of its
    /// resident memory, or auto.
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    floor: Option<LimitText>,
    /// Max memory that it may hold in the fastest tier: 80GB, or 25% of its resident memory.
    #[arg(long, value_name = "LIMIT", value_parser = limit)]
    cap: Option<LimitText>,
    /// The 99th percentile of latency that it must not exceed, such as 5ms.
    #[arg(long, value_name = "TIME", value_parser = time(SLO))]
    slo: Option<Duration>,
    /// A service's accesses per second under its highest load: the rate of the metric
    /// `tierwise_tenant_accesses_total` over its tiers.
    #[arg(long, value_name = "NUMBER", value_parser = number(FULL_LOAD))]
    full_load: Option<f64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Class {
    /// By its throughput.
    BestEffort,
    /// By the latency of its requests; needs --slo.
    LatencyCritical,
}

/// The SLOs that the daemon allows in its configuration.
const SLO: RangeInclusive<Duration> = Duration::from_micros(50)..=Duration::from_secs(3600);

fn limit(text: &str) -> Result<LimitText, String> {
    LimitText::try_from(text.to_owned())
}

impl Tenant {
    pub fn execute(&self) -> CommandResult {
        match &self.command {
            Change::Add(add) => add.plain.send(&ControlCommand::TenantAdd { tenant: add.tenant() }),
            Change::Set(set) => {
                let (name, change) = (set.name.clone(), set.entitled.change());
                set.plain.send(&ControlCommand::TenantSet { name, change })
            }
            Change::Remove { name, plain } => {
                plain.send(&ControlCommand::TenantRemove { name: name.clone() })
            }
        }
    }
}

impl Add {
    fn tenant(&self) -> TenantConfig {
        let change = self.entitled.change();
        TenantConfig {
            cgroup: self.cgroup.clone(),
            qemu: self.qemu.clone(),
            class: match self.class {
                Class::BestEffort => ClassName::BestEffort,
                Class::LatencyCritical => ClassName::LatencyCritical,
            },
            slo_ms: change.slo_ms,
            full_load: change.full_load,
            weight: change.weight.unwrap_or(DEFAULT_WEIGHT),
            floor: change.floor,
            cap: change.cap,
            ..TenantConfig::of_processes(&self.name, self.pids.clone())
        }
    }
}

impl Entitled {
    fn change(&self) -> TenantChange {
        TenantChange {
            weight: self.weight,
            floor: self.floor.clone(),
            cap: self.cap.clone(),
            slo_ms: self.slo.map(milliseconds),
            full_load: self.full_load,
        }
    }
}
