//! What is worth saying, in words.

use tierwise_core::units::TenantId;
use tierwise_linux::fault::{Fault, Scope};
use tierwise_linux::tenant::State;
use tierwise_linux::topology::Change;
use tierwise_linux::world::{LiveWorld, News};

use crate::config::Config;

/// Sentences for a piece of news; none for what is not worth one.
pub(super) fn words(news: &News, world: &LiveWorld, config: &Config) -> Vec<String> {
    match news {
        News::Tenants(changes) => tenants(changes, world),
        News::Machine(change) => vec![machine(*change, world)],
        News::Fault(fault) => vec![self::fault(fault, |tenant| world.follower().name(tenant))],
        News::Readable => vec!["the machine can be read again".into()],
        News::Blind(problem) => vec![format!("looks no more: {problem}")],
        News::Stretched(times) => {
            let budget = config.cpu.budget_percent;
            vec![format!(
                "looks {times:.1} times less often than configured, to stay within {budget} % of a processor"
            )]
        }
        News::Suspended(true) => {
            let cap = config.cpu.cap_percent;
            vec![format!(
                "used more than {cap} % of a processor: does not look until it is below the budget"
            )]
        }
        News::Suspended(false) => vec!["looks again".into()],
        News::Refused(problem) => vec![format!("the kernel refused to move pages: {problem}")],
    }
}

/// Tenants that are not there yet.
pub(super) fn waiting(world: &LiveWorld) -> Vec<String> {
    let follower = world.follower();
    let tenants = (0..follower.len()).map(|i| TenantId(i as u16));
    tenants
        .filter(|tenant| follower.state(*tenant) == State::Waiting)
        .map(|tenant| format!("tenant {:?} is not there yet: waits for it", follower.name(tenant)))
        .collect()
}

fn tenants(changes: &tierwise_linux::tenant::Changes, world: &LiveWorld) -> Vec<String> {
    let name = |tenant: &TenantId| world.follower().name(*tenant).to_owned();
    let started = changes.started.iter().map(|t| format!("tenant {:?} has begun", name(t)));
    let ended = changes.ended.iter().map(|t| format!("tenant {:?} has ended", name(t)));
    let doubles = changes.doubles.iter().map(|double| {
        format!(
            "process {} is named by tenants {:?} and {:?}: it belongs to the first",
            double.process.pid,
            name(&double.kept),
            name(&double.also)
        )
    });
    started.chain(ended).chain(doubles).collect()
}

fn fault<'a>(fault: &'a Fault, name: impl Fn(TenantId) -> &'a str) -> String {
    let problem = &fault.problem;
    match (&fault.scope, fault.tenant) {
        (Scope::Machine, _) => format!(
            "the machine cannot be read: {problem}; nothing is moved until it can be, which is tried with each survey"
        ),
        (_, Some(tenant)) => format!("tenant {:?}: {problem}", name(tenant)),
        (_, None) => problem.clone(),
    }
}

fn machine(change: Change, world: &LiveWorld) -> String {
    let tier = |tier: tierwise_core::units::TierId| {
        world.host().tiers.get(tier.index()).map_or_else(String::new, |t| t.name.clone())
    };
    match change {
        Change::Left { node, tier: of } => {
            format!("node {node} left tier {}: nothing is moved there any more", tier(of))
        }
        Change::Joined { node, tier: of } => format!("node {node} came into tier {}", tier(of)),
        Change::Outside { node } => {
            format!(
                "node {node} has memory and is in no tier that was there at start: restart to use it"
            )
        }
        Change::Resized { tier: of, .. } => {
            let now = world.host().tiers.get(of.index()).map_or(0, |t| t.capacity.0);
            format!("tier {} has {now} base pages now", tier(of))
        }
    }
}
