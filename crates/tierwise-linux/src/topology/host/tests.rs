use std::time::Duration;

use super::*;
use crate::topology::{FigureSource, fixture};

fn found(name: &str) -> LinuxHost {
    LinuxHost::discover(&fixture::machine(name), None).unwrap()
}

fn listed(tiers: &[(&str, &[u32])]) -> Override {
    let tier = |&(name, nodes): &(&str, &[u32])| TierOverride {
        name: name.to_owned(),
        nodes: nodes.to_vec(),
        latency_ns: None,
        bandwidth_gbps: None,
    };
    Override { tiers: tiers.iter().map(tier).collect() }
}

fn offline(roots: &Roots, online: &str, gone: u32) {
    let directory = nodes::directory(roots);
    fixture::put(&directory.join("online"), online);
    fixture::put(&directory.join("has_memory"), online);
    std::fs::remove_dir_all(directory.join(format!("node{gone}"))).unwrap();
}

#[test]
fn hmat_gives_two_tiers_with_their_figures() {
    let host = found("hmat-two-tier");
    assert_eq!(host.suitability(), Suitability::Tiered);
    assert_eq!(host.doubts(), Vec::<String>::new());
    let topology = host.topology();
    let names: Vec<&str> = topology.tiers.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["memory_tier4", "memory_tier62"]);
    assert_eq!(topology.tiers[0].capacity, Pages(985_624 / 4));
    assert_eq!(topology.tiers[1].load_latency, Duration::from_nanos(250));
    assert_eq!(topology.tiers[0].watermarks.low, Pages(1772));
    assert_eq!((host.tier_of(1), host.tier_of(9)), (Some(TierId(1)), None));
    let (roots, mut reader, mut pages) =
        (fixture::machine("hmat-two-tier"), Reader::default(), vec![Pages(1); 5]);
    host.free(&roots, &mut reader, &mut pages).unwrap();
    assert_eq!(pages, [Pages(412_340 / 4), Pages(1_019_204 / 4)]);
    // The lists of two CPUs in each zone.
    let mut withheld = Vec::new();
    host.read_zones(&roots, &mut reader, &mut pages, &mut withheld);
    assert_eq!(pages, [Pages(4 * 63), Pages(2 * 63)]);
    // Without a reserve these are the high watermarks.
    assert_eq!(withheld, [Pages(2126), Pages(2227)]);
}

#[test]
fn assumed_figures_are_marked_as_assumed() {
    let host = found("cxl-three-tier");
    assert_eq!(host.tiers[0].nodes, [0, 1]);
    assert_eq!(host.tiers[0].capacity, Pages(65_806_352 / 4 + 66_045_060 / 4));
    assert_eq!(host.tiers[1].figures.load_latency.source, FigureSource::Firmware);
    let last = host.tiers[2].figures.load_latency;
    assert_eq!(last.source, FigureSource::Assumed);
    assert!(last.value > host.tiers[1].figures.load_latency.value);
}

#[test]
fn one_tier_differs_from_one_node() {
    assert_eq!(found("one-node").suitability(), Suitability::OneNode { node: 0 });
    let Suitability::OneTier { found, lines } = found("flat-two-node").suitability() else {
        panic!()
    };
    assert!(found.contains("although node 1 has no CPUs"), "{found}");
    assert!(lines.contains("nodes = [1]"));
}

#[test]
fn configured_tiers_split_a_flat_machine() {
    let roots = fixture::machine("flat-two-node");
    let list = listed(&[("DRAM", &[0]), ("CXL", &[1])]);
    let host = LinuxHost::discover(&roots, Some(&list)).unwrap();
    assert_eq!(host.suitability(), Suitability::Tiered);
    assert_eq!((host.tier_of(0), host.tier_of(1)), (Some(TierId(0)), Some(TierId(1))));
    let wrong = listed(&[("DRAM", &[0]), ("CXL", &[2])]);
    assert!(LinuxHost::discover(&roots, Some(&wrong)).is_err());
}

#[test]
fn what_the_kernel_mixes_is_doubted() {
    let (_dir, roots) = fixture::copy("cxl-three-tier");
    let tiering = roots.sys.join("devices/virtual/memory_tiering");
    fixture::put(&tiering.join("memory_tier4/nodelist"), "0-2\n");
    fixture::put(&tiering.join("memory_tier22/nodelist"), "\n");
    let doubts = LinuxHost::discover(&roots, None).unwrap().doubts();
    assert!(doubts[0].starts_with("tier memory_tier4 holds node 2, without CPUs"), "{doubts:?}");
    let list = listed(&[("DRAM", &[0, 1]), ("CXL", &[2])]);
    let doubts = LinuxHost::discover(&roots, Some(&list)).unwrap().doubts();
    assert_eq!(doubts.len(), 1);
    assert!(doubts[0].starts_with("memory of node 3 is in no tier"), "{doubts:?}");
}

#[test]
fn offline_node_leaves_tier_and_returns() {
    let (_dir, roots) = fixture::copy("cxl-three-tier");
    let mut host = LinuxHost::discover(&roots, None).unwrap();
    let before = host.clone();
    assert_eq!(host.refresh(&roots).unwrap(), []);
    assert_eq!(host, before);

    offline(&roots, "0-1,3\n", 2);
    fixture::put(&roots.sys.join("devices/virtual/memory_tiering/memory_tier22/nodelist"), "\n");
    let (tier, gone) = (TierId(1), before.tiers[1].capacity);
    let changes = host.refresh(&roots).unwrap();
    assert_eq!(
        changes,
        [TierChange::Left { node: 2, tier }, TierChange::Resized { tier, before: gone }]
    );
    assert_eq!((host.tiers.len(), host.tiers[1].capacity), (3, Pages(0)));
    assert_eq!(host.tiers[1].figures, before.tiers[1].figures);
    assert_eq!(host.tiers[2].figures, before.tiers[2].figures);
    let mut free = Vec::new();
    host.free(&roots, &mut Reader::default(), &mut free).unwrap();
    assert_eq!(free[1], Pages(0));

    let (_other, whole) = fixture::copy("cxl-three-tier");
    let changes = host.refresh(&whole).unwrap();
    assert_eq!(changes[0], TierChange::Joined { node: 2, tier });
    assert_eq!(host, before);
}

#[test]
fn an_unknown_node_is_reported_once() {
    let (_dir, roots) = fixture::copy("cxl-three-tier");
    let mut host = LinuxHost::discover(&roots, None).unwrap();
    let tiering = roots.sys.join("devices/virtual/memory_tiering");
    fixture::put(&tiering.join("memory_tier30/nodelist"), "\n");
    fixture::put(&tiering.join("memory_tier31/nodelist"), "3\n");
    let changes = host.refresh(&roots).unwrap();
    assert!(changes.contains(&TierChange::Left { node: 3, tier: TierId(2) }));
    assert!(changes.contains(&TierChange::Outside { node: 3 }));
    assert_eq!(host.refresh(&roots).unwrap(), []);
}

#[test]
fn a_failed_refresh_changes_nothing() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let mut host = LinuxHost::discover(&roots, None).unwrap();
    let before = host.clone();
    fixture::put(&nodes::directory(&roots).join("node1/meminfo"), "Node 1 MemTotal: ? kB\n");
    assert!(host.refresh(&roots).is_err());
    assert_eq!(host, before);
}

#[test]
fn kernels_without_tiers_or_zoneinfo_are_served() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    std::fs::remove_dir_all(roots.sys.join("devices/virtual/memory_tiering")).unwrap();
    std::fs::remove_file(roots.proc.join("zoneinfo")).unwrap();
    let host = LinuxHost::discover(&roots, None).unwrap();
    assert_eq!(host.tiers[0].name, "memory");
    assert!(matches!(host.suitability(), Suitability::OneTier { .. }));
    let size = host.tiers[0].capacity;
    assert_eq!(host.tiers[0].watermarks, Watermarks::kernel(size, size, host.page_size, 10));
}

#[test]
fn impossible_tier_counts_are_refused() {
    let (_dir, roots) = fixture::copy("one-node");
    for rank in 10..20 {
        let tier = format!("devices/virtual/memory_tiering/memory_tier{rank}/nodelist");
        fixture::put(&roots.sys.join(tier), "0\n");
    }
    let message = LinuxHost::discover(&roots, None).unwrap_err().to_string();
    assert!(message.contains("the kernel has 11 memory tiers"), "{message}");
    fixture::put(&nodes::directory(&roots).join("has_memory"), "\n");
    let message = LinuxHost::discover(&roots, None).unwrap_err().to_string();
    assert!(message.contains("no NUMA node with memory is online"), "{message}");
}

#[test]
fn fingerprint_follows_nodes_sizes_and_reserves() {
    let (_dir, roots) = fixture::copy("hmat-two-tier");
    let host = LinuxHost::discover(&roots, None).unwrap();
    let (mut reader, mut report) = (Reader::default(), Fingerprint::default());
    let mut changed = || host.has_changed(&roots, &mut reader, &mut report).unwrap();
    assert!(changed(), "nothing was known");
    assert!(!changed());
    let nodes = roots.sys.join("devices/system/node");
    let tiers = roots.sys.join("devices/virtual/memory_tiering");
    let meminfo = "Node 1 MemTotal:  512 kB\nNode 1 MemFree:  12 kB\n";
    for (file, text) in [
        (nodes.join("node1/meminfo"), meminfo),
        (tiers.join("memory_tier62/nodelist"), "\n"),
        (roots.proc.join("sys/vm/min_free_kbytes"), "90000\n"),
        (nodes.join("online"), "0\n"),
    ] {
        fixture::put(&file, text);
        assert!(changed(), "{}", file.display());
        assert!(!changed());
    }
    // Free memory changes all the time.
    fixture::put(&nodes.join("node1/meminfo"), &meminfo.replace(" 12 kB", " 13 kB"));
    assert!(!changed());
}
