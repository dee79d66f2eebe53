//! The settings of a pod or a container: its wishes, within the limits of its class.

use std::net::IpAddr;

use tierwise_core::tenant::DEFAULT_WEIGHT;

use super::wishes::Wishes;
use crate::config::{FastMemoryClass, Latency};

/// The class of pods that name none.
const DEFAULT_CLASS: &str = "default";

/// The weight of a BestEffort pod: a tenth of the others'. The kubelet gives such a pod the
/// smallest CPU weight for the same reason. Chosen, not measured: with 1 it would have a hundredth
/// of another pod's memory.
const BEST_EFFORT_WEIGHT: u32 = 10;

/// The settings of a tenant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSettings {
    /// The class that holds, if there is one.
    pub class: Option<String>,
    /// The claim that is its floor, before limits, in bytes.
    pub claim: Option<u64>,
    /// The floor in bytes. None is made from a quality of service class.
    pub floor: Option<u64>,
    /// The cap in bytes.
    pub cap: Option<u64>,
    /// The weight.
    pub weight: u32,
    /// The 99th percentile that it must not exceed, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The endpoint of its latency.
    pub latency: Option<Latency>,
    /// What is wrong with its annotations, or what a limit changed.
    pub problems: Vec<String>,
}

/// The facts that limit a tenant's wishes.
#[derive(Debug, Clone, Copy)]
pub struct PodLimits<'a> {
    /// The operator's classes.
    pub classes: &'a [FastMemoryClass],
    /// The quality of service class.
    pub qos: &'a str,
    /// The memory that its containers may use, if all have a limit.
    pub memory: Option<u64>,
    /// The fast memory that pods may have.
    pub capacity: u64,
    /// The floor that the scheduler has allocated to the pod, in bytes.
    pub claim: Option<u64>,
    /// Loopback, for a pod in the host's network. The daemon reads no other address.
    pub address: Option<IpAddr>,
}

impl PodSettings {
    /// The settings of a pod (without `of`), or of a container of the pod with these wishes. A
    /// container has its pod's class and weight unless it has its own. Floor, cap and 99th
    /// percentile of the class belong to the tenant that names the class, so that a pod and its
    /// containers do not have them twice.
    ///
    /// A claim is the floor, whatever annotation and class say: the scheduler has set it aside, so
    /// the class's `max_floor` does not lower it either.
    pub fn new(wishes: &Wishes, of: Option<&Wishes>, limits: &PodLimits<'_>) -> Self {
        let inherited = of.and_then(|pod| pod.class.clone());
        let named = wishes.class.clone().or(inherited);
        let mut problems = wishes.problems.clone();
        let wanted = named.as_deref().unwrap_or(DEFAULT_CLASS);
        let class = limits.classes.iter().find(|class| class.name == wanted);
        if let (Some(named), None) = (&named, class) {
            problems.push(format!(
                "class: found {named:?}; allowed: {}; it has none of the class's settings",
                names(limits.classes)
            ));
        }
        // Without a class that exists, the default limits hold.
        let class = class.or_else(|| limits.classes.iter().find(|c| c.name == DEFAULT_CLASS));
        let gives = class.filter(|_| of.is_none() || wishes.class.is_some());
        if let Some((asked, claim)) = wishes.floor.zip(limits.claim).filter(|(a, c)| a > c) {
            problems.push(format!("floor: found {asked} B; allowed: {claim} B, its pod's claim"));
        }
        let annotated = || wishes.floor.or_else(|| Some(gives?.floor.as_ref()?.bytes().0));
        let mut settings = Self {
            class: class.map(|class| class.name.clone()),
            claim: limits.claim,
            floor: limits.claim.or_else(annotated),
            cap: wishes.cap.or_else(|| Some(gives?.cap.as_ref()?.bytes().0)),
            weight: wishes
                .weight
                .or_else(|| of.and_then(|pod| pod.weight))
                .or_else(|| class?.weight)
                .unwrap_or(if limits.qos == "BestEffort" {
                    BEST_EFFORT_WEIGHT
                } else {
                    DEFAULT_WEIGHT
                }),
            p99_ms: wishes.p99_ms.or_else(|| gives?.p99_ms),
            latency: None,
            problems,
        };
        settings.limit(class, limits);
        settings.measure(wishes, class, limits);
        settings
    }

    /// Lowers what exceeds a limit, and says so.
    fn limit(&mut self, class: Option<&FastMemoryClass>, limits: &PodLimits<'_>) {
        let class_limits = class.filter(|_| limits.claim.is_none());
        let max_floor = class_limits.and_then(|class| Some(class.max_floor.as_ref()?.bytes().0));
        let bounds = [
            (max_floor, "its class's max_floor"),
            (limits.memory, "the memory limit of its containers"),
            (Some(limits.capacity), "the fast memory of this node"),
            (self.cap, "its cap"),
        ];
        for (bound, what) in bounds {
            let Some((floor, bound)) = self.floor.zip(bound).filter(|(f, b)| f > b) else {
                continue;
            };
            self.problems.push(format!("floor: found {floor} B; allowed: {bound} B, {what}"));
            self.floor = Some(bound);
        }
        if let Some(most) = class.and_then(|class| class.max_weight).filter(|m| self.weight > *m) {
            let found = self.weight;
            self.problems
                .push(format!("weight: found {found}; allowed: {most}, its class's max_weight"));
            self.weight = most;
        }
    }

    /// Takes the SLO, if the latency can be measured. A tenant whose latency is unknown would have
    /// all the memory that it could use.
    fn measure(
        &mut self,
        wishes: &Wishes,
        class: Option<&FastMemoryClass>,
        limits: &PodLimits<'_>,
    ) {
        let Some(p99) = self.p99_ms.take() else {
            if wishes.latency.is_some() {
                self.problems
                    .push("latency: without p99 there is nothing to hold; write both".into());
            }
            return;
        };
        let Some(wished) = &wishes.latency else {
            // A class's own SLO holds for the pods that have an endpoint.
            if wishes.p99_ms.is_some() {
                self.problems.push(
                    "p99: its latency is unknown, so the SLO has no effect; write the annotation \
                     latency"
                        .into(),
                );
            }
            return;
        };
        let Some(address) = limits.address else {
            self.problems.push(
                "latency: found a pod with a network of its own; allowed: a pod in the host's \
                 network, because the daemon reads latencies on loopback only; the SLO has no \
                 effect"
                    .into(),
            );
            return;
        };
        let least = class.and_then(|class| class.min_p99_ms).filter(|least| p99 < *least);
        if let Some(least) = least {
            self.problems.push(format!(
                "p99: found {p99} ms; allowed: {least} ms or more, its class's min_p99_ms"
            ));
        }
        self.p99_ms = Some(least.unwrap_or(p99));
        self.latency = Some(wished.at(address));
    }
}

fn names(classes: &[FastMemoryClass]) -> String {
    match classes {
        [] => "no name, because the configuration has no class".into(),
        _ => classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wishes::WishedLatency;
    use super::*;
    use crate::config::Config;

    const GIB: u64 = 1 << 30;

    fn classes() -> Vec<FastMemoryClass> {
        let text = "[[kubernetes.class]]\nname = \"default\"\nmax_floor = \"1GiB\"\n\
                    max_weight = 200\n\
                    [[kubernetes.class]]\nname = \"gold\"\nfloor = \"4GiB\"\nmax_floor = \"8GiB\"\n\
                    weight = 400\nmin_p99_ms = 2.0\n";
        Config::parse("t.toml", text).unwrap().kubernetes.classes
    }

    fn settings(wishes: &Wishes, of: Option<&Wishes>, qos: &str) -> PodSettings {
        let classes = classes();
        let address = Some("127.0.0.1".parse().unwrap());
        let limits = PodLimits {
            classes: &classes,
            qos,
            memory: Some(6 * GIB),
            capacity: 16 * GIB,
            claim: None,
            address,
        };
        PodSettings::new(wishes, of, &limits)
    }

    #[test]
    fn no_floor_is_made_from_service_class() {
        for (qos, weight) in
            [("Guaranteed", 100), ("Burstable", 100), ("BestEffort", 10), ("", 100)]
        {
            let plain = settings(&Wishes::default(), None, qos);
            assert_eq!((plain.floor, plain.cap, plain.weight), (None, None, weight), "{qos}");
            assert_eq!((plain.p99_ms, plain.problems.len()), (None, 0));
        }
    }

    #[test]
    fn class_gives_settings_and_limits() {
        let gold = || Wishes { class: Some("gold".into()), ..Wishes::default() };
        let given = settings(&gold(), None, "Burstable");
        assert_eq!((given.floor, given.weight), (Some(4 * GIB), 400));
        let more = settings(&Wishes { floor: Some(7 * GIB), ..gold() }, None, "Burstable");
        assert_eq!(more.floor, Some(6 * GIB), "the containers' memory limit");
        assert!(more.problems[0].contains("the memory limit of its containers"), "{more:?}");
        let other = Wishes { floor: Some(2 * GIB), weight: Some(900), ..Wishes::default() };
        let default = settings(&other, None, "Burstable");
        assert_eq!((default.floor, default.weight), (Some(GIB), 200));
        assert_eq!((default.class.as_deref(), default.problems.len()), (Some("default"), 2));
    }

    #[test]
    fn claim_comes_before_annotation_and_class() {
        let classes = classes();
        let limits = |claim, memory| PodLimits {
            classes: &classes,
            qos: "",
            memory,
            capacity: 16 * GIB,
            claim: Some(claim),
            address: None,
        };
        let gold = |floor| Wishes { class: Some("gold".into()), floor, ..Wishes::default() };
        let of = |wishes: &Wishes, claim| PodSettings::new(wishes, None, &limits(claim, None));
        // Above the class's max_floor, below the annotation, and instead of the class's floor.
        assert_eq!(of(&Wishes::default(), 9 * GIB).floor, Some(9 * GIB));
        assert_eq!(of(&gold(None), 2 * GIB).floor, Some(2 * GIB));
        assert_eq!(of(&gold(Some(GIB)), 2 * GIB).floor, Some(2 * GIB));
        let lowered = of(&gold(Some(3 * GIB)), 2 * GIB);
        assert_eq!((lowered.floor, lowered.claim), (Some(2 * GIB), Some(2 * GIB)));
        assert_eq!(
            lowered.problems,
            ["floor: found 3221225472 B; allowed: 2147483648 B, its pod's claim"]
        );
        let small = PodSettings::new(&gold(None), None, &limits(4 * GIB, Some(GIB)));
        assert_eq!((small.floor, small.claim), (Some(GIB), Some(4 * GIB)));
        assert!(small.problems[0].contains("the memory limit of its containers"), "{small:?}");
    }

    #[test]
    fn unknown_class_leaves_default_limits() {
        let wishes =
            Wishes { class: Some("platinum".into()), floor: Some(3 * GIB), ..Wishes::default() };
        let found = settings(&wishes, None, "");
        assert_eq!(found.floor, Some(GIB));
        assert!(found.problems[0].contains("allowed: default, gold"), "{found:?}");
    }

    #[test]
    fn container_has_no_second_floor_of_class() {
        let pod = Wishes { class: Some("gold".into()), weight: Some(50), ..Wishes::default() };
        let own = settings(&Wishes { cap: Some(GIB), ..Wishes::default() }, Some(&pod), "");
        assert_eq!((own.floor, own.cap, own.weight), (None, Some(GIB), 50));
        assert_eq!(own.class.as_deref(), Some("gold"));
        let names = Wishes { class: Some("gold".into()), ..Wishes::default() };
        assert_eq!(settings(&names, Some(&pod), "").floor, Some(4 * GIB));
    }

    #[test]
    fn slo_needs_measured_latency() {
        let p99 = || Wishes { p99_ms: Some(1.0), ..Wishes::default() };
        let blind = settings(&p99(), None, "");
        assert_eq!((blind.p99_ms, blind.latency), (None, None));
        assert!(blind.problems[0].contains("its latency is unknown"), "{:?}", blind.problems);
        let redis = Some(WishedLatency::Redis(6379));
        let gold = Wishes { class: Some("gold".into()), latency: redis.clone(), ..p99() };
        let held = settings(&gold, None, "");
        assert_eq!(held.p99_ms, Some(2.0), "the class's smallest");
        assert_eq!(held.latency, Some(Latency::Redis("127.0.0.1:6379".into())));
        let classes = classes();
        let limits = PodLimits {
            classes: &classes,
            qos: "",
            memory: None,
            capacity: GIB,
            claim: None,
            address: None,
        };
        let nowhere = PodSettings::new(&gold, None, &limits);
        assert_eq!(nowhere.p99_ms, None);
        assert!(nowhere.problems.iter().any(|p| p.contains("loopback only")), "{nowhere:?}");
        let alone = settings(&Wishes { latency: redis, ..Wishes::default() }, None, "");
        assert!(alone.problems[0].contains("write both"), "{alone:?}");
    }

    #[test]
    fn floor_above_cap_is_lowered() {
        let wishes = Wishes { floor: Some(GIB), cap: Some(GIB / 2), ..Wishes::default() };
        let found = settings(&wishes, None, "");
        assert_eq!((found.floor, found.cap), (Some(GIB / 2), Some(GIB / 2)));
    }
}
