//! What happened: work done, misses served, moves made, time spent on looking and moving.

use std::time::Duration;

use tierwise_core::units::Pages;

use crate::heat::Heat;
use crate::program::{Program, Work};
use crate::requests::tenant::Served;
use crate::timeline::Timeline;

/// One program's account.
#[derive(Debug, Clone)]
pub struct Account {
    /// Over its whole run.
    pub total: Work,
    /// In its measured part.
    pub measured: Work,
    /// When the measured part started, in nanoseconds.
    pub measured_from: Option<u64>,
    /// When it ended, in nanoseconds.
    pub ended: Option<u64>,
    /// When it ran out of memory, in nanoseconds.
    pub out_of_memory: Option<u64>,
    /// Base pages by tier when it ended.
    pub last_usage: Vec<Pages>,
    /// Pages moved to a faster tier.
    pub promotions: u64,
    /// Pages moved to a slower tier.
    pub demotions: u64,
    /// Servers' time of a service, in its measured part, in nanoseconds.
    pub busy_ns: f64,
    /// Time spent on its own path by looking and moving, in nanoseconds.
    pub overhead_ns: f64,
    /// How long its current window takes, judged by the last step.
    window_ns: f64,
}

/// All accounts of a run.
#[derive(Debug)]
pub struct Ledger {
    /// By program.
    pub accounts: Vec<Account>,
    /// Bytes moved.
    pub migrated_bytes: f64,
    /// Time of background cores, in nanoseconds.
    pub background_ns: f64,
    heat: Option<Heat>,
    timeline: Option<Timeline>,
    last_time: u64,
    went_back: bool,
    stepped_ns: u64,
}

impl Ledger {
    /// Empty accounts.
    pub fn new(programs: usize, tiers: usize) -> Self {
        let account = Account {
            total: Work::none(tiers),
            measured: Work::none(tiers),
            measured_from: None,
            ended: None,
            out_of_memory: None,
            last_usage: vec![Pages(0); tiers],
            promotions: 0,
            demotions: 0,
            busy_ns: 0.0,
            overhead_ns: 0.0,
            window_ns: 0.0,
        };
        Self {
            accounts: vec![account; programs],
            migrated_bytes: 0.0,
            background_ns: 0.0,
            heat: None,
            timeline: None,
            last_time: 0,
            went_back: false,
            stepped_ns: 0,
        }
    }

    /// Keeps a heat map from now on, for a machine of so many pages.
    pub fn keep_heat_map(&mut self, pages: u32, every: Duration) {
        self.heat = Some(Heat::new(pages, every.as_secs_f64()));
    }

    /// The heat map, if one is kept.
    pub fn heat(&self) -> Option<&Heat> {
        self.heat.as_ref()
    }

    /// The heat map, to be filled.
    pub fn heat_mut(&mut self) -> Option<&mut Heat> {
        self.heat.as_mut()
    }

    /// Keeps a timeline with one point for each interval from now on.
    pub fn keep_timeline(&mut self, every: Duration) {
        self.timeline = Some(Timeline::new(every, &self.accounts));
    }

    /// The timeline's points, if one is kept.
    pub fn timeline(&self) -> Option<&Timeline> {
        self.timeline.as_ref()
    }

    /// A program did a share of its current window (times its dilation).
    pub fn work(&mut self, i: usize, program: &Program, amount: f64) {
        let account = &mut self.accounts[i];
        let measured = program.windows.is_measured();
        account.total.add(program, amount);
        if measured {
            account.measured.add(program, amount);
        }
    }

    /// A service answered requests.
    pub fn service(&mut self, i: usize, served: &Served, instructions: f64, idle: (f64, f64)) {
        let account = &mut self.accounts[i];
        account.total.add_service(served, instructions, idle);
        account.measured.add_service(served, instructions, idle);
        account.busy_ns += served.busy_ns;
    }

    /// How long a program's current window takes in all, in nanoseconds.
    pub fn recent_window_ns(&self, program: usize) -> f64 {
        self.accounts[program].window_ns
    }

    /// Notes how long a program's current window takes in all.
    pub fn set_window_ns(&mut self, program: usize, ns: f64) {
        self.accounts[program].window_ns = ns;
    }

    /// The measured part starts, if it has not already.
    pub fn begin_measuring(&mut self, program: usize, now: u64) {
        self.accounts[program].measured_from.get_or_insert(now);
    }

    /// A program came to its end.
    pub fn end(&mut self, program: usize, now: u64, usage: &[Pages]) {
        let account = &mut self.accounts[program];
        account.ended = Some(now);
        account.last_usage.copy_from_slice(usage);
    }

    /// A program was killed for want of memory.
    pub fn out_of_memory(&mut self, program: usize, now: u64) {
        self.accounts[program].out_of_memory = Some(now);
    }

    /// A page moved.
    pub fn moved(&mut self, program: usize, promotion: bool, bytes: f64) {
        let account = &mut self.accounts[program];
        account.promotions += u64::from(promotion);
        account.demotions += u64::from(!promotion);
        self.migrated_bytes += bytes;
    }

    /// A background core worked.
    pub fn background(&mut self, ns: f64) {
        self.background_ns += ns;
    }

    /// The application worked for the tiering, on its own path.
    pub fn application(&mut self, program: usize, ns: f64) {
        self.accounts[program].overhead_ns += ns;
    }

    /// CPU seconds spent on looking and moving.
    pub fn overhead_seconds(&self) -> f64 {
        let application: f64 = self.accounts.iter().map(|a| a.overhead_ns).sum();
        (application + self.background_ns) * 1e-9
    }

    /// Time went on to `now`; `usage` gives a program's base pages by tier, `p99` the 99th
    /// percentile of a service's worst second since it was last asked.
    pub fn time<'a>(
        &mut self,
        now: u64,
        usage: impl Fn(usize) -> &'a [Pages],
        p99: impl FnMut(usize) -> Option<Duration>,
    ) {
        if let Some(timeline) = self.timeline.as_mut().filter(|t| t.is_due(now)) {
            timeline.add(now, &self.accounts, usage, p99);
        }
        self.went_back |= now < self.last_time;
        self.stepped_ns += now.saturating_sub(self.last_time);
        self.last_time = now;
    }

    /// What is wrong with the time, if anything is.
    pub fn check_time(&self, now: u64) -> Option<String> {
        if self.went_back || now < self.last_time {
            return Some(format!("time went back to {now} ns"));
        }
        (self.stepped_ns != now)
            .then(|| format!("{now} ns passed in {} ns of steps", self.stepped_ns))
    }
}
