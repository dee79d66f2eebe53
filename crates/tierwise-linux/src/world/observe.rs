//! Observation: the tenants' processes and their blocks, accesses, and readings of tenants and free
//! memory.

use std::time::Duration;

use tierwise_core::observe::Observation;
use tierwise_core::units::{TenantId, Timestamp};

use super::survey::SurveyContext;
use super::{LISTS, LiveWorld, WorldEvent};
use crate::error::Result;
use crate::fault::FaultScope;
use crate::migrate::Calls;
use crate::monitor::{thread_cpu, waits_still};
use crate::tenant::{TenantChanges, TenantState};

impl<C: Calls> LiveWorld<C> {
    /// Surveys, and sets the time of the next survey by what this one cost. Moves of the rest of
    /// blocks are not its cost.
    pub(super) fn paced_survey(&mut self, now: Timestamp, out: &mut Observation) {
        let (own, before) = (thread_cpu(), self.survey_cpu());
        self.survey(now, out);
        let cost = self.survey_cpu().saturating_sub(before);
        self.account.apart += thread_cpu().saturating_sub(own);
        let pause = self.account.cpu_budget.surveyed(now, cost);
        self.next_survey = self.next_survey.max(now + pause);
    }

    /// CPU time of this thread and its calls so far, without moves.
    fn survey_cpu(&mut self) -> Duration {
        let moving = self.account.cpu_budget.moving_so_far();
        self.migrator.calls().cpu().saturating_sub(moving)
    }

    /// Surveys the tenants' processes, their blocks and the blocks' tiers. If the processes cannot
    /// be listed, there is no survey.
    fn survey(&mut self, now: Timestamp, out: &mut Observation) {
        let throttle = self.account.cpu_budget.throttle();
        // Its pace bounds its cost. A tenant whose memory is known late loses too much of it.
        self.next_survey = now + self.config.interval;
        let refreshed = self.tracker.refresh(&self.config.roots);
        let Some(mut changes) = self.account.faults.absorb(|| FaultScope::Machine, refreshed)
        else {
            return;
        };
        self.account.faults.take(&mut changes.faults, None);
        if changes != TenantChanges::default() {
            self.account.events.push(WorldEvent::Tenants(changes));
        }
        let nodes = self.survey_nodes();
        self.account.faults.absorb(|| FaultScope::Machine, nodes);
        if self.surveys_blocks {
            self.survey.run(SurveyContext {
                now,
                throttle,
                host: &self.host,
                tracker: &self.tracker,
                blocks: &mut self.blocks,
                heat: self.heat.as_mut(),
                calls: self.migrator.calls(),
                out,
            });
            self.account.faults.take(self.survey.faults(), None);
        }
        self.surveyed = true;
        self.finish_moves();
        self.read_tenants(now);
        self.recalled(out);
    }

    /// Reads the machine's nodes again if they have changed.
    fn survey_nodes(&mut self) -> Result<()> {
        if self.host.has_changed(&self.config.roots, &mut self.reader, &mut self.machine)? {
            let changes = self.host.refresh(&self.config.roots);
            let changes = changes.inspect_err(|_| self.machine.forget())?;
            self.account.events.extend(changes.into_iter().map(WorldEvent::Machine));
        }
        Ok(())
    }

    /// Takes the access report since the last call, and selects the processes to monitor next.
    pub(super) fn monitor(&mut self, out: &mut Observation) {
        if let Some(late) = self.monitor.take_if(|monitor| monitor.is_late()) {
            self.lost_monitor = late.leave();
            self.account.events.push(WorldEvent::MonitoringLost(waits_still().to_string()));
        }
        let Some(monitor) = &mut self.monitor else { return };
        match monitor.take() {
            Ok(Some(report)) => {
                out.bits_unread = report.sampled.is_empty();
                let members = |tenant| self.tracker.members(tenant);
                self.unknown.monitored(&report.sampled, members, &mut self.tenants);
                self.projector.project(&report, &self.blocks, &mut self.tenants, out);
                self.heat.iter_mut().for_each(|heat| heat.ticks = out.samples_are_ticks);
                let cpu = monitor.cpu_time();
                self.account.cpu_budget.monitoring(cpu);
                // While monitoring is suspended there are no targets: otherwise DAMON's threads
                // would continue.
                let watched =
                    if self.account.cpu_budget.suspended() { &[] } else { self.survey.watched() };
                monitor.again(report, watched, self.account.cpu_budget.throttle());
            }
            Ok(None) => {}
            Err(problem) => {
                self.monitor = None;
                self.account.events.push(WorldEvent::MonitoringLost(problem.to_string()));
            }
        }
    }

    fn read_tenants(&mut self, now: Timestamp) {
        for (index, reading) in self.tenants.iter_mut().enumerate() {
            let tenant = TenantId(index as u16);
            if self.tracker.state(tenant) == TenantState::Waiting {
                (reading.running, reading.unmonitored) = (false, false);
                reading.usage.clear();
                reading.usage.resize(self.host.tiers.len(), Default::default());
                continue;
            }
            let calls = self.migrator.calls();
            let ran = reading.running;
            self.readings.read(&self.host, &self.tracker, tenant, now, calls, reading);
            self.unknown.follow(tenant, now, ran, reading);
            self.account.faults.take(self.readings.faults(), Some(tenant));
        }
    }

    /// Adds the readings to the observation, and resets the counts since the last one.
    pub(super) fn hand_over(&mut self, out: &mut Observation) {
        let now = self.time();
        let (roots, host) = (&self.config.roots, &self.host);
        let read = match std::mem::take(&mut self.surveyed) {
            true => {
                if self.surveys_blocks || now >= self.next_lists {
                    self.free_memory.read_lists(roots, host);
                    self.next_lists = now + LISTS;
                }
                self.free_memory.survey(roots, host, &self.tenants)
            }
            false => self.free_memory.read(roots, host),
        };
        self.account.faults.absorb(|| FaultScope::Machine, read);
        self.free_memory.write(&mut out.tiers);
        out.tenants.clone_from(&self.tenants);
        out.move_cost = self.migrator.move_cost();
        for reading in &mut self.tenants {
            reading.misses.iter_mut().for_each(|m| *m = 0);
            (reading.p99, reading.operations, reading.busy) = (None, 0, Duration::ZERO);
        }
    }
}
