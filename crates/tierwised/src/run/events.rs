//! The world's events as lines for the log and the view.

use tierwise_core::units::TenantId;
use tierwise_linux::fault::{FaultScope, HostFault};
use tierwise_linux::tenant::TenantState;
use tierwise_linux::topology::TierChange;
use tierwise_linux::world::{LiveWorld, WorldEvent};

use crate::config::Config;

/// The lines of an event.
pub(super) fn words(event: &WorldEvent, world: &LiveWorld, config: &Config) -> Vec<String> {
    match event {
        WorldEvent::Tenants(changes) => tenants(changes, world),
        WorldEvent::Machine(change) => vec![machine(*change, world)],
        WorldEvent::Fault(fault) => vec![self::fault(fault, |tenant| world.tracker().name(tenant))],
        WorldEvent::Readable => vec!["the machine can be read again".into()],
        WorldEvent::MonitoringLost(problem) => {
            vec![format!("access monitoring stopped: {problem}")]
        }
        WorldEvent::Throttled(times) => {
            let budget = config.cpu.budget_percent;
            vec![format!(
                "monitoring intervals are {times:.1} times as long as configured, to stay within \
                 {budget} % of a CPU"
            )]
        }
        WorldEvent::Suspended(true) => {
            let cap = config.cpu.cap_percent;
            vec![format!(
                "used more than {cap} % of a CPU: access monitoring is suspended until use is \
                 below the budget"
            )]
        }
        WorldEvent::Suspended(false) => vec!["access monitoring has resumed".into()],
        WorldEvent::Refused(problem) => {
            vec![format!("the kernel refused to move pages: {problem}")]
        }
    }
}

/// The lines about tenants that have no process yet.
pub(super) fn waiting(world: &LiveWorld) -> Vec<String> {
    let tracker = world.tracker();
    let tenants = (0..tracker.len()).map(|i| TenantId(i as u16));
    tenants
        .filter(|tenant| tracker.state(*tenant) == TenantState::Waiting)
        .map(|tenant| format!("tenant {:?} is not there yet: waits for it", tracker.name(tenant)))
        .collect()
}

fn tenants(changes: &tierwise_linux::tenant::TenantChanges, world: &LiveWorld) -> Vec<String> {
    let name = |tenant: &TenantId| world.tracker().name(*tenant).to_owned();
    let started = changes.started.iter().map(|t| format!("tenant {:?} has started", name(t)));
    let ended = changes.ended.iter().map(|t| format!("tenant {:?} has ended", name(t)));
    let conflicts = changes.conflicts.iter().map(|conflict| {
        format!(
            "process {} belongs to tenants {:?} and {:?}; the first keeps it",
            conflict.process.pid,
            name(&conflict.kept),
            name(&conflict.also)
        )
    });
    started.chain(ended).chain(conflicts).collect()
}

fn fault<'a>(fault: &'a HostFault, name: impl Fn(TenantId) -> &'a str) -> String {
    let problem = &fault.problem;
    match (&fault.scope, fault.tenant) {
        (FaultScope::Machine, _) => format!(
            "the machine cannot be read: {problem}; nothing is moved until a survey can read it \
             again"
        ),
        (_, Some(tenant)) => format!("tenant {:?}: {problem}", name(tenant)),
        (_, None) => problem.clone(),
    }
}

fn machine(change: TierChange, world: &LiveWorld) -> String {
    let tier = |tier: tierwise_core::units::TierId| {
        world.host().tiers.get(tier.index()).map_or_else(String::new, |t| t.name.clone())
    };
    match change {
        TierChange::Left { node, tier: of } => {
            format!("node {node} left tier {}: nothing is moved there any longer", tier(of))
        }
        TierChange::Joined { node, tier: of } => format!("node {node} joined tier {}", tier(of)),
        TierChange::Outside { node } => {
            format!(
                "node {node} has memory and belongs to no tier known at start: restart to use it"
            )
        }
        TierChange::Resized { tier: of, .. } => {
            let now = world.host().tiers.get(of.index()).map_or(0, |t| t.capacity.0);
            format!("tier {} has {now} base pages now", tier(of))
        }
    }
}
