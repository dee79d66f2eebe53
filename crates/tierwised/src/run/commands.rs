//! The change that each command makes.

use std::time::{Duration, Instant};

use tierwise_core::config::nearest;
use tierwise_core::units::TenantId;

use super::{Daemon, setup};
use crate::config::{Config, TenantConfig, difference};
use crate::control::{ControlCommand, Reply, TenantChange};
use crate::view::DaemonMode;

/// A p99 beyond an hour is a mistake of units.
const MAX_LATENCY_MS: f64 = 3_600_000.0;

impl Daemon {
    /// Executes a command. A refused one changes nothing.
    pub(super) fn answer(&mut self, command: ControlCommand) -> Reply {
        let done = match command {
            ControlCommand::Snapshot => {
                let snapshot = Some(Box::new(self.snapshot()));
                return Reply { snapshot, ..Reply::done() };
            }
            ControlCommand::Pause => Ok(self.pause(true)),
            ControlCommand::Resume => Ok(self.pause(false)),
            ControlCommand::Policy { recipe } => self.swap_policy(recipe),
            ControlCommand::Reload => self.reload(),
            ControlCommand::TenantAdd { tenant } => self.add(tenant),
            ControlCommand::TenantRemove { name } => self.remove(&name),
            ControlCommand::TenantSet { name, change } => self.set(&name, &change),
            ControlCommand::Claims { floors } => return self.claims(floors),
            ControlCommand::Latency { tenant, p99_ms, operations } => {
                return self.report_latency(&tenant, p99_ms, operations);
            }
        };
        match done {
            Ok(changed) => {
                let at = self.uptime();
                changed.iter().for_each(|line| self.history.notice(at, line.clone()));
                self.publish();
                Reply::changed(changed)
            }
            Err(e) => Reply::refused(format!("{e:#}")),
        }
    }

    fn pause(&mut self, paused: bool) -> Vec<String> {
        if self.activity.paused == paused {
            return Vec::new();
        }
        self.activity.paused = paused;
        vec![if paused { "paused: nothing is moved" } else { "resumed" }.into()]
    }

    fn swap_policy(&mut self, policy: String) -> anyhow::Result<Vec<String>> {
        let config = Config { policy, ..self.options.config.clone() };
        config.recipe()?;
        self.adopt(config)
    }

    fn reload(&mut self) -> anyhow::Result<Vec<String>> {
        let Some(file) = &self.options.file else {
            anyhow::bail!(
                "the daemon was started without a configuration file, so there is none to read \
                 again; restart it with --config"
            );
        };
        let mut config = Config::read(file)?;
        // A file names no pod.
        let pods = self.options.config.tenants.iter().filter(|tenant| tenant.pod.is_some());
        let configured = |pod: &&TenantConfig| {
            !pod.is_vacant() && config.tenants.iter().all(|tenant| tenant.name != pod.name)
        };
        let pods: Vec<TenantConfig> = pods.filter(configured).cloned().collect();
        config.tenants.extend(pods);
        let lines = self.adopt(config)?;
        // Other classes may hold now.
        self.pods.forget();
        Ok(lines)
    }

    /// Adopts a configuration. Checks all of it before the first change.
    pub(super) fn adopt(&mut self, config: Config) -> anyhow::Result<Vec<String>> {
        let old = &self.options.config;
        let mut lines = difference(old, &config);
        for (fixed, key) in [
            (old.tiers != config.tiers, "tier"),
            (old.block != config.block, "block"),
            (old.monitor != config.monitor, "monitor"),
            (old.moving.shared != config.moving.shared, "move.shared"),
            (old.moving.call_p99_ms != config.moving.call_p99_ms, "move.call_p99_ms"),
            (old.cpu != config.cpu, "cpu"),
            (old.kernel != config.kernel, "kernel"),
            (old.control != config.control, "control"),
            (old.http != config.http, "http"),
            (old.metrics != config.metrics, "metrics"),
            (old.kubernetes.nri != config.kubernetes.nri, "kubernetes.nri"),
            (old.kubernetes.claims != config.kubernetes.claims, "kubernetes.claims"),
            (old.state != config.state, "state"),
        ] {
            if fixed {
                lines.push(format!("{key}: holds after a restart"));
            }
        }
        let selectors = setup::selectors(&config)?;
        let engine = setup::engine(&config, &self.world, self.activity.mode)?;
        let same_tenants = setup::selectors(old)? == selectors && old.policy == config.policy;
        if same_tenants && old.moving == config.moving {
            self.engine.set_tenants(config.tenants.iter().map(TenantConfig::spec).collect())?;
            setup::set_services(&config, &mut self.world);
        } else {
            // The numbers of tenants or the policy differ: the new engine learns every page again.
            self.engine = engine;
            self.history.forget_shares();
            self.world.set_tenants(selectors, true);
            setup::set_services(&config, &mut self.world);
            self.driver.start(&self.engine, &mut self.world)?;
        }
        if !matches!(self.activity.mode, DaemonMode::Observe | DaemonMode::Steer) {
            let dry = self.options.dry_run || config.dry_run;
            self.activity.mode = if dry { DaemonMode::DryRun } else { DaemonMode::Manage };
            self.world.set_dry_run(dry);
        }
        self.options.config = config;
        self.page_cache.refusal.end();
        self.unmanaged.refusal.end();
        self.steering.refusal.end();
        let tenants = &self.options.config.tenants;
        let stays = |name: &str| tenants.iter().any(|t| !t.is_vacant() && t.name == name);
        self.steering.slack.keep(stays);
        self.endpoints.follow(&self.options.config);
        Ok(lines)
    }

    fn add(&mut self, tenant: TenantConfig) -> anyhow::Result<Vec<String>> {
        let mut config = self.options.config.clone();
        config.tenants.push(tenant);
        self.adopt(Self::checked(config)?)
    }

    fn remove(&mut self, name: &str) -> anyhow::Result<Vec<String>> {
        let index = self.tenant(name)?;
        self.refuse_pod(index)?;
        let mut config = self.options.config.clone();
        config.tenants.remove(index);
        self.adopt(config)
    }

    fn set(&mut self, name: &str, change: &TenantChange) -> anyhow::Result<Vec<String>> {
        let index = self.tenant(name)?;
        self.refuse_pod(index)?;
        let mut config = self.options.config.clone();
        let tenant = &mut config.tenants[index];
        tenant.weight = change.weight.unwrap_or(tenant.weight);
        tenant.slo_ms = change.slo_ms.or(tenant.slo_ms);
        tenant.full_load = change.full_load.or(tenant.full_load);
        if change.floor.is_some() {
            tenant.floor.clone_from(&change.floor);
        }
        if change.cap.is_some() {
            tenant.cap.clone_from(&change.cap);
        }
        self.adopt(Self::checked(config)?)
    }

    /// Refuses to change a pod: the next change of any pod would undo it.
    fn refuse_pod(&self, index: usize) -> anyhow::Result<()> {
        let tenant = &self.options.config.tenants[index];
        if tenant.pod.is_some() {
            anyhow::bail!(
                "tenant {:?} is a pod: its annotations and its class decide (docs/kubernetes.md)",
                tenant.name
            );
        }
        Ok(())
    }

    /// Checks a configuration that a command changed, by the rules for a file.
    fn checked(config: Config) -> anyhow::Result<Config> {
        config.check().map_err(|e| anyhow::anyhow!("{}: {}", e.key, e.problem))?;
        Ok(config)
    }

    pub(super) fn report_latency(&mut self, name: &str, p99_ms: f64, operations: u64) -> Reply {
        let index = match self.tenant(name) {
            Ok(index) => index,
            Err(e) => return Reply::refused(e.to_string()),
        };
        if !(0.0..=MAX_LATENCY_MS).contains(&p99_ms) {
            return Reply::refused(format!(
                "p99_ms: found {p99_ms}; allowed: 0 to {MAX_LATENCY_MS}"
            ));
        }
        let p99 = Duration::from_secs_f64(p99_ms / 1e3);
        self.world.report_latency(TenantId(index as u16), p99, operations);
        self.endpoints.known.set(name, p99);
        self.steering.slack.report(name, p99, Instant::now());
        Reply::done()
    }

    /// The index of a tenant.
    fn tenant(&self, name: &str) -> anyhow::Result<usize> {
        let tenants = &self.options.config.tenants;
        let names = || tenants.iter().filter(|t| !t.is_vacant()).map(|t| t.name.as_str());
        let found = tenants.iter().position(|known| !known.is_vacant() && known.name == name);
        found.ok_or_else(|| {
            let hint =
                nearest(name, names()).map_or(String::new(), |n| format!("; did you mean {n:?}?"));
            let all: Vec<&str> = names().collect();
            anyhow::anyhow!("no tenant {name:?}{hint} (there are: {})", all.join(", "))
        })
    }
}
