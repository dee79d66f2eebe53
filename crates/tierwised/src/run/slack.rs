//! The slack of tenants: while each service is well within its SLO and each tenant holds its floor,
//! no limit binds, and the daemon may steer.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tierwise_core::units::{Bytes, Pages};

use crate::config::{Config, TenantConfig};

/// The part of an SLO up to which a service has slack: half of it, which the policy's own
/// prediction calls safe too (`tierwise_core::partition::ServiceNeed`).
const SAFE: f64 = 0.5;

/// The part of its floor that a tenant must hold: the kernel counts pages in batches, and takes
/// them in batches.
const HELD: f64 = 0.97;

/// The age from which a report says nothing: an idle service reports no latency, and the kernel
/// demotes what it does not use. Endpoints are read every second; some operators' scripts report
/// every quarter of a minute.
const SILENCE: Duration = Duration::from_secs(30);

/// The bounds of the time for which all tenants must have had slack before the daemon steers again.
/// The first is that of the policy's guard after a violation. The wait doubles after a steering
/// that was shorter than the wait before it, so that a tenant that needs its memory loses it ever
/// more rarely. It halves after a longer one: a need that has passed is forgotten.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// The most time that steering waits for the end of a plan's moves. Of large tenants a plan may
/// take minutes, and be followed by the next.
const PLAN_ENDS: Duration = FIRST_WAIT;

/// What is known of the tenants' slack.
#[derive(Debug, Default)]
pub(super) struct Slack {
    /// The last 99th percentile of each tenant, and its time.
    reports: BTreeMap<String, (Duration, Instant)>,
    /// The last time at which a limit bound after steering, and the wait that follows.
    bound: Option<(Instant, Duration)>,
    /// The time from which moves alone have kept the daemon from steering.
    moving: Option<Instant>,
}

impl Slack {
    /// Records a service's latency.
    pub(super) fn report(&mut self, tenant: &str, p99: Duration, now: Instant) {
        self.reports.insert(tenant.to_owned(), (p99, now));
    }

    /// Forgets all tenants but these.
    pub(super) fn keep(&mut self, stays: impl Fn(&str) -> bool) {
        self.reports.retain(|tenant, _| stays(tenant));
    }

    /// Returns why the daemon must place pages itself; `None` if it may steer. `steers` is true
    /// while it does. `usage` gives a tenant's pages by tier, from its place in the configuration.
    pub(super) fn binding<'a>(
        &mut self,
        config: &Config,
        usage: impl Fn(usize) -> &'a [Pages],
        page_size: Bytes,
        steers: bool,
        now: Instant,
    ) -> Option<String> {
        let mut tenants = config.tenants.iter().enumerate().filter(|(_, t)| !t.is_vacant());
        let lack = tenants.find_map(|(i, tenant)| {
            let late = tenant.slo().and_then(|slo| self.late(&tenant.name, slo, now));
            late.or_else(|| without_floor(tenant, usage(i), page_size))
        });
        if lack.is_some() {
            let wait = match self.bound {
                None if !steers => return lack,
                None => FIRST_WAIT,
                Some((at, wait)) if steers => next_wait(wait, now.duration_since(at)),
                Some((_, wait)) => wait,
            };
            self.bound = Some((now, wait));
            return lack;
        }
        let (at, wait) = self.bound?;
        let passed = now.duration_since(at);
        (!steers && passed < wait).then(|| {
            let (passed, wait) = (passed.as_secs(), wait.as_secs());
            format!("a limit bound {passed} s ago: the daemon steers when none did for {wait} s")
        })
    }

    /// Returns true if moves under way keep the daemon from steering: a plan's demotions were made
    /// for its promotions. `binds` is true while a limit does.
    pub(super) fn waits_for_moves(&mut self, binds: bool, is_moving: bool, now: Instant) -> bool {
        if binds || !is_moving {
            self.moving = None;
            return false;
        }
        now.duration_since(*self.moving.get_or_insert(now)) < PLAN_ENDS
    }

    /// Returns why a service has no slack.
    fn late(&self, tenant: &str, slo: Duration, now: Instant) -> Option<String> {
        let Some(&(p99, at)) = self.reports.get(tenant) else {
            return Some(format!("tenant {tenant:?} has not reported a latency yet"));
        };
        if now.duration_since(at) > SILENCE {
            let seconds = SILENCE.as_secs();
            return Some(format!("tenant {tenant:?} has reported no latency for {seconds} s"));
        }
        (p99 > slo.mul_f64(SAFE)).then(|| {
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            let (p99, slo) = (ms(p99), ms(slo));
            format!("the P99 of tenant {tenant:?} is {p99:.3} ms, more than half of {slo:.3} ms")
        })
    }
}

/// Returns the wait after a steering, from the wait before it and the time of both.
fn next_wait(wait: Duration, of_both: Duration) -> Duration {
    let next = if of_both < 2 * wait { 2 * wait } else { wait / 2 };
    next.clamp(FIRST_WAIT, MAX_WAIT)
}

/// Returns why a tenant does not hold its floor.
fn without_floor(tenant: &TenantConfig, usage: &[Pages], page_size: Bytes) -> Option<String> {
    tenant.floor.as_ref()?;
    let Some(due) = held_floor(tenant, usage, page_size) else {
        return Some(format!("the floor of tenant {:?} depends on its neighbours", tenant.name));
    };
    let held = usage.first().copied().unwrap_or_default();
    ((held.0 as f64) < due.0 as f64 * HELD).then(|| {
        let [held, due] = [held, due].map(|pages| pages.in_bytes(page_size));
        format!("tenant {:?} holds {held} of fast memory, and its floor is {due}", tenant.name)
    })
}

/// Returns the floor of a tenant as far as it has as much memory; `None` if it has none, or one
/// that depends on its neighbours.
pub(super) fn held_floor(
    tenant: &TenantConfig,
    usage: &[Pages],
    page_size: Bytes,
) -> Option<Pages> {
    let resident: Pages = usage.iter().copied().sum();
    let floor = tenant.floor.as_ref()?.limit().pages(resident, page_size)?;
    Some(floor.min(resident))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "[[tenant]]\nname = \"batch\"\npids = [1]\n[[tenant]]\nname = \"db\"\n\
                          pids = [2]\nclass = \"latency-critical\"\nslo_ms = 4.0\n";

    struct Ticking {
        slack: Slack,
        config: Config,
        start: Instant,
    }

    impl Ticking {
        fn new() -> Self {
            let config = Config::parse("t", CONFIG).unwrap();
            Self { slack: Slack::default(), config, start: Instant::now() }
        }

        fn report(&mut self, second: u64, ms: f64) {
            let p99 = Duration::from_secs_f64(ms / 1e3);
            self.slack.report("db", p99, self.start + Duration::from_secs(second));
        }

        fn binds(&mut self, second: u64, steers: bool) -> Option<String> {
            let now = self.start + Duration::from_secs(second);
            self.slack.binding(&self.config, |_| &[], Bytes(4096), steers, now)
        }
    }

    #[test]
    fn unreported_and_silent_services_bind() {
        let mut at = Ticking::new();
        assert!(at.binds(0, false).unwrap().contains("\"db\" has not reported"));
        at.report(1, 1.0);
        assert_eq!(at.binds(1, false), None, "it never bound while steering: no wait");
        assert_eq!(at.binds(31, true), None);
        assert!(at.binds(32, true).unwrap().contains("no latency for 30 s"));
    }

    #[test]
    fn half_of_the_slo_is_safe() {
        let mut at = Ticking::new();
        at.report(0, 2.0);
        assert_eq!(at.binds(0, true), None);
        at.report(1, 2.001);
        assert!(at.binds(1, true).unwrap().contains("2.001 ms, more than half of 4.000 ms"));
    }

    #[test]
    fn wait_doubles_until_an_hour() {
        let mut at = Ticking::new();
        let mut second = 0;
        for wait in [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] {
            at.report(second, 3.0);
            assert!(at.binds(second, true).is_some());
            at.report(second + 1, 3.0);
            assert!(at.binds(second + 1, false).is_some(), "the wait starts again");
            at.report(second + wait, 1.0);
            assert!(at.binds(second + wait, false).unwrap().contains("a limit bound"), "{wait}");
            assert_eq!(at.binds(second + wait + 1, false), None);
            second += wait + 2;
        }
    }

    #[test]
    fn long_steering_halves_the_wait() {
        let s = Duration::from_secs;
        assert_eq!(next_wait(s(40), s(79)), s(80), "steered for 39 s");
        assert_eq!(next_wait(s(40), s(80)), s(20));
        assert_eq!(next_wait(s(10), s(86_400)), FIRST_WAIT);
        assert_eq!(next_wait(MAX_WAIT, s(4000)), MAX_WAIT);
    }

    #[test]
    fn moves_delay_steering_for_seconds() {
        let (mut slack, start) = (Slack::default(), Instant::now());
        let mut waits = |second, binds, is_moving| {
            slack.waits_for_moves(binds, is_moving, start + Duration::from_secs(second))
        };
        assert!(waits(0, false, true) && waits(9, false, true));
        assert!(!waits(10, false, true), "long enough");
        assert!(!waits(11, true, true), "a limit binds");
        assert!(waits(20, false, true) && !waits(21, false, false) && waits(30, false, true));
    }

    #[test]
    fn removed_tenants_and_others_do_not_bind() {
        let mut at = Ticking::new();
        at.report(0, 3.0);
        at.config.tenants.truncate(1);
        assert_eq!(at.binds(0, false), None);
        at.slack.keep(|tenant| tenant != "db");
        assert!(at.slack.reports.is_empty());
    }

    #[test]
    fn floors_bind_while_not_held() {
        let floor = |text: &str, fast, slow| {
            let text = format!("[[tenant]]\nname = \"a\"\npids = [1]\nfloor = \"{text}\"\n");
            let config = Config::parse("t", &text).unwrap();
            let usage = [Pages(fast), Pages(slow)];
            let mut slack = Slack::default();
            slack.binding(&config, |_| &usage, Bytes(4096), true, Instant::now())
        };
        let why = floor("4MiB", 900, 9000).unwrap();
        assert!(why.contains("\"a\" holds 3.5 MiB") && why.contains("floor is 4 MiB"), "{why}");
        assert_eq!(floor("4MiB", 1000, 9000), None, "within 3 %");
        assert_eq!(floor("4MiB", 500, 0), None, "it has no more memory");
        assert_eq!(floor("50%", 600, 600), None);
        assert!(floor("50%", 500, 600).is_some());
        assert!(floor("auto", 500, 600).unwrap().contains("neighbours"));
    }
}
