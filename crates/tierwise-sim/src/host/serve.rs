//! A step of a service: the requests that start in it, and what is seen of them.

use tierwise_core::observe::{HintFault, Sample};
use tierwise_core::units::{PageId, TierId, Timestamp};

use super::Host;
use crate::machine::SATURATION;
use crate::requests::tier::TierCosts;
use crate::units::LINE;
use crate::workload::Workload;

impl Host {
    /// Lets a service's requests start up to now.
    pub(super) fn serve(&mut self, i: usize, before: u64) {
        let overlap = self.schedules[i].memory_level_parallelism;
        // Nobody gets more than the peak bandwidth: on a saturated tier every miss takes longer.
        let throttled = |t: usize| (self.utilisation[t] / SATURATION).max(1.0) / overlap;
        let tiers = &self.machine.tiers;
        let each = 0..tiers.len();
        let load = |t: usize| tiers[t].load_at(self.utilisation[t]) * throttled(t);
        let store = |t: usize| tiers[t].store_at(self.utilisation[t]) * throttled(t);
        let loads: Vec<f64> = each.clone().map(load).collect();
        let stores: Vec<f64> = each.map(store).collect();
        let idle = (tiers[0].load_ns / overlap, tiers[0].store_ns / overlap);
        let step = (self.now - before).max(1) as f64;
        let Some(service) = self.workloads[i].service.as_mut() else { return };
        service.watcher.sample_period = self.signals.sample_period;
        service.watcher.sample_ns = self.costs.sample_ns;
        service.watcher.hint_fault_ns = self.costs.hint_fault_ns;
        let costs = TierCosts { load_ns: &loads, store_ns: &stores };
        let served = service.tenant.advance(self.now, &costs, &service.tiers, &mut service.watcher);
        for (rate, misses) in service.rates.iter_mut().zip(&served.tiers) {
            let lines = LINE / step;
            *rate = ((misses.loads + misses.stores) * lines, misses.stores * lines);
        }
        let instructions = served.cpu_ns / self.machine.instruction_ns;
        self.fresh[i].add_service(served, instructions, idle);
        self.stats.service(i, served, instructions, idle);
        let watched_ns = served.watched_ns;
        service.end_interval(self.now);
        self.stats.application(i, watched_ns);
        self.take_faults_of_service(i);
    }

    /// Bytes a nanosecond that the service asked of each tier in the last step.
    pub(super) fn add_service_demand(&self, i: usize, demand: &mut [(f64, f64)]) {
        let Some(service) = &self.workloads[i].service else { return };
        for ((read, write), (own_read, own_write)) in demand.iter_mut().zip(&service.rates) {
            *read += own_read;
            *write += own_write;
        }
    }

    fn take_faults_of_service(&mut self, i: usize) {
        let workload = &mut self.workloads[i];
        let Some(service) = workload.service.as_mut() else { return };
        let faults = std::mem::take(&mut service.watcher.faults);
        for fault in &faults {
            let Some(page) = workload.page(fault.local) else { continue };
            self.memory.set_poisoned(page, false);
            let poisoned_at =
                workload.service.as_ref().map_or(0, |s| s.poisoned_at[fault.local as usize]);
            self.observation.hint_faults.push(HintFault {
                page,
                poisoned_at: Timestamp(poisoned_at),
                at: Timestamp(fault.at_ns),
                write: fault.write,
            });
        }
        self.faulted |= self.signals.hint_faults && !faults.is_empty();
        if let Some(service) = self.workloads[i].service.as_mut() {
            service.watcher.faults = faults;
            service.watcher.faults.clear();
        }
    }

    /// Reports what was seen of a service's touches since the last report.
    pub(super) fn report_service(&mut self, i: usize) {
        let workload = &mut self.workloads[i];
        let Some(mut service) = workload.service.take() else { return };
        let page = |local: u32, workload: &Workload| workload.page(local);
        let observation = &mut self.observation;
        let (bits, dirty) = (self.signals.reference_bits, self.signals.dirty_bits);
        service.watcher.referenced.drain(|local: PageId| {
            if let Some(page) = page(local.0, workload).filter(|_| bits) {
                observation.referenced.set(page);
            }
        });
        service.watcher.written.drain(|local: PageId| {
            if let Some(page) = page(local.0, workload).filter(|_| dirty) {
                observation.written.set(page);
            }
        });
        let samples = service.watcher.samples.len() as f64;
        for sample in service.watcher.samples.drain(..) {
            if let Some(page) = page(sample.local, workload) {
                let tier = TierId(sample.tier);
                observation.samples.push(Sample { page, tier, write: sample.write });
            }
        }
        workload.service = Some(service);
        self.stats.background(samples * self.costs.sample_read_ns);
    }
}
