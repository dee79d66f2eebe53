//! A step of a service: the requests that start in it, and what software samples of them.

use tierwise_core::observe::{HintFault, Sample};
use tierwise_core::units::{PageId, TierId, Timestamp};

use super::SimulatedHost;
use crate::machine::SATURATION;
use crate::requests::tier::TierCosts;
use crate::units::LINE;
use crate::workload::{Workload, WorkloadKind, page_of};

impl SimulatedHost {
    /// Starts a service's requests up to now.
    pub(super) fn serve(&mut self, i: usize, before: u64) {
        let overlap = self.schedules[i].memory_level_parallelism;
        // No tenant gets more than the peak bandwidth: on a saturated tier every miss takes longer.
        let throttled = |t: usize| (self.utilisation[t] / SATURATION).max(1.0) / overlap;
        let tiers = &self.machine.tiers;
        let each = 0..tiers.len();
        let load = |t: usize| tiers[t].load_at(self.utilisation[t]) * throttled(t);
        let store = |t: usize| tiers[t].store_at(self.utilisation[t]) * throttled(t);
        let loads: Vec<f64> = each.clone().map(load).collect();
        let stores: Vec<f64> = each.map(store).collect();
        let idle = (tiers[0].load_ns / overlap, tiers[0].store_ns / overlap);
        let step = (self.now - before).max(1) as f64;
        let sample_period = self.sample_period(i);
        let Some(service) = self.workloads[i].service_mut() else { return };
        service.watcher.sample_period = sample_period;
        service.watcher.sample_ns = self.costs.sample_ns;
        service.watcher.hint_fault_ns = self.costs.hint_fault_ns;
        let costs = TierCosts { load_ns: &loads, store_ns: &stores };
        let served = service.tenant.advance(self.now, &costs, &service.tiers, &mut service.watcher);
        for (rate, misses) in service.rates.iter_mut().zip(&served.tiers) {
            let lines = LINE / step;
            let read = misses.loads + misses.stores + misses.prefetched;
            *rate = (read * lines, misses.stores * lines);
        }
        let instructions = served.cpu_ns / self.machine.instruction_ns;
        self.fresh[i].add_service(served, instructions, idle);
        // What other threads took is not its own CPU time, though its requests wait for it.
        let waited = self.stolen_ns[i].min(served.stalled_ns);
        self.stolen_ns[i] -= waited;
        self.fresh[i].busy_ns -= waited;
        self.stats.service(i, served, instructions, idle);
        let watched_ns = served.watched_ns;
        service.end_interval(self.now);
        self.stats.application(i, watched_ns);
        self.take_faults_of_service(i);
    }

    fn take_faults_of_service(&mut self, i: usize) {
        let Workload { kind: WorkloadKind::Service(service), locals, .. } = &mut self.workloads[i]
        else {
            return;
        };
        self.faulted |= self.signals.hint_faults && !service.watcher.faults.is_empty();
        for fault in service.watcher.faults.drain(..) {
            let Some(page) = page_of(locals, fault.local) else { continue };
            self.memory.set_poisoned(page, false);
            self.observation.hint_faults.push(HintFault {
                page,
                poisoned_at: Timestamp(service.poisoned_at[fault.local as usize]),
                at: Timestamp(fault.at_ns),
                write: fault.write,
            });
        }
    }

    /// Reports the touches of a service since the last report.
    pub(super) fn report_service(&mut self, i: usize) {
        let Workload { kind: WorkloadKind::Service(service), locals, .. } = &mut self.workloads[i]
        else {
            return;
        };
        let observation = &mut self.observation;
        let (bits, dirty) = (self.signals.reference_bits, self.signals.dirty_bits);
        service.watcher.referenced.drain(|local: PageId| {
            if let Some(page) = page_of(locals, local.0).filter(|_| bits) {
                observation.referenced.set(page);
            }
        });
        service.watcher.written.drain(|local: PageId| {
            if let Some(page) = page_of(locals, local.0).filter(|_| dirty) {
                observation.written.set(page);
            }
        });
        let samples = service.watcher.samples.len() as f64;
        for sample in service.watcher.samples.drain(..) {
            if let Some(page) = page_of(locals, sample.local) {
                let tier = TierId(sample.tier);
                observation.samples.push(Sample { page, tier, write: sample.write });
            }
        }
        self.stats.background(samples * self.costs.sample_read_ns);
    }
}
