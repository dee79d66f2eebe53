//! One step of virtual time.

use std::time::Duration;

use super::Host;
use crate::error::SimError;
use crate::machine::SATURATION;
use crate::program::{Program, State};
use crate::units::LINE;

/// Rounds in which utilisation and progress find each other. Each halves the distance; after six it
/// is below two percent of the change within one step, and the next step goes on from there.
const ROUNDS: usize = 6;

impl Host {
    /// Advances to `wake`, or to whatever comes first: the end of a program's window, a start or
    /// stop, the quantum.
    pub(super) fn advance(&mut self, wake: Option<u64>, quantum: Duration) -> Result<(), SimError> {
        self.start_and_stop()?;
        let window_ns = self.window_times();
        let before = self.now;
        let limit = self.limit(wake, quantum);
        let step = (0..self.programs.len())
            .filter(|&i| self.programs[i].state == State::Running)
            .map(|i| match &self.programs[i].service {
                Some(service) => service.interval_ends().saturating_sub(before),
                None => remaining_ns(&self.programs[i], window_ns[i]),
            })
            .fold(limit - before, u64::min)
            .max(1);
        self.now = before + step;
        for (i, &window_ns) in window_ns.iter().enumerate() {
            if self.programs[i].state != State::Running {
                continue;
            }
            if self.programs[i].service.is_some() {
                self.serve(i, before);
            } else {
                self.progress(i, before, step, window_ns);
            }
        }
        self.copies.drain(before, self.now);
        let (memory, programs) = (&self.memory, &mut self.programs);
        let p99 = |i: usize| programs[i].service.as_mut().map(|s| s.take_worst().p99);
        self.stats.time(self.now, |i| memory.usage(i), p99);
        self.turn_windows()
    }

    fn limit(&self, wake: Option<u64>, quantum: Duration) -> u64 {
        let starts = self.programs.iter().zip(&self.schedules).filter_map(|(p, s)| match p.state {
            State::Waiting => Some(s.start),
            State::Running => s.stop,
            State::Ended | State::OutOfMemory => None,
        });
        starts
            .chain(wake)
            .chain(self.end)
            .filter(|&at| at > self.now)
            .fold(self.now + quantum.as_nanos() as u64, u64::min)
    }

    /// Time that each program's current window takes as a whole, at the latencies that all programs
    /// together bring about. Leaves the utilisation that goes with it.
    fn window_times(&mut self) -> Vec<f64> {
        let tiers = self.topology.tiers.len();
        let mut times = vec![0.0; self.programs.len()];
        for _ in 0..ROUNDS {
            let loads: Vec<f64> =
                (0..tiers).map(|t| self.machine.tiers[t].load_at(self.utilisation[t])).collect();
            let stores: Vec<f64> =
                (0..tiers).map(|t| self.machine.tiers[t].store_at(self.utilisation[t])).collect();
            let mut demand = self.copies.rates(self.now);
            for (i, time) in times.iter_mut().enumerate() {
                if self.programs[i].state != State::Running {
                    continue;
                }
                if self.programs[i].service.is_some() {
                    self.add_service_demand(i, &mut demand);
                } else {
                    *time = self.window_time(i, &loads, &stores);
                    self.add_demand(i, *time, &mut demand);
                }
            }
            for (t, (read, write)) in demand.into_iter().enumerate() {
                let tier = &self.machine.tiers[t];
                let wanted = read / tier.read_gbps + write / tier.write_gbps;
                self.utilisation[t] = f64::midpoint(self.utilisation[t], wanted);
            }
        }
        self.throttle(&mut times);
        times
    }

    fn window_time(&self, i: usize, loads: &[f64], stores: &[f64]) -> f64 {
        let program = &self.programs[i];
        let overlap = self.schedules[i].memory_level_parallelism;
        let cost = |(l, s): (f64, f64), t: usize| l * loads[t] + s * stores[t];
        let mut memory: f64 = (0..loads.len()).map(|t| cost(program.served(t), t)).sum();
        if program.slow.is_some() {
            // Fast memory is read first, to see that the line is not there.
            memory += cost(program.served(1), 0);
        }
        let cpu = program.window.instructions as f64 * self.machine.instruction_ns;
        let dilation = f64::from(program.windows.dilation());
        (dilation * (cpu + memory / overlap) / program.parallelism).max(1.0)
    }

    /// Adds bytes a nanosecond. A store that misses fetches its line and later writes it back.
    fn add_demand(&self, i: usize, window_ns: f64, demand: &mut [(f64, f64)]) {
        let program = &self.programs[i];
        let lines = LINE * f64::from(program.windows.dilation()) / window_ns;
        for (t, (read, write)) in demand.iter_mut().enumerate() {
            let (loads, stores) = program.served(t);
            *read += (loads + stores) * lines;
            *write += stores * lines;
        }
        if program.slow.is_some()
            && let [fast, slow] = demand
        {
            // A miss reads fast memory in vain, writes the line there, and sends the line that was
            // there away.
            let missed = program.served(1);
            let missed = (missed.0 + missed.1) * lines;
            fast.0 += missed;
            fast.1 += missed;
            slow.1 += missed;
        }
    }

    /// Nobody gets more than the peak bandwidth: programs that use a saturated tier are slowed down
    /// to it.
    fn throttle(&self, times: &mut [f64]) {
        for (program, time) in self.programs.iter().zip(times) {
            let uses = |t: usize| program.served(t) != (0.0, 0.0);
            let worst = (0..self.utilisation.len())
                .filter(|&t| uses(t))
                .map(|t| self.utilisation[t] / SATURATION)
                .fold(1.0, f64::max);
            *time *= worst;
        }
    }

    fn progress(&mut self, i: usize, before: u64, step: u64, window_ns: f64) {
        let program = &mut self.programs[i];
        let paid = program.pending_stall_ns.min(step as f64);
        program.pending_stall_ns -= paid;
        let from = program.done;
        let worked = step as f64 - paid;
        program.done = (from + worked / window_ns).min(1.0);
        let share = program.done - from;
        self.fresh[i].busy_ns += step as f64 * self.programs[i].parallelism;
        self.account(i, share);
        self.stats.set_window_ns(i, window_ns);
        let at = move |done: f64| before + (paid + (done - from) * window_ns) as u64;
        self.take_hint_faults(i, at);
    }

    fn account(&mut self, i: usize, share: f64) {
        let program = &self.programs[i];
        let amount = share * f64::from(program.windows.dilation());
        self.fresh[i].add(program, amount);
        self.count(i, amount);
        let program = &self.programs[i];
        self.stats.work(i, program, amount);
    }

    fn start_and_stop(&mut self) -> Result<(), SimError> {
        for i in 0..self.programs.len() {
            let schedule = self.schedules[i];
            match self.programs[i].state {
                State::Waiting if self.now >= schedule.start => {
                    self.programs[i].state = State::Running;
                    self.open_window(i)?;
                }
                State::Running if schedule.stop.is_some_and(|stop| self.now >= stop) => {
                    self.finish(i, State::Ended);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn turn_windows(&mut self) -> Result<(), SimError> {
        for i in 0..self.programs.len() {
            let program = &self.programs[i];
            if program.state == State::Running && program.service.is_none() && program.done >= 1.0 {
                self.close_window(i);
                self.open_window(i)?;
            }
        }
        Ok(())
    }
}

fn remaining_ns(program: &Program, window_ns: f64) -> u64 {
    let rest = program.pending_stall_ns + (1.0 - program.done) * window_ns;
    // Rounded up, so that the window is over when the time is.
    (rest.ceil() as u64).saturating_add(1)
}
