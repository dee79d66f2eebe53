//! The effect of a configuration on a machine: the access monitoring source that runs, whether the
//! policy can run with its signals, and whether the tenants' floors fit. The daemon's start,
//! `tierwise doctor` and `tierwise config check` use the same functions, and so give the same
//! answers in the same words.

use std::time::Duration;

use tierwise_core::engine::{Engine, EngineConfig, EngineError};
use tierwise_core::migrate::Budget;
use tierwise_core::observe::{Capabilities, Signals};
use tierwise_core::recipe::Recipe;
use tierwise_core::registry::BuildContext;
use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bandwidth, Bytes, Pages};
use tierwise_linux::damon::damon_stat;
use tierwise_linux::error::{LinuxError, Result};
use tierwise_linux::kernel_tiering;
use tierwise_linux::migrate::page_cache::{mglru, promotion};
use tierwise_linux::monitor::auto::{AccessSource, SelectedSource, auto_by};
use tierwise_linux::process::syscall::move_pages;
use tierwise_linux::roots::Roots;
use tierwise_linux::topology::LinuxHost;
use tierwise_linux::world::capabilities;

use crate::config::{Config, MonitorSource, TenantConfig};

/// The first words of every message about missing access monitoring.
pub const BLIND: &str = "no access monitoring source is available";

/// The seed of recipes that learn. A live machine does not repeat itself anyway.
const SEED: u64 = 1;

/// An access monitoring source that runs, with the reason: "damon-vaddr, because it finds ...".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsableSource {
    /// The source.
    pub source: AccessSource,
    /// The reason, starting with the source's name.
    pub why: String,
}

/// The source that a configuration selects on a machine.
pub type SourceJudgement = fn(&Config, &Roots) -> std::result::Result<UsableSource, String>;

/// The source that runs with this configuration on this machine. Starts nothing.
///
/// # Errors
/// No source runs; the text has the reason of each.
pub fn source(config: &Config, roots: &Roots) -> std::result::Result<UsableSource, String> {
    source_by(AccessSource::probe, config, roots)
}

/// The same, without what takes a daemon's start too long
/// ([`probe_quickly`](AccessSource::probe_quickly)).
///
/// # Errors
/// No source runs; the text has the reason of each.
pub fn source_at_start(
    config: &Config,
    roots: &Roots,
) -> std::result::Result<UsableSource, String> {
    source_by(AccessSource::probe_quickly, config, roots)
}

fn source_by(
    available: fn(AccessSource, &Roots) -> Result<()>,
    config: &Config,
    roots: &Roots,
) -> std::result::Result<UsableSource, String> {
    let probe = |source: AccessSource| {
        available(source, roots)?;
        damon_is_free(source, config, roots)
    };
    let (source, reason) = match configured(config.monitor.source) {
        Some(source) => (source, "as configured".to_owned()),
        None if needs_hint_faults(config) => {
            let reason = format!("which the policy {:?} needs", config.policy);
            (AccessSource::HintFaults, reason)
        }
        None => return automatic(&probe),
    };
    match probe(source) {
        Ok(()) => Ok(UsableSource { source, why: format!("{}, {reason}", source.name()) }),
        Err(e) => Err(format!("not {}, {reason}, because {e}", source.name())),
    }
}

/// True if access monitoring is by hint faults wherever they are available.
pub fn takes_hint_faults(config: &Config) -> bool {
    match config.monitor.source {
        MonitorSource::Auto => needs_hint_faults(config),
        source => source == MonitorSource::HintFaults,
    }
}

/// True if the configured policy cannot run without hint faults.
fn needs_hint_faults(config: &Config) -> bool {
    let (topology, learning) = (any_machine(), tierwise_learn::learning());
    let ctx = BuildContext { topology: &topology, seed: SEED, learning: Some(&learning) };
    let policy = config.recipe().ok().and_then(|recipe| recipe.build(&ctx).ok());
    policy.is_some_and(|policy| policy.signals().hint_faults)
}

/// The signals of a live world with this configuration, while access monitoring is on.
fn signals(config: &Config) -> Capabilities {
    capabilities(true, takes_hint_faults(config))
}

/// Returns the source that the configuration names; `None` for `auto`.
fn configured(source: MonitorSource) -> Option<AccessSource> {
    Some(match source {
        MonitorSource::Auto => return None,
        MonitorSource::DamonVaddr => AccessSource::DamonVaddr,
        MonitorSource::DamonPaddr => AccessSource::DamonPaddr,
        MonitorSource::HintFaults => AccessSource::HintFaults,
        MonitorSource::IdleBitmap => AccessSource::IdleBitmap,
        MonitorSource::Perf => AccessSource::PerfSamples,
        MonitorSource::SoftDirty => AccessSource::SoftDirty,
    })
}

/// Returns the best source that runs. Samples precede reference bits: they record accesses that
/// really went to memory.
fn automatic(
    probe: &impl Fn(AccessSource) -> Result<()>,
) -> std::result::Result<UsableSource, String> {
    let choice = auto_by(probe);
    let blind = choice.references.why.clone();
    let found = [choice.samples, choice.references];
    let found = found
        .into_iter()
        .find_map(|SelectedSource { source, why }| Some(UsableSource { source: source?, why }));
    found.ok_or_else(|| match probe(AccessSource::SoftDirty) {
        Ok(()) => format!(
            "{blind}; soft-dirty is available and reports writes only: write source \
             = \"soft-dirty\" under [monitor] to take it"
        ),
        Err(_) => blind,
    })
}

/// Checks that nothing holds DAMON when the daemon starts this source. The daemon may release it
/// before that.
fn damon_is_free(source: AccessSource, config: &Config, roots: &Roots) -> Result<()> {
    let of_damon = matches!(
        source,
        AccessSource::DamonVaddr | AccessSource::DamonPaddr | AccessSource::HintFaults
    );
    match damon_stat(roots).filter(|_| of_damon && !config.kernel.release_damon) {
        None => Ok(()),
        Some(switch) => Err(LinuxError::Missing {
            what: format!(
                "the kernel's module damon_stat holds DAMON for itself ({})",
                switch.display()
            ),
            remedy: "write release_damon = true under [kernel]".into(),
        }),
    }
}

/// The recipe whose decisions steering replaces. An operator who names another recipe wants its
/// decisions.
const STEERED: &str = "tierwise";

/// True if the daemon may steer the kernel's tiering with this configuration while no floor and no
/// SLO binds (`crate::run`): no cap needs its own decisions.
pub fn is_unbound(config: &Config) -> bool {
    let kernel = &config.kernel;
    let allowed = kernel.steer
        && kernel.numa_balancing.is_none()
        && kernel.demotion != Some(false)
        && !config.dry_run;
    let bound = |tenant: &TenantConfig| tenant.cap.is_some();
    // Without tenants the daemon does not change the machine.
    let mut tenants = config.tenants.iter().filter(|tenant| !tenant.is_vacant()).peekable();
    let unbound = tenants.peek().is_some() && !tenants.any(bound);
    allowed && config.policy == STEERED && unbound
}

/// True if a tenant has a floor or an SLO, which may bind.
pub fn has_limits(config: &Config) -> bool {
    let limited = |tenant: &TenantConfig| tenant.floor.is_some() || tenant.slo().is_some();
    config.tenants.iter().any(|tenant| !tenant.is_vacant() && limited(tenant))
}

/// True if the daemon may steer the kernel's tiering on this machine.
pub fn may_steer(config: &Config, roots: &Roots) -> bool {
    is_unbound(config) && kernel_tiering::probe(roots).is_ok()
}

/// True if the daemon steers from its start on.
pub fn steers(config: &Config, roots: &Roots) -> bool {
    may_steer(config, roots) && !has_limits(config)
}

/// An engine's refusal of a configuration: a mistake of the user's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EngineRefusal(String);

/// Makes the engine of a configuration.
///
/// # Errors
/// The policy requires signals that are not available, or the floors do not fit.
pub fn engine(
    config: &Config,
    recipe: Recipe,
    topology: Topology,
    available: &Capabilities,
) -> std::result::Result<Engine, EngineRefusal> {
    let engine = EngineConfig {
        budget: Budget { bandwidth: Some(Bandwidth(config.moving.rate.bytes().0)) },
        tenants: config.tenants.iter().map(TenantConfig::spec).collect(),
        learning: Some(tierwise_learn::learning()),
        ..EngineConfig::new(recipe)
    };
    Engine::new(&engine, topology, available, SEED)
        .map_err(|error| EngineRefusal(explained(&error, available)))
}

/// Returns an engine's refusal with the remedy, if the configuration has one.
fn explained(error: &EngineError, available: &Capabilities) -> String {
    let lacks_faults = Signals { hint_faults: true, ..Signals::default() }.missing_from(available);
    match error {
        EngineError::Unobservable { missing, .. } if Some(*missing) == lacks_faults => {
            format!(
                "{error}; write source = \"hint-faults\" under [monitor] and restart to have them"
            )
        }
        _ => error.to_string(),
    }
}

/// Checks that the configuration's policy and floors fit a machine with access monitoring. Returns
/// a confirmation for the user.
///
/// # Errors
/// The policy cannot be read, cannot run live, or the tenants do not fit.
pub fn fits(config: &Config, host: &LinuxHost) -> std::result::Result<String, String> {
    let recipe = config.recipe().map_err(|e| e.to_string())?;
    let name = recipe.name().to_owned();
    let made = engine(config, recipe, host.topology(), &signals(config));
    made.map_err(|e| e.to_string())?;
    Ok(format!("{name} runs on this machine, and the floors fit"))
}

/// Checks that pages can be moved here. Queries the node of a page of this process, and moves
/// nothing. Returns a confirmation for the user.
///
/// # Errors
/// The kernel cannot do it, or does not permit it to this process.
pub fn moves() -> Result<String> {
    let page = 0_u8;
    let mut status = [i32::MIN];
    let missing = |what, remedy: &str| LinuxError::Missing { what, remedy: remedy.to_owned() };
    let asked = move_pages(0, &[std::ptr::from_ref(&page) as usize], None, &mut status, 0);
    asked.map_err(|error| {
        missing(
            error.to_string(),
            "use a kernel built with CONFIG_MIGRATION and CONFIG_NUMA; in a container, let its \
             seccomp filter pass move_pages(2)",
        )
    })?;
    if status[0] < 0 {
        return Err(missing(
            format!("the kernel answers error {} for a page of this process", -status[0]),
            "use a kernel built with CONFIG_MIGRATION and CONFIG_NUMA",
        ));
    }
    Ok(format!("permitted (a page of this process is on node {})", status[0]))
}

/// The configured requests to the kernel for page cache, each with whether the kernel supports it.
pub fn page_cache(config: &Config, roots: &Roots) -> Vec<(&'static str, Result<()>)> {
    let mut asked = Vec::new();
    if config.moving.page_cache {
        let demotes = || match config.kernel.demotion {
            // The daemon switches it on before it needs it.
            Some(true) => Ok(()),
            _ => mglru::probe_demotion(roots),
        };
        asked.push(("page_cache", mglru::probe(roots).and_then(|()| demotes())));
    }
    if config.moving.promote_page_cache {
        let source = AccessSource::DamonPaddr;
        let monitors = source.probe(roots).and_then(|()| damon_is_free(source, config, roots));
        asked.push(("promote_page_cache", monitors.and_then(|()| promotion::probe(roots))));
    }
    asked
}

/// The configured features that the kernel does not support, as lines; the daemon runs without
/// them. `live`: the trees are those of the running kernel, so that its system calls can be tried.
pub fn cannot_move(config: &Config, roots: &Roots, live: bool) -> Vec<String> {
    let moves = live.then(moves).and_then(Result::err);
    let moves = moves.map(|why| format!("move_pages does not work: {why}"));
    let asked = page_cache(config, roots)
        .into_iter()
        .filter_map(|(key, answer)| Some(format!("move.{key} has no effect: {}", answer.err()?)));
    moves.into_iter().chain(asked).collect()
}

/// Checks that the configuration's policy can run on any live machine: the signals of a live world
/// do not depend on the machine.
///
/// # Errors
/// The policy cannot be read, or requires a signal that no live machine has.
pub fn policy_runs(config: &Config) -> std::result::Result<(), String> {
    let recipe = config.recipe().map_err(|e| e.to_string())?;
    let without_tenants = Config { tenants: Vec::new(), ..config.clone() };
    let made = engine(&without_tenants, recipe, any_machine(), &signals(config));
    made.map(drop).map_err(|e| e.to_string())
}

/// Two tiers of an arbitrary machine.
fn any_machine() -> Topology {
    let tier = |name: &str, nanoseconds| Tier {
        name: name.to_owned(),
        // A gibibyte of base pages: recipes do not depend on the size.
        capacity: Pages(1 << 18),
        watermarks: Watermarks::NONE,
        load_latency: Duration::from_nanos(nanoseconds),
        store_latency: Duration::from_nanos(nanoseconds),
        bandwidth: Bandwidth(10_000_000_000),
    };
    Topology { page_size: Bytes(4096), tiers: vec![tier("fast", 100), tier("slow", 200)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("t.toml", text).unwrap()
    }

    #[test]
    fn simulator_only_policy_is_refused_early() {
        assert_eq!(policy_runs(&config("")), Ok(()));
        let message = policy_runs(&config("policy = \"flat-memstrata\"")).unwrap_err();
        assert!(message.contains("memstrata") && message.contains("would run here"), "{message}");
    }

    #[test]
    fn policies_of_hint_faults_choose_them() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        for policy in ["tpp", "autonuma"] {
            let auto = config(&format!("policy = \"{policy}\""));
            assert_eq!(policy_runs(&auto), Ok(()));
            let why = source(&auto, &roots).unwrap_err();
            let begin = format!("not hint-faults, which the policy {policy:?} needs, because ");
            assert!(why.starts_with(&begin), "{why}");
            let text = format!("policy = \"{policy}\"\n[monitor]\nsource = \"damon-vaddr\"");
            let why = policy_runs(&config(&text)).unwrap_err();
            assert!(why.contains("needs hint faults"), "{why}");
            assert!(why.contains("source = \"hint-faults\" under [monitor]"), "{why}");
        }
        let why = source(&config("[monitor]\nsource = \"hint-faults\""), &roots).unwrap_err();
        assert!(why.starts_with("not hint-faults, as configured, because "), "{why}");
    }

    #[test]
    fn only_configured_page_cache_is_judged() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let judged = |text: &str| page_cache(&config(text), &roots);
        assert!(judged("[move]\npage_cache = false").is_empty());
        let judged = judged("[move]\npage_cache = true\npromote_page_cache = true");
        let names: Vec<&str> = judged.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["page_cache", "promote_page_cache"]);
        assert!(judged.iter().all(|(_, answer)| answer.is_err()));
        let lines = cannot_move(&config("[move]\npage_cache = true"), &roots, false);
        assert!(lines[0].starts_with("move.page_cache has no effect: "), "{lines:?}");
    }

    /// A kernel whose DAMON has operations for physical memory only.
    #[test]
    fn start_leaves_symbols_out() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        std::fs::create_dir_all(roots.sys.join("kernel/mm/damon/admin/kdamonds")).unwrap();
        let switch = roots.sys.join("kernel/mm/damon/admin/kdamonds/nr_kdamonds");
        std::fs::write(switch, "0").unwrap();
        std::fs::create_dir_all(&roots.proc).unwrap();
        let symbols = "0 T damon_start\n0 t damon_pa_mkold\n";
        std::fs::write(roots.proc.join("kallsyms"), symbols).unwrap();
        let any = config("[kernel]\nrelease_damon = true");
        assert_eq!(source_at_start(&any, &roots).unwrap().source, AccessSource::DamonVaddr);
        let found = source(&any, &roots).unwrap();
        assert_eq!(found.source, AccessSource::DamonPaddr);
        assert!(found.why.contains("CONFIG_DAMON_VADDR"), "{}", found.why);
    }

    #[test]
    fn missing_source_is_reported_with_reasons() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let why = source(&config(""), &roots).unwrap_err();
        for text in ["not damon-vaddr, because ", "not idle-bitmap, because ", "not damon-paddr"] {
            assert_eq!(why.matches(text).count(), 1, "{text}: {why}");
        }
        assert!(!why.contains("nothing"), "{why}");
        let why = source(&config("[monitor]\nsource = \"idle-bitmap\""), &roots).unwrap_err();
        assert!(why.starts_with("not idle-bitmap, as configured, because "), "{why}");
    }

    #[test]
    fn held_damon_is_no_source_unless_released() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        let put = |name: &str, text: &str| {
            let path = roots.sys.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n");
        assert_eq!(source(&config(""), &roots).unwrap().source, AccessSource::DamonVaddr);
        put("module/damon_stat/parameters/enabled", "Y\n");
        let why = source(&config(""), &roots).unwrap_err();
        assert!(why.contains("damon_stat holds DAMON for itself"), "{why}");
        let released = config("[kernel]\nrelease_damon = true");
        assert_eq!(source(&released, &roots).unwrap().source, AccessSource::DamonVaddr);
    }

    #[test]
    fn excess_floors_are_the_users_mistake() {
        let tenant = "[[tenant]]\nname = \"a\"\npids = [1]\nfloor = \"2GB\"\n";
        let config = config(tenant);
        let recipe = config.recipe().unwrap();
        let made = engine(&config, recipe, any_machine(), &signals(&config));
        let refused = anyhow::Error::from(made.err().unwrap());
        assert!(refused.is::<EngineRefusal>(), "{refused}");
        assert!(refused.to_string().contains("add up to"), "{refused}");
    }

    fn unbound(text: &str) -> bool {
        is_unbound(&Config::parse("t", text).unwrap())
    }

    #[test]
    fn tenants_without_limits_allow_steering() {
        assert!(!unbound(""), "no tenant: nothing to steer for");
        assert!(unbound("[[tenant]]\nname = \"a\"\npids = [1]\nweight = 200\n"));
        let tenant = "[[tenant]]\nname = \"a\"\npids = [1]\n";
        assert!(unbound(&format!("[kernel]\ndemotion = true\n{tenant}")));
    }

    #[test]
    fn limits_and_other_choices_need_the_engine() {
        let tenant = "[[tenant]]\nname = \"a\"\npids = [1]\n";
        assert!(!unbound(&format!("{tenant}cap = \"1GB\"\n")));
        for more in ["floor = \"1GB\"\n", "class = \"latency-critical\"\nslo_ms = 1.0\n"] {
            let text = format!("{tenant}{more}");
            assert!(unbound(&text), "{more} allows it until it binds");
            assert!(has_limits(&Config::parse("t", &text).unwrap()), "{more}");
        }
        assert!(!unbound(&format!("policy = \"memtis\"\n{tenant}")));
        for kernel in ["steer = false", "numa_balancing = 0", "demotion = false"] {
            assert!(!unbound(&format!("[kernel]\n{kernel}\n{tenant}")), "{kernel}");
        }
    }
}
