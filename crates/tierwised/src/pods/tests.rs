//! Tables of pods, and the tenants that follow from them.

use proptest::prelude::*;
use tierwise_core::units::Bytes;

use super::*;
use crate::config::{ClassName, Config, Kubernetes, LimitText, PodChoice, TenantConfig};

const GIB: u64 = 1 << 30;

fn pod(name: &str, annotations: &[(&str, &str)]) -> Pod {
    Pod {
        namespace: "shop".into(),
        name: name.into(),
        uid: format!("{name}-0123456789"),
        annotations: annotations.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        address: Some("127.0.0.1".parse().unwrap()),
    }
}

fn container(sandbox: &str, name: &str) -> Container {
    let group = format!("kubepods/burstable/{sandbox}/{name}");
    Container { sandbox: sandbox.into(), name: name.into(), group, memory_limit: None }
}

fn start(table: &mut PodTable, sandbox: &str, pod: Pod, name: &str) {
    let id = format!("{sandbox}.{name}");
    table.started(sandbox.into(), pod, id, container(sandbox, name));
}

fn of(table: &PodTable, capacity: u64) -> Vec<TenantConfig> {
    tenants(table, &Kubernetes::default(), PodCapacity { bytes: capacity })
}

fn bytes(limit: Option<&LimitText>) -> Option<LimitText> {
    limit.cloned()
}

fn floor_of(tenant: &TenantConfig) -> u64 {
    match tenant.floor.as_ref().map(LimitText::limit) {
        Some(tierwise_core::tenant::Limit::Bytes(bytes)) => bytes.0,
        _ => 0,
    }
}

#[test]
fn container_with_own_annotations_is_tenant() {
    let mut table = PodTable::default();
    let web = || pod("web", &[("tierwise.io/weight", "50"), ("floor.tierwise.io/db", "1Gi")]);
    ["app", "db", "log"].iter().for_each(|name| start(&mut table, "s1", web(), name));
    let tenants = of(&table, 16 * GIB);
    let names: Vec<&str> = tenants.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["shop/web", "shop/web/db"]);
    let groups = |i: usize| tenants[i].pod.as_ref().unwrap().groups.clone();
    assert_eq!(groups(0), ["kubepods/burstable/s1/app", "kubepods/burstable/s1/log"]);
    assert_eq!(groups(1), ["kubepods/burstable/s1/db"]);
    assert_eq!((tenants[0].weight, tenants[1].weight), (50, 50));
    assert_eq!(bytes(tenants[0].floor.as_ref()), None);
    assert_eq!(bytes(tenants[1].floor.as_ref()), Some(LimitText::of_bytes(Bytes(GIB))));
    assert_eq!(tenants[1].pod.as_ref().unwrap().qos, "Burstable");
}

#[test]
fn floors_beyond_memory_are_lowered_alike() {
    let mut table = PodTable::default();
    for (name, floor) in [("a", "6Gi"), ("b", "2Gi"), ("c", "512Mi")] {
        start(&mut table, name, pod(name, &[("tierwise.io/floor", floor)]), "main");
    }
    assert!(of(&table, 16 * GIB).iter().all(|t| t.pod.as_ref().unwrap().asked_floor.is_none()));
    // "a" asks for more than the node has, and counts with all of it.
    let tenants = of(&table, 4 * GIB);
    let asked: Vec<_> = tenants.iter().map(|t| t.pod.as_ref().unwrap().asked_floor).collect();
    assert_eq!(asked, [Some(4 * GIB), Some(2 * GIB), Some(GIB / 2)]);
    let floors: Vec<_> = tenants.iter().map(|t| t.floor.clone().unwrap()).collect();
    // 4 GiB for 6.5: each has eight thirteenths.
    let part = |asked: u64| LimitText::of_bytes(Bytes(asked * 8 / 13));
    assert_eq!(floors, [part(4 * GIB), part(2 * GIB), part(GIB / 2)]);
}

#[test]
fn configured_floors_come_before_pods() {
    let text = "[[tenant]]\nname = \"a\"\npids = [1]\nfloor = \"3GiB\"\n\
                [[tenant]]\nname = \"b\"\npids = [2]\nfloor = \"50%\"\n";
    let tenants = Config::parse("t.toml", text).unwrap().tenants;
    let left = |capacity, reserve| PodCapacity::beside(capacity, reserve, &tenants).bytes;
    assert_eq!((left(8 * GIB, 0.0), left(8 * GIB, 12.5), left(GIB, 0.0)), (5 * GIB, 4 * GIB, 0));
    assert_eq!((left(8 * GIB, 100.0), left(u64::MAX, 50.0)), (0, (1 << 63) - 1 - 3 * GIB));
}

#[test]
fn successor_of_same_name_is_apart() {
    let mut table = PodTable::default();
    start(&mut table, "s1", pod("db-0", &[]), "main");
    start(&mut table, "s2", Pod { uid: "feedbeefcafe".into(), ..pod("db-0", &[]) }, "main");
    let names: Vec<_> = of(&table, GIB).into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["shop/db-0", "shop/db-0@feedbeef"]);
}

#[test]
fn claims_are_floors_of_their_pods() {
    let mut table = PodTable::default();
    let before = table.generation();
    assert!(table.set_claims([("web-0123456789".to_owned(), 2 * GIB)].into()));
    assert!(!table.set_claims([("web-0123456789".to_owned(), 2 * GIB)].into()));
    assert_eq!(table.generation(), before + 1);
    let annotations = [("floor.tierwise.io/db", "1Gi")];
    ["app", "db"].iter().for_each(|name| start(&mut table, "s1", pod("web", &annotations), name));
    let config = Kubernetes { pods: PodChoice::Annotated, ..Kubernetes::default() };
    let tenants = tenants(&table, &config, PodCapacity { bytes: 8 * GIB });
    let names: Vec<&str> = tenants.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["shop/web"], "a pod with a claim is one tenant");
    assert_eq!(floor_of(&tenants[0]), 2 * GIB);
    let of_pod = tenants[0].pod.as_ref().unwrap();
    assert_eq!((of_pod.claim, of_pod.problems.len()), (Some(2 * GIB), 1));
    assert!(of_pod.problems[0].starts_with("container db: its annotations have no effect"));
    assert!(table.set_claims([].into()));
    assert_eq!(of(&table, 8 * GIB).len(), 2);
}

#[test]
fn annotated_floors_leave_claims_whole() {
    let mut table = PodTable::default();
    for (name, floor) in [("a", "3Gi"), ("b", "3Gi"), ("c", "9Gi")] {
        start(&mut table, name, pod(name, &[("tierwise.io/floor", floor)]), "main");
    }
    assert!(table.set_claims([("c-0123456789".to_owned(), 5 * GIB)].into()));
    let floors = |capacity| of(&table, capacity).iter().map(floor_of).collect::<Vec<_>>();
    assert_eq!(floors(11 * GIB), [3 * GIB, 3 * GIB, 5 * GIB]);
    assert_eq!(floors(8 * GIB), [3 * GIB / 2, 3 * GIB / 2, 5 * GIB]);
    // The node has less than when the scheduler placed them.
    assert_eq!(floors(4 * GIB), [0, 0, 4 * GIB]);
}

#[test]
fn only_annotated_pods_if_configured() {
    let mut table = PodTable::default();
    start(&mut table, "s1", pod("plain", &[]), "main");
    start(&mut table, "s2", pod("fast", &[("tierwise.io/p99", "5ms")]), "main");
    let config = Kubernetes { pods: PodChoice::Annotated, ..Kubernetes::default() };
    let tenants = tenants(&table, &config, PodCapacity { bytes: GIB });
    assert_eq!(tenants.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["shop/fast"]);
    assert_eq!((tenants[0].class, tenants[0].slo_ms), (ClassName::BestEffort, None));
}

#[test]
fn latency_is_read_on_loopback_only() {
    let mut table = PodTable::default();
    let annotations = [("tierwise.io/p99", "5ms"), ("tierwise.io/latency", "redis:6379")];
    start(&mut table, "s1", pod("cache", &annotations), "main");
    let tenant = &of(&table, GIB)[0];
    assert_eq!((tenant.class, tenant.slo_ms), (ClassName::LatencyCritical, Some(5.0)));
    assert_eq!(tenant.latency, Some(crate::config::Latency::Redis("127.0.0.1:6379".into())));
}

#[test]
fn list_in_parts_replaces_table_at_end() {
    let mut table = PodTable::default();
    table.set_state(RuntimeState::Connected("containerd 2.2".into()));
    start(&mut table, "old", pod("old", &[]), "main");
    let part = |sandbox: &str| {
        let pods = [(sandbox.to_owned(), pod(sandbox, &[]))];
        (pods, [(format!("{sandbox}.main"), container(sandbox, "main"))])
    };
    let (pods, containers) = part("s1");
    table.list(pods, containers, true);
    assert!(table.pods().contains_key("old"), "the list has not ended");
    start(&mut table, "new", pod("new", &[]), "main");
    let (pods, containers) = part("s2");
    table.list(pods, containers, false);
    assert_eq!(table.pods().keys().collect::<Vec<_>>(), ["new", "s1", "s2"]);
    assert_eq!(*table.state(), RuntimeState::InStep("containerd 2.2".into()));
    let before = table.generation();
    table.ended("s1.main");
    table.pod_ended("s2");
    assert_eq!(table.pods().keys().collect::<Vec<_>>(), ["new"]);
    assert!(table.containers().len() == 1 && table.generation() == before + 2);
    table.ended("s1.main");
    assert_eq!(table.generation(), before + 2, "nothing has changed");
}

#[test]
fn endless_containers_fill_no_memory() {
    let mut table = PodTable::default();
    for number in 0..9000 {
        start(&mut table, &format!("s{number}"), pod("p", &[]), "main");
    }
    assert_eq!((table.pods().len(), table.containers().len()), (8192, 8192));
    let (count, reason) = table.refusals();
    assert!(count == 9000 - 8192 && reason.unwrap().contains("more than 8192"), "{reason:?}");
}

proptest! {
    /// Whatever pods ask for, the floors fit, and the engine takes every tenant.
    #[test]
    fn floors_of_pods_always_fit(
        asked in prop::collection::vec((0_u64..1 << 50, any::<bool>()), 0..12),
        claimed in prop::collection::btree_map(0_usize..12, 0_u64..=1 << 50, 0..12),
        capacity in 0_u64..1 << 44,
    ) {
        let mut table = PodTable::default();
        let claims = claimed.into_iter().map(|(i, bytes)| (format!("p{i}-0123456789"), bytes));
        table.set_claims(claims.collect());
        for (i, (bytes, split)) in asked.iter().enumerate() {
            let (name, bytes) = (format!("p{i}"), bytes.to_string());
            let key = if *split { "floor.tierwise.io/main" } else { "tierwise.io/floor" };
            start(&mut table, &name, pod(&name, &[(key, &bytes)]), "main");
        }
        let tenants = of(&table, capacity);
        prop_assert_eq!(tenants.len(), asked.len());
        prop_assert!(tenants.iter().map(floor_of).sum::<u64>() <= capacity);
    }
}
