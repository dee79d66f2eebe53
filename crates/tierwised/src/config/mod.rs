//! The configuration, `/etc/tierwise/tierwised.toml`.
//!
//! ```
//! use tierwised::config::Config;
//!
//! let text = "policy = \"multi-clock\"\n[[tenant]]\nname = \"shop\"\ncgroup = \"shop.slice\"\n";
//! let config = Config::parse("t.toml", text).unwrap();
//! assert_eq!((config.policy.as_str(), config.tenants[0].name.as_str()), ("multi-clock", "shop"));
//!
//! let error = Config::parse("t.toml", "polcy = \"tpp\"\n").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "t.toml:1: polcy: no such key; did you mean \"policy\"? (allowed: block, control, cpu, \
//!      dry_run, http, kernel, kubernetes, metrics, monitor, move, policy, state, tenant, tier)"
//! );
//! ```

mod difference;
mod exported;
mod kubernetes;
mod limit;
mod loopback;
mod parse;
mod tenant;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FsWord, statfs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tierwise_core::config::ConfigError as RecipeError;
use tierwise_core::recipe::Recipe;
use tierwise_linux::topology::{Override, TierOverride};

pub use difference::difference;
pub use exported::MetricsListener;
pub use kubernetes::{FastMemoryClass, Kubernetes, PodChoice};
pub use limit::{Amount, LimitText};
#[cfg(feature = "server")]
pub(crate) use loopback::loopback;
pub use parse::DaemonConfigError;
pub use tenant::{ClassName, FULL_LOAD, Latency, PodTenant, TenantConfig};

/// The configuration file unless the command line names another.
pub const DEFAULT_FILE: &str = "/etc/tierwise/tierwised.toml";

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The policy: a shipped recipe (`tierwise policies`) or the path of a recipe file.
    pub policy: String,
    /// Decide and report, but move nothing and change nothing in the kernel.
    pub dry_run: bool,
    /// The unit of placement: memory of a process in aligned blocks of this size, a power of two
    /// from 4KiB to 128MiB. The default is the size of a huge page, which move_pages(2) moves
    /// whole.
    pub block: Amount,
    /// Directory of the state file, from which `tierwise restore` restores the kernel's settings.
    pub state: PathBuf,
    /// Access monitoring.
    pub monitor: Monitor,
    /// Limits on moving pages.
    #[serde(rename = "move")]
    pub moving: Moving,
    /// The CPU time that access monitoring and deciding may take.
    pub cpu: Cpu,
    /// The kernel's own tiering, and the settings of it to take over.
    pub kernel: Kernel,
    /// The control socket.
    pub control: Control,
    /// Metrics, API and dashboard.
    pub http: Http,
    /// Metrics for a monitoring system on another machine.
    pub metrics: MetricsListener,
    /// Pods of Kubernetes as tenants.
    pub kubernetes: Kubernetes,
    /// The memory tiers, fastest first. They replace the kernel's own grouping.
    #[serde(rename = "tier", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Tier>")]
    pub tiers: Vec<TierOverride>,
    /// The tenants, in order of precedence: a process belongs to the first that names it.
    #[serde(rename = "tenant", skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "tierwise".into(),
            dry_run: false,
            block: Amount::new("2MiB"),
            state: "/var/lib/tierwise".into(),
            monitor: Monitor::default(),
            moving: Moving::default(),
            cpu: Cpu::default(),
            kernel: Kernel::default(),
            control: Control::default(),
            http: Http::default(),
            metrics: MetricsListener::default(),
            kubernetes: Kubernetes::default(),
            tiers: Vec::new(),
            tenants: Vec::new(),
        }
    }
}

/// One memory tier, as the operator describes it.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "the schema of a type of another crate")]
struct Tier {
    /// Its name in messages and views.
    name: String,
    /// The kernel's numbers of its NUMA nodes.
    nodes: Vec<u32>,
    /// Measured latency of a load on an idle machine, in nanoseconds.
    latency_ns: Option<f64>,
    /// Measured peak bandwidth, in 10^9 bytes per second.
    bandwidth_gbps: Option<f64>,
}

/// Access monitoring.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Monitor {
    /// The access monitoring source; `auto` takes the best available one and reports why.
    pub source: MonitorSource,
    /// DAMON: how often one page of each region is checked, in milliseconds.
    pub sampling_ms: u64,
    /// DAMON: how often the checks are summed up, in milliseconds.
    pub aggregation_ms: u64,
    /// DAMON: max regions per process.
    pub regions: u64,
    /// How often processes and the placement of their pages are surveyed, in milliseconds.
    pub interval_ms: u64,
    /// Keep in the state directory which memory was hot (`heat.json`), so that a restart of the
    /// daemon or of a program need not learn it again. `false` removes the file.
    pub remember: bool,
}

impl Default for Monitor {
    fn default() -> Self {
        // DAMON's own defaults (5 and 100 ms) check each region 200 times a second. Placement
        // changes over seconds, so a quarter of that is enough and costs a quarter.
        Self {
            source: MonitorSource::Auto,
            sampling_ms: 20,
            aggregation_ms: 400,
            regions: 1000,
            interval_ms: 1000,
            remember: true,
        }
    }
}

/// Access monitoring sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MonitorSource {
    /// The best available one.
    Auto,
    /// DAMON on the virtual addresses of each process.
    DamonVaddr,
    /// DAMON on physical memory: one kernel thread for any number of processes, and coarser.
    DamonPaddr,
    /// NUMA hint faults of slow pages, with DAMON on processes for fast ones. The daemon sets
    /// `kernel.numa_balancing` to 2 and the kernel's promotion limit to 0: these settings hold for
    /// all processes. Policies that need hint faults run with this source only.
    HintFaults,
    /// The kernel's idle-page bitmap.
    IdleBitmap,
    /// The CPU's samples of memory accesses (PEBS, IBS).
    Perf,
    /// Soft-dirty bits: writes only.
    SoftDirty,
}

/// Limits on moving pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Moving {
    /// Max bytes moved per second.
    pub rate: Amount,
    /// Limit on the 99th percentile of a single move_pages(2) call, in milliseconds. Batches are
    /// sized to stay below it, and those of a tenant with an SLO below an eighth of that SLO.
    pub call_p99_ms: u64,
    /// Also move pages that several processes share (MPOL_MF_MOVE_ALL).
    pub shared: bool,
    /// Make the kernel demote page cache of a tenant that is a control group and holds more of the
    /// fastest tier than its cap. Page cache may be mapped by no process and therefore cannot be
    /// moved page by page. Needs `kernel.demotion`, MGLRU and debugfs.
    pub page_cache: bool,
    /// Make the kernel demote memory of the fastest tier that no tenant holds and that was idle for
    /// this many seconds, when tenants have memory in slower tiers. The kernel demotes page cache
    /// and anonymous memory, and drops none of it. While the daemon steers, what a scan needs is
    /// demoted as soon as it is idle for about half a second, as the tenants' own idle memory is. 0
    /// asks for none of it, and leaves it to the kernel's own reclaim. Has an effect where the
    /// kernel demotes (`kernel.demotion`), with MGLRU and debugfs.
    pub unmanaged_idle_s: u64,
    /// Make the kernel promote page cache that a tenant that is a control group reads repeatedly
    /// from slower tiers, up to the tenant's share and its `cap`. Needs DAMON on physical memory,
    /// of which it takes one kdamond, and MGLRU switched off: under MGLRU a read leaves no mark
    /// that DAMON could find.
    pub promote_page_cache: bool,
}

impl Default for Moving {
    fn default() -> Self {
        // A tenth of what one channel of slow memory copies; 20 ms as in katalyst's memory
        // migration.
        Self {
            rate: Amount::new("1GB"),
            call_p99_ms: 20,
            shared: false,
            page_cache: false,
            // Memory that is used twice a minute stays.
            unmanaged_idle_s: 30,
            promote_page_cache: false,
        }
    }
}

/// Limits on CPU time, in hundredths of one CPU, DAMON's kernel threads included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cpu {
    /// Above this, averaged over ten seconds, all intervals become longer.
    pub budget_percent: f64,
    /// Above this with the longest intervals, access monitoring stops until the average is below
    /// the budget.
    pub cap_percent: f64,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { budget_percent: 1.0, cap_percent: 3.0 }
    }
}

/// The kernel's own tiering. Changed settings are restored at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kernel {
    /// Let the kernel promote and demote pages, and regulate it, while no tenant has a cap, each
    /// holds its floor, and each P99 is at most half of its SLO: the daemon sets
    /// `kernel.numa_balancing` to 2, switches demotion on, and sets the hot threshold and the scan
    /// period. These settings hold for all processes. Has an effect with the policy `tierwise`, on
    /// Linux 6.1 and later with MGLRU and debugfs.
    pub steer: bool,
    /// `kernel.numa_balancing`: 0 off, 1 between nodes with CPUs, 2 tiering, 3 both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_balancing: Option<u32>,
    /// `/sys/kernel/mm/numa/demotion_enabled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demotion: Option<bool>,
    /// Whether the daemon may switch off DAMON's own statistics (`damon_stat`, from 6.17), which
    /// keep every other user from using DAMON.
    pub release_damon: bool,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { steer: true, numa_balancing: None, demotion: None, release_damon: false }
    }
}

/// The control socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Control {
    /// Its path; its mode is 0600.
    pub socket: PathBuf,
    /// A POSIX message queue, such as `/tierwise`, or `off`. Through it a scheduler announces
    /// virtual machines: `add NAME PID` before one takes part, `remove NAME` before it is shut
    /// down. Its mode is 0600.
    pub queue: String,
    /// A socket for processes of tenants, such as `/run/tierwise-tenants/socket`, or `off`. They
    /// report there which memory they have placed in slower tiers themselves, which the daemon then
    /// does not promote, and read their tenant's share; `tierwise.emt` does. Its mode is 0666, and
    /// the kernel tells which process speaks.
    pub tenants: String,
}

impl Control {
    /// The socket for processes of tenants; none if it is off.
    pub fn tenants_socket(&self) -> Option<&str> {
        (self.tenants != "off").then_some(&self.tenants)
    }

    /// The queue's name; none if it is off.
    pub fn queue(&self) -> Option<&str> {
        (self.queue != "off").then_some(&self.queue)
    }
}

impl Default for Control {
    fn default() -> Self {
        Self {
            socket: "/run/tierwise/control.sock".into(),
            queue: "off".into(),
            tenants: "off".into(),
        }
    }
}

/// Metrics, API and dashboard, all read-only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Address and port, or `off`. Loopback only.
    pub listen: String,
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: "127.0.0.1:9470".into() }
    }
}

/// Max bytes of a configuration or recipe. The example with every key has a thousandth of it.
const MAX_TEXT: u64 = 4 << 20;

/// The type of the file system of pipes without a name: `PIPEFS_MAGIC` of linux/magic.h.
const PIPEFS: FsWord = 0x5049_5045;

/// Reads the text of a file. The limit stops at a device without end. A FIFO is refused: to open it
/// may take for ever, and the daemon does nothing else meanwhile. A pipe that is already open, such
/// as /dev/stdin, may be named.
fn text_of(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.file_type().is_fifo() && statfs(file)?.f_type != PIPEFS {
        let problem = "it is a FIFO, to which no process may write; name a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
    }
    let mut text = String::new();
    File::open(file)?.take(MAX_TEXT).read_to_string(&mut text)?;
    if text.len() as u64 == MAX_TEXT {
        let problem = format!("it is larger than {} MiB, and no configuration", MAX_TEXT >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(text)
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, or a value in it is refused: file, line, key, what was found, what
    /// is allowed.
    pub fn read(file: &Path) -> Result<Self, DaemonConfigError> {
        let name = file.display().to_string();
        let text =
            text_of(file).map_err(|e| DaemonConfigError::whole(&name, unreadable(file, &e)))?;
        Self::parse(&name, &text)
    }

    /// Reads and checks a text. `file` stands in the errors.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn parse(file: &str, text: &str) -> Result<Self, DaemonConfigError> {
        parse::parse(file, text)
    }

    /// Checks a configuration that no file has, by the rules for a file.
    ///
    /// # Errors
    /// As [`Config::read`], without a line.
    pub fn check(&self) -> Result<(), DaemonConfigError> {
        parse::check_alone(self)
    }

    /// The policy: a shipped recipe, or the operator's file.
    ///
    /// # Errors
    /// There is no such recipe, the file cannot be read, or a value in it is refused: file, line,
    /// key, what is allowed.
    pub fn recipe(&self) -> Result<Recipe, RecipeError> {
        let policy = &self.policy;
        if !self.names_a_file() {
            return Recipe::named(policy);
        }
        let text = text_of(Path::new(policy)).map_err(|e| RecipeError {
            file: policy.clone(),
            line: 1,
            key: String::new(),
            problem: unreadable(Path::new(policy), &e),
        })?;
        Recipe::parse(policy, &text)
    }

    /// Returns true if the policy is a file, not the name of a shipped recipe.
    fn names_a_file(&self) -> bool {
        self.policy.contains('/') || self.policy.ends_with(".toml")
    }

    /// The configured tiers, if any.
    pub fn tier_override(&self) -> Option<Override> {
        (!self.tiers.is_empty()).then(|| Override { tiers: self.tiers.clone() })
    }

    /// The JSON Schema of the file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

/// The reason why a file that should be TOML cannot be read, and the remedy.
fn unreadable(file: &Path, error: &io::Error) -> String {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    match error.kind() {
        io::ErrorKind::NotFound => match parent.filter(|parent| !parent.exists()) {
            Some(parent) => {
                format!("cannot be read: {error}; there is no directory {}", parent.display())
            }
            None => format!("cannot be read: {error}; name an existing file"),
        },
        io::ErrorKind::IsADirectory => "it is a directory; name a file in it".into(),
        io::ErrorKind::InvalidData => "it is no TOML file: it is not UTF-8 text".into(),
        _ => format!("cannot be read: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_is_a_name_or_file() {
        let named = |policy: &str| Config { policy: policy.into(), ..Config::default() }.recipe();
        assert_eq!(named("tpp").unwrap().name(), "tpp");
        let message = named("/nowhere/mine.toml").err().unwrap().to_string();
        assert!(message.starts_with("/nowhere/mine.toml:1: cannot be read: "), "{message}");
        assert!(message.ends_with("; there is no directory /nowhere"), "{message}");
        let message = named("/mine-is-absent.toml").err().unwrap().to_string();
        assert!(message.ends_with("; name an existing file"), "{message}");
    }
}
