//! One step of virtual time.

use std::time::Duration;

use super::SimulatedHost;
use crate::error::SimError;
use crate::machine::SATURATION;
use crate::units::LINE;
use crate::workload::{WorkloadKind, WorkloadState};

/// Rounds in which utilisation and progress converge. Each halves the distance; after six it is
/// below two percent of the change within one step, and the next step continues from there.
const ROUNDS: usize = 6;

/// The running workloads in one step. What the rounds read stands together: with a thousand
/// workloads, most of the time of a run would else be spent on fetching it.
struct Running {
    all: Vec<RunningWorkload>,
    tiers: usize,
    /// Loads and stores of each workload's window that each memory serves.
    served: Vec<(f64, f64)>,
}

struct RunningWorkload {
    workload: usize,
    /// Its place in [`Running::served`].
    first: usize,
    /// `None` for a service.
    window: Option<WindowLoad>,
}

impl Running {
    fn served(&self, one: &RunningWorkload) -> &[(f64, f64)] {
        &self.served[one.first..one.first + self.tiers]
    }
}

/// What the length of a window depends on, beside the memory.
struct WindowLoad {
    cpu_ns: f64,
    overlap: f64,
    dilation: f64,
    parallelism: f64,
    /// Fast memory caches slow memory, without software.
    beside_slow: bool,
}

impl WindowLoad {
    fn time(&self, served: &[(f64, f64)], loads: &[f64], stores: &[f64]) -> f64 {
        let cost = |(l, s): (f64, f64), t: usize| l * loads[t] + s * stores[t];
        let mut memory: f64 = served.iter().enumerate().map(|(t, &served)| cost(served, t)).sum();
        if self.beside_slow {
            // Fast memory is read first, to find that the line is not there.
            memory += cost(served[1], 0);
        }
        (self.dilation * (self.cpu_ns + memory / self.overlap) / self.parallelism).max(1.0)
    }

    /// Adds bytes per nanosecond. A store that misses fetches its line and later writes it back.
    fn add_demand(&self, served: &[(f64, f64)], window_ns: f64, demand: &mut [(f64, f64)]) {
        let lines = LINE * self.dilation / window_ns;
        for ((read, write), (loads, stores)) in demand.iter_mut().zip(served) {
            *read += (loads + stores) * lines;
            *write += stores * lines;
        }
        if self.beside_slow
            && let [fast, slow] = demand
        {
            // A miss reads fast memory in vain, writes the line there, and sends the line that was
            // there away.
            let missed = (served[1].0 + served[1].1) * lines;
            fast.0 += missed;
            fast.1 += missed;
            slow.1 += missed;
        }
    }
}

impl SimulatedHost {
    /// Advances to `wake`, or to the earliest of the following: the end of a workload's window, a
    /// start or stop, the quantum.
    pub(super) fn advance(&mut self, wake: Option<u64>, quantum: Duration) -> Result<(), SimError> {
        self.start_and_stop()?;
        let window_ns = self.window_times();
        let before = self.now;
        let limit = self.limit(wake, quantum);
        let faults = self.next_faults(&window_ns);
        let step = (0..self.workloads.len())
            .filter(|&i| self.workloads[i].state == WorkloadState::Running)
            .map(|i| self.workloads[i].remaining_ns(before, window_ns[i]))
            .chain(faults)
            .fold(limit - before, u64::min)
            .max(1);
        self.now = before + step;
        for (i, &window_ns) in window_ns.iter().enumerate() {
            if self.workloads[i].state != WorkloadState::Running {
                continue;
            }
            match self.workloads[i].kind {
                WorkloadKind::Service(_) => self.serve(i, before),
                WorkloadKind::Windows { .. } => self.progress(i, before, step, window_ns),
            }
        }
        self.copies.drain(before, self.now);
        let (memory, workloads) = (&self.memory, &mut self.workloads);
        let p99 = |i: usize| workloads[i].service_mut().map(|s| s.take_worst().p99);
        self.stats.time(self.now, |i| memory.usage(i), p99);
        self.advance_windows()
    }

    /// The times until so many hint faults have occurred that the policy wants a report.
    fn next_faults(&mut self, window_ns: &[f64]) -> Vec<u64> {
        let most = self.signals.faults_per_report as usize;
        if most == 0 {
            return Vec::new();
        }
        let running = |i: &usize| self.workloads[*i].state == WorkloadState::Running;
        let running: Vec<usize> = (0..self.workloads.len()).filter(running).collect();
        let due = running.into_iter().filter_map(|i| {
            let share = self.monitors.nth_hint_fault(i, most)?;
            Some(self.workloads[i].reaches_ns(share, window_ns[i]))
        });
        due.collect()
    }

    fn limit(&self, wake: Option<u64>, quantum: Duration) -> u64 {
        let starts =
            self.workloads.iter().zip(&self.schedules).filter_map(|(p, s)| match p.state {
                // The end of another workload ends a step by itself.
                WorkloadState::Waiting => s.after.is_none().then_some(s.start),
                WorkloadState::Running => s.stop,
                WorkloadState::Ended | WorkloadState::OutOfMemory => None,
            });
        starts
            .chain(wake)
            .chain(self.end)
            .filter(|&at| at > self.now)
            .fold(self.now + quantum.as_nanos() as u64, u64::min)
    }

    /// Time that each workload's current window takes as a whole, at the latencies that the demand
    /// of all workloads causes. Sets the utilisation that this demand causes.
    fn window_times(&mut self) -> Vec<f64> {
        let tiers = self.topology.tiers.len();
        let mut times = vec![0.0; self.workloads.len()];
        let running = self.running();
        for _ in 0..ROUNDS {
            let loads: Vec<f64> =
                (0..tiers).map(|t| self.machine.tiers[t].load_at(self.utilisation[t])).collect();
            let stores: Vec<f64> =
                (0..tiers).map(|t| self.machine.tiers[t].store_at(self.utilisation[t])).collect();
            let mut demand = self.copies.rates(self.now);
            for one in &running.all {
                match &one.window {
                    None => {
                        if let Some(service) = self.workloads[one.workload].service() {
                            service.add_demand(&mut demand);
                        }
                    }
                    Some(window) => {
                        let served = running.served(one);
                        let time = window.time(served, &loads, &stores);
                        times[one.workload] = time;
                        window.add_demand(served, time, &mut demand);
                    }
                }
            }
            for (t, (read, write)) in demand.into_iter().enumerate() {
                let tier = &self.machine.tiers[t];
                let wanted = read / tier.read_gbps + write / tier.write_gbps;
                self.utilisation[t] = f64::midpoint(self.utilisation[t], wanted);
            }
        }
        self.throttle(&running, &mut times);
        times
    }

    /// The factor by which running threads that share too few CPUs are slowed down.
    fn crowding(&self) -> f64 {
        self.shared_cpus().map_or(1.0, |cpus| (self.threads() / cpus).max(1.0))
    }

    /// Threads of the running workloads without CPUs of their own.
    pub(super) fn threads(&self) -> f64 {
        let all = self.workloads.iter().zip(&self.schedules);
        let sharing = all.filter(|(w, s)| w.state == WorkloadState::Running && !s.own_cpus);
        sharing.map(|(workload, _)| workload.cpus()).sum()
    }

    /// The CPUs that are no workload's own, if their number is limited.
    pub(super) fn shared_cpus(&self) -> Option<f64> {
        let all = self.workloads.iter().zip(&self.schedules);
        let own: f64 = all.filter(|(_, s)| s.own_cpus).map(|(workload, _)| workload.cpus()).sum();
        self.machine.cpus.map(|cpus| f64::from(cpus) - own)
    }

    fn running(&self) -> Running {
        let (tiers, crowding) = (self.topology.tiers.len(), self.crowding());
        let mut running =
            Running { all: Vec::with_capacity(self.workloads.len()), tiers, served: Vec::new() };
        for (i, (workload, schedule)) in self.workloads.iter().zip(&self.schedules).enumerate() {
            if workload.state != WorkloadState::Running {
                continue;
            }
            let crowding = if schedule.own_cpus { 1.0 } else { crowding };
            let window = match workload.kind {
                WorkloadKind::Service(_) => None,
                WorkloadKind::Windows { .. } => Some(WindowLoad {
                    cpu_ns: workload.window.instructions as f64 * self.machine.instruction_ns,
                    overlap: schedule.memory_level_parallelism,
                    dilation: f64::from(workload.windows.dilation()),
                    parallelism: workload.parallelism / crowding,
                    beside_slow: workload.slow.is_some(),
                }),
            };
            running.all.push(RunningWorkload { workload: i, first: running.served.len(), window });
            running.served.extend((0..tiers).map(|t| workload.served(t)));
        }
        running
    }

    /// No workload gets more than the peak bandwidth: workloads that use a saturated tier are
    /// slowed down to it.
    fn throttle(&self, running: &Running, times: &mut [f64]) {
        for one in &running.all {
            let served = running.served(one).iter().zip(&self.utilisation);
            let worst = served
                .filter(|(served, _)| **served != (0.0, 0.0))
                .map(|(_, utilisation)| utilisation / SATURATION)
                .fold(1.0, f64::max);
            times[one.workload] *= worst;
        }
    }

    fn progress(&mut self, i: usize, before: u64, step: u64, window_ns: f64) {
        let workload = &mut self.workloads[i];
        let paid = workload.pay_stall(step as f64);
        let from = workload.done;
        let worked = step as f64 - paid;
        workload.done = (from + worked / window_ns).min(1.0);
        let share = workload.done - from;
        let parallelism = self.workloads[i].parallelism;
        // What other threads took is not its own CPU time.
        let waited = self.stolen_ns[i].min(paid * parallelism);
        self.stolen_ns[i] -= waited;
        let used = (step as f64 * parallelism - waited).max(0.0);
        let clients = self.clients_ns(i, share).min(used);
        self.fresh[i].busy_ns += used - clients;
        self.fresh[i].clients_ns += clients;
        self.account(i, share);
        self.stats.set_window_ns(i, window_ns);
        let at = move |done: f64| before + (paid + (done - from) * window_ns) as u64;
        self.take_hint_faults(i, at);
    }

    /// Time of a share of a window in which its client has the CPU.
    fn clients_ns(&self, i: usize, share: f64) -> f64 {
        let workload = &self.workloads[i];
        let beside = workload.window.instructions as f64 * self.machine.instruction_ns;
        share * workload.client_share * beside * f64::from(workload.windows.dilation())
    }

    fn account(&mut self, i: usize, share: f64) {
        let workload = &self.workloads[i];
        let amount = share * f64::from(workload.windows.dilation());
        self.fresh[i].add(workload, amount);
        self.count(i, amount);
        let workload = &self.workloads[i];
        self.stats.work(i, workload, amount);
    }

    fn start_and_stop(&mut self) -> Result<(), SimError> {
        for i in 0..self.workloads.len() {
            let schedule = self.schedules[i];
            match self.workloads[i].state {
                WorkloadState::Waiting if self.may_start(&schedule) => {
                    self.workloads[i].state = WorkloadState::Running;
                    self.begin(i);
                    self.open_window(i)?;
                }
                WorkloadState::Running if schedule.stop.is_some_and(|stop| self.now >= stop) => {
                    self.finish(i, WorkloadState::Ended);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn may_start(&self, schedule: &super::Schedule) -> bool {
        use WorkloadState::{Ended, OutOfMemory};
        match schedule.after {
            None => self.now >= schedule.start,
            Some(other) => matches!(self.workloads[other].state, Ended | OutOfMemory),
        }
    }

    fn advance_windows(&mut self) -> Result<(), SimError> {
        for i in 0..self.workloads.len() {
            let workload = &self.workloads[i];
            if workload.state == WorkloadState::Running
                && matches!(workload.kind, WorkloadKind::Windows { .. })
                && workload.done >= 1.0
            {
                self.close_window(i);
                self.open_window(i)?;
            }
        }
        Ok(())
    }
}
