//! Checks of the memory tiers, and of the kernel's own tiering.

use tierwise_core::units::Bytes;
use tierwise_linux::monitor::auto::AccessSource;
use tierwise_linux::roots::Roots;
use tierwise_linux::settings::Knob;
use tierwise_linux::topology::{HostTier, LinuxHost, Suitability};
use tierwised::config::Config;
use tierwised::judgement;

use super::Ground;
use super::check::{HostCheck, Stops};

/// The name of the checks of memory tiers.
pub const TIERS: &str = "memory tiers";

/// Returns the checks, and the host if it could be read.
pub fn checks(ground: &Ground, config: &Config) -> (Vec<HostCheck>, Option<LinuxHost>) {
    let roots = &ground.roots;
    let mut checks = Vec::new();
    let host = match LinuxHost::discover(roots, config.tier_override().as_ref()) {
        Ok(host) => {
            checks.extend(tiers(&host));
            Some(host)
        }
        Err(error) => {
            checks.push(HostCheck::failed(TIERS, &error).stopping(Stops::Managing));
            None
        }
    };
    checks.push(demotion(roots, config));
    let several = host.as_ref().is_some_and(LinuxHost::has_several_cpu_nodes);
    checks.push(scanning(roots, config, several).unwrap_or_else(|| balancing(roots, config)));
    (checks, host)
}

fn tiers(host: &LinuxHost) -> Vec<HostCheck> {
    const NAME: &str = TIERS;
    let mut checks = match host.suitability() {
        Suitability::Tiered => {
            let tiers: Vec<String> = host.tiers.iter().map(|t| tier(t, host.page_size)).collect();
            vec![HostCheck::ok(NAME, format!("fastest first: {}", tiers.join("; ")))]
        }
        Suitability::OneNode { node } => {
            let remedy = "Tierwise only observes here; slower memory (CXL, a second socket) shows \
                          as a node of its own";
            vec![HostCheck::missing(NAME, format!("all memory is on node {node}"), remedy)]
        }
        Suitability::OneTier { found, lines } => {
            let remedy = format!(
                "if one of them is slower, write into the configuration, with your nodes:\n{}",
                lines.trim_end()
            );
            vec![HostCheck::missing(NAME, found, remedy)]
        }
    };
    checks.extend(host.doubts().into_iter().map(|doubt| HostCheck::note(NAME, doubt, None)));
    checks.into_iter().map(|check| check.stopping(Stops::Managing)).collect()
}

fn tier(tier: &HostTier, page_size: Bytes) -> String {
    let nodes: Vec<String> = tier.nodes.iter().map(u32::to_string).collect();
    let latency = tier.figures.load_latency;
    format!(
        "{} (node {}, {}, {} ns {})",
        tier.name,
        nodes.join(", "),
        Bytes(tier.capacity.0 * page_size.0),
        latency.value.as_nanos(),
        latency.source.name()
    )
}

fn demotion(roots: &Roots, config: &Config) -> HostCheck {
    const NAME: &str = "demotion_enabled";
    let reported = config.kernel.demotion.map(|on| {
        if on { "; the configuration sets it to 1" } else { "; the configuration sets it to 0" }
    });
    let reported = reported.unwrap_or_default();
    match Knob::DemotionEnabled.read(roots) {
        Ok(value) if value == "1" => {
            let found = format!("on: under pressure the kernel demotes beside Tierwise{reported}");
            HostCheck::ok(NAME, found)
        }
        Ok(_) => HostCheck::note(
            NAME,
            format!("off: under pressure the kernel swaps or drops instead of demoting{reported}"),
            Some(
                "write demotion = true under [kernel] to have tierwised switch it on, and off \
                 again at its end"
                    .into(),
            ),
        ),
        Err(error) => HostCheck::failed(NAME, &error),
    }
}

/// The effect of hint faults as the source of access monitoring on the whole machine. `several`
/// nodes have CPUs.
fn scanning(roots: &Roots, config: &Config, several: bool) -> Option<HostCheck> {
    let source = judgement::source(config, roots).ok()?;
    if judgement::steers(config, roots) || source.source != AccessSource::HintFaults {
        return None;
    }
    let mode: u64 = Knob::NumaBalancing.read(roots).ok()?.parse().ok()?;
    let balances = several && mode & 1 != 0;
    let (set, effect) = if balances {
        (3, "goes on moving pages between nodes with CPUs, and pages of fast nodes fault, too")
    } else {
        (2, "moves no page between nodes with CPUs")
    };
    let found = format!(
        "{mode}: the daemon sets {set} and the promotion limit to 0 while it monitors by hint \
         faults: pages in slow memory of all processes fault when they are accessed, and the \
         kernel promotes only while a fast node has more than 1 GiB and a sixteenth free, and \
         {effect}"
    );
    let remedy =
        "write source = \"damon-vaddr\" under [monitor] to leave the kernel's settings alone";
    Some(HostCheck::note("numa_balancing", found, Some(remedy.into())))
}

fn balancing(roots: &Roots, config: &Config) -> HostCheck {
    const NAME: &str = "numa_balancing";
    let reported = config
        .kernel
        .numa_balancing
        .map_or_else(String::new, |mode| format!("; the configuration sets it to {mode}"));
    if judgement::may_steer(config, roots) {
        let found = "the daemon sets 2 while no tenant has a cap, each holds its floor, and each \
                     P99 is at most half of its SLO: the kernel then scans and promotes pages of \
                     all processes";
        let remedy = "write steer = false under [kernel] to have only tenants' pages moved";
        return HostCheck::note(NAME, found, Some(remedy.into()));
    }
    let remedy = |what: &str| {
        (config.kernel.numa_balancing.is_none()).then(|| {
            format!(
                "{what}; write numa_balancing = 0 under [kernel] to have tierwised take over, and \
                 give it back at its end"
            )
        })
    };
    match Knob::NumaBalancing.read(roots).as_deref() {
        Ok("0") => {
            HostCheck::ok(NAME, format!("0: the kernel promotes nothing by itself{reported}"))
        }
        Ok("1") => HostCheck::note(
            NAME,
            format!("1: the kernel moves pages towards the CPUs that use them{reported}"),
            remedy(
                "between nodes of one tier that is good, and across tiers it works against floors",
            ),
        ),
        Ok(mode) => HostCheck::note(
            NAME,
            format!("{mode}: the kernel promotes by itself{reported}"),
            remedy("it ignores floors and SLOs"),
        ),
        Err(error) => HostCheck::failed(NAME, error),
    }
}
