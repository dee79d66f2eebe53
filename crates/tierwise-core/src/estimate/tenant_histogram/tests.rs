use super::*;
use crate::baseline::testing::PolicyFixture;
use crate::config::Document;
use crate::observe::{Remembered, Sample};
use crate::tenant::Class;

struct Sampled {
    machine: PolicyFixture,
    histogram: TenantHistogram,
}

impl Sampled {
    fn new(parameters: &str) -> Self {
        let document = Document::parse("t.toml", parameters).unwrap();
        let histogram = TenantHistogram::build(&document.root()).unwrap();
        Self { machine: PolicyFixture::new(2), histogram }
    }

    /// Samples each page `times` times.
    fn sample(&mut self, pages: std::ops::Range<u32>, times: usize) {
        for page in pages {
            let sample = Sample { page: PageId(page), tier: TierId(0), write: false };
            self.machine.obs.samples.extend(std::iter::repeat_n(sample, times));
        }
        let (obs, pages) = (&self.machine.obs, &mut self.machine.pages);
        self.histogram.on_observation(Timestamp(0), obs, pages);
        self.machine.obs.clear();
    }

    fn update_at(&mut self, seconds: u64) {
        let (histogram, machine) = (&mut self.histogram, &mut self.machine);
        histogram.update(Timestamp(seconds * 1_000_000_000), &mut machine.context());
    }

    /// Base pages in four bins: without samples, with 1, with 2 or 3, with 4 to 7.
    fn bins(&self, tenant: u16, tier: u8) -> [u64; 4] {
        let all: Vec<Pages> = self.histogram.of(TenantId(tenant), TierId(tier)).collect();
        [all[0].0, all[10].0, all[11].0, all[12].0]
    }

    fn named(&mut self, promotable: bool, tenant: u16, tier: u8, limit: u64) -> Vec<u32> {
        let (mut out, pages) = (Vec::new(), &mut self.machine.pages);
        let scope = Scope { tier: TierId(tier), tenant: Some(TenantId(tenant)) };
        if promotable {
            self.histogram.promotable(scope, Pages(limit), pages, &mut out);
        } else {
            self.histogram.demotable(scope, Pages(limit), pages, &mut out);
        }
        out.iter().map(|page| page.0).collect()
    }
}

/// Two tenants, each with pages in both tiers. Computed by hand: of tenant 0's 10 fast pages 4
/// have one sample and 2 have three; of its 10 slow pages 1 has five.
fn two_tenants() -> Sampled {
    let mut sampled = Sampled::new("ageing_interval_ms = 1000");
    sampled.machine.allocated_by(0, 0..10, 0).allocated_by(0, 10..20, 1);
    sampled.machine.allocated_by(1, 20..30, 0).allocated_by(1, 30..40, 1);
    sampled.sample(0..4, 1);
    sampled.sample(4..6, 3);
    sampled.sample(10..11, 5);
    sampled.sample(35..40, 2);
    sampled
}

#[test]
fn each_tenant_has_histograms_per_tier() {
    let sampled = two_tenants();
    assert_eq!(sampled.bins(0, 0), [4, 4, 2, 0]);
    assert_eq!(sampled.bins(0, 1), [9, 0, 0, 1]);
    assert_eq!(sampled.bins(1, 1), [5, 0, 5, 0]);
    let mut curve = Vec::new();
    sampled.histogram.curve(TenantId(0), &mut curve);
    // One sample in 200 accesses; the middles of the bins are 6, 3, 1.5 and 0 samples.
    let expected = [(1, 1200.0), (2, 600.0), (4, 300.0), (13, 0.0)];
    assert_eq!(curve, expected.map(|(pages, accesses)| (Pages(pages), accesses)));
}

#[test]
fn ageing_halves_counts_and_sinks_bins() {
    let mut sampled = two_tenants();
    let (histogram, machine) = (&mut sampled.histogram, &mut sampled.machine);
    histogram.update(Timestamp(999_999_999), &mut machine.context());
    assert_eq!(sampled.bins(0, 0), [4, 4, 2, 0]);
    let (histogram, machine) = (&mut sampled.histogram, &mut sampled.machine);
    histogram.update(Timestamp(1_000_000_000), &mut machine.context());
    assert_eq!(sampled.bins(0, 0), [8, 2, 0, 0]);
    assert_eq!(sampled.bins(0, 1), [9, 0, 1, 0]);
}

#[test]
fn unmonitored_interval_ages_nothing() {
    let mut sampled = two_tenants();
    sampled.update_at(1);
    let aged = sampled.bins(0, 0);
    sampled.machine.obs.bits_unread = true;
    sampled.sample(0..0, 0);
    sampled.update_at(2);
    assert_eq!(sampled.bins(0, 0), aged);
    sampled.machine.obs.bits_unread = false;
    sampled.sample(0..0, 0);
    sampled.update_at(3);
    assert_eq!(sampled.bins(0, 0), [10, 0, 0, 0]);
}

#[test]
fn tick_samples_ignore_differences_by_chance() {
    let mut sampled = two_tenants();
    let hotness = |s: &Sampled, page| s.histogram.hotness(PageId(page), &s.machine.pages);
    // Page 4 is fast and has three samples; page 10 is slow and has five, a bin more.
    assert!(hotness(&sampled, 10) > hotness(&sampled, 4));
    sampled.machine.obs.samples_are_ticks = true;
    sampled.sample(10..11, 12);
    // The root of 17 is less than the root of 3 plus 2.5; the root of 18 is more.
    assert!(hotness(&sampled, 10) < hotness(&sampled, 4));
    sampled.machine.obs.samples_are_ticks = true;
    sampled.sample(10..11, 1);
    assert!(hotness(&sampled, 10) > hotness(&sampled, 4));
}

#[test]
fn remembered_heat_counts_and_ages() {
    let sampled = two_tenants();
    let heat: Vec<u16> = (0..11).map(|page| sampled.histogram.heat(PageId(page))).collect();
    assert_eq!(heat, [1, 1, 1, 1, 3, 3, 0, 0, 0, 0, 5]);
    // An engine that starts with them has the same histograms and candidates.
    let mut later = Sampled::new("ageing_interval_ms = 1000");
    later.machine.allocated_by(0, 0..10, 0).allocated_by(0, 10..20, 1);
    let remembered = heat.iter().zip(0..).filter(|(heat, _)| **heat > 0);
    let remembered = remembered.map(|(&heat, page)| Remembered { page: PageId(page), heat });
    later.machine.obs.remembered.extend(remembered);
    later.machine.obs.samples_are_ticks = true;
    later.sample(0..0, 0);
    assert_eq!((later.bins(0, 0), later.bins(0, 1)), ([4, 4, 2, 0], [9, 0, 0, 1]));
    assert!(later.histogram.ticks);
    assert_eq!(later.named(true, 0, 1, 9), [10]);
    // What is not sampled again is forgotten like any other count.
    later.machine.obs.remembered.clear();
    for second in 1..=3 {
        later.sample(0..1, 1);
        later.update_at(second);
    }
    assert_eq!((later.bins(0, 0), later.bins(0, 1)), ([9, 1, 0, 0], [10, 0, 0, 0]));
    // A page that is not known is no page.
    later.machine.obs.remembered.push(Remembered { page: PageId(77), heat: 9 });
    later.sample(0..0, 0);
    assert_eq!(later.histogram.heat(PageId(77)), 0);
}

#[test]
fn highest_bin_promotes_and_lowest_demotes_first() {
    let mut sampled = two_tenants();
    assert_eq!(sampled.named(true, 0, 1, 9), [10], "the other nine no sample named");
    assert_eq!(sampled.named(true, 1, 1, 2).len(), 2);
    assert_eq!(sampled.named(true, 1, 1, 9).len(), 3, "none is named twice in a plan");
    assert_eq!(sampled.named(false, 0, 0, 9), [6, 7, 8, 9, 0, 1, 2, 3, 4]);
    sampled.sample(0..0, 0);
    assert_eq!(sampled.named(true, 1, 1, 9).len(), 5, "the next plan may name them again");
}

#[test]
fn moves_and_frees_keep_histograms_exact() {
    let mut sampled = two_tenants();
    let moved =
        MoveOutcome { page: PageId(10), from: Some(TierId(1)), to: TierId(0), result: Ok(()) };
    sampled.machine.pages.set_tier(PageId(10), TierId(0));
    sampled.histogram.on_outcomes(Timestamp(0), &[moved], &mut sampled.machine.pages);
    assert_eq!((sampled.bins(0, 0), sampled.bins(0, 1)), ([4, 4, 2, 1], [9, 0, 0, 0]));
    sampled.machine.obs.freed.extend([PageId(4), PageId(4), PageId(77)]);
    sampled.sample(0..0, 0);
    assert_eq!(sampled.bins(0, 0), [4, 4, 1, 1]);
}

#[test]
fn page_costs_fourteen_bytes_with_tables() {
    assert_eq!(TenantHistogram::BYTES_PER_PAGE + PageTable::BYTES_PER_PAGE, 14);
}

/// Ten pages with eight samples a second, ninety with one, and five that are new.
#[test]
fn expected_curve_ends_with_new_pages() {
    let mut sampled = Sampled::new("ageing_interval_ms = 1000\noutlook = true");
    let expected = |sampled: &Sampled| {
        let mut out = Vec::new();
        sampled.histogram.expected_curve(TenantId(0), &mut out);
        out
    };
    sampled.machine.free[1] = Pages(105);
    sampled.machine.allocated_by(0, 0..100, 1);
    for second in 1..=20 {
        assert!(second > 2 || expected(&sampled).is_empty(), "nothing is learned yet");
        sampled.sample(0..10, 8);
        sampled.sample(10..100, 1);
        sampled.update_at(second);
    }
    sampled.machine.allocated_by(0, 100..105, 1);
    sampled.sample(0..0, 0);
    let curve = expected(&sampled);
    assert_eq!(curve.iter().map(|class| class.0.0).collect::<Vec<u64>>(), [10, 90, 5]);
    for (&(_, each), rate) in curve.iter().zip([1600.0, 200.0, 200.0]) {
        assert!((each - rate).abs() < 0.01, "{curve:?}");
    }
}

/// A service and a program whose pages are sampled alike.
#[test]
fn services_keep_their_counts_longer() {
    let mut sampled = Sampled::new("ageing_interval_ms = 1000\nservice_ageing_interval_ms = 5000");
    let service = TenantSpec {
        class: Class::LatencyCritical,
        slo: Some(Duration::from_millis(20)),
        ..TenantSpec::new("service")
    };
    sampled.machine.specs = vec![service, TenantSpec::new("program")];
    sampled.machine.allocated_by(0, 0..1, 0);
    sampled.machine.allocated_by(1, 1..2, 0);
    let mut halved = Vec::new();
    for second in 1..=12 {
        let counts = [PageId(0), PageId(1)].map(|page| sampled.histogram.count(page));
        sampled.sample(0..2, 1000 - usize::from(counts[0]));
        let before = sampled.histogram.count(PageId(0));
        sampled.update_at(second);
        if sampled.histogram.count(PageId(0)) < before {
            halved.push(second);
        }
        assert!(sampled.histogram.count(PageId(1)) < 1000, "a program's are halved each second");
    }
    assert_eq!(halved, [1, 2, 4, 8, 12], "five intervals are rounded down to four");
}
