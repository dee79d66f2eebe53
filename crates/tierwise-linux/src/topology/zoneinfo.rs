//! `/proc/zoneinfo`: the kernel's watermarks of a node, the free pages on per-CPU lists, and those
//! that promotions leave.

use std::path::Path;

use tierwise_core::topology::Watermarks;
use tierwise_core::units::Pages;

use crate::error::{LinuxError, Result};

/// Returns the watermarks of every node, summed over its zones, in base pages, ascending by node. A
/// kernel that does not print `promo` (up to 6.12) has it one step above `high`
/// (`__setup_per_zone_wmarks`).
///
/// # Errors
/// A watermark is no number, or there is none at all.
pub fn watermarks(path: &Path, text: &str) -> Result<Vec<(u32, Watermarks)>> {
    let mut nodes: Vec<(u32, Watermarks)> = Vec::new();
    let mut zone = Zone::default();
    for (index, line) in text.lines().enumerate() {
        let bad = |expected| LinuxError::Format {
            path: path.to_owned(),
            line: Some(index + 1),
            found: format!("{line:?}"),
            expected,
        };
        if let Some(rest) = line.strip_prefix("Node ") {
            let node = rest.split_once(',').and_then(|(n, _)| n.parse().ok());
            let node = node.ok_or_else(|| bad("a zone such as \"Node 0, zone Normal\""))?;
            zone.end(&mut nodes);
            zone = Zone { node: Some(node), ..Zone::default() };
            continue;
        }
        let mut words = line.split_whitespace();
        let (Some(key), Some(value), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        if let Some(mark) = zone.mark(key) {
            *mark = Some(value.parse().map_err(|_| bad("a number of pages"))?);
        }
    }
    zone.end(&mut nodes);
    if nodes.is_empty() {
        return Err(LinuxError::Format {
            path: path.to_owned(),
            line: None,
            found: "no zone with watermarks".into(),
            expected: "min, low and high of every zone",
        });
    }
    Ok(nodes)
}

/// The watermarks of one zone read so far.
#[derive(Debug, Default)]
struct Zone {
    node: Option<u32>,
    min: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    promo: Option<u64>,
}

impl Zone {
    /// Returns the field of a row. `high:` of the per-CPU page sets ends with a colon and does not
    /// belong here.
    fn mark(&mut self, key: &str) -> Option<&mut Option<u64>> {
        match key {
            "min" => Some(&mut self.min),
            "low" => Some(&mut self.low),
            "high" => Some(&mut self.high),
            "promo" => Some(&mut self.promo),
            _ => None,
        }
    }

    /// Adds the zone to its node.
    fn end(&self, nodes: &mut Vec<(u32, Watermarks)>) {
        let (Some(node), Some(min), Some(low), Some(high)) =
            (self.node, self.min, self.low, self.high)
        else {
            return;
        };
        let promo = self.promo.unwrap_or(high.saturating_add(high.saturating_sub(low)));
        let at = nodes.partition_point(|&(n, _)| n < node);
        if nodes.get(at).is_none_or(|&(n, _)| n != node) {
            nodes.insert(at, (node, Watermarks::NONE));
        }
        let sum = &mut nodes[at].1;
        for (mark, more) in [
            (&mut sum.min, min),
            (&mut sum.low, low),
            (&mut sum.high, high),
            (&mut sum.promo, promo),
        ] {
            *mark = Pages(mark.0.saturating_add(more));
        }
    }
}

/// Calls `list` for each per-CPU list of free pages (`pagesets`) with its node and base pages.
/// `MemFree` does not count them, and a CPU keeps up to a hundredth of a zone and
/// more (`percpu_pagelist_high`): after a demotion these are tens of megabytes of the fast node.
///
/// ```
/// use tierwise_linux::topology::zoneinfo::per_cpu_lists;
///
/// let text = "Node 0, zone   Normal\n  pages free     9\n  pagesets\n    cpu: 0\n\
///                           count:    40\n              high:     60\n    \
///             cpu: 1\n              count:    2\nNode 1, zone  Movable\n    cpu: 0\n\
///                           count:    7\n";
/// let mut lists = Vec::new();
/// per_cpu_lists(text, |node, pages| lists.push((node, pages.0)));
/// assert_eq!(lists, [(0, 40), (0, 2), (1, 7)]);
/// per_cpu_lists("Node x, zone DMA\n count: 3\n", |_, _| panic!("of no node"));
/// ```
pub fn per_cpu_lists(text: &str, mut list: impl FnMut(u32, Pages)) {
    let mut node = None;
    for line in text.lines() {
        if let Some(zone) = line.strip_prefix("Node ") {
            node = zone.split(',').next().and_then(|number| number.parse().ok());
        } else if let Some(count) = line.trim_start().strip_prefix("count:")
            && let (Some(node), Ok(pages)) = (node, count.trim().parse())
        {
            list(node, Pages(pages));
        }
    }
}

/// Calls `zone` for each zone with its node and the free base pages that a promotion leaves: those
/// up to the high watermark and the zone's reserve (`migrate_balanced_pgdat`). A low zone keeps its
/// reserve for what can use no other (`lowmem_reserve`), so that all of its pages may be left.
///
/// ```
/// use tierwise_linux::topology::zoneinfo::withheld;
///
/// let text = "Node 0, zone DMA\n pages free 1300\n high 20\n protection: (0, 1900, 1900)\n\
///             Node 0, zone DMA32\n pages free 4000\n high 700\n protection: (0, 0, 0)\n";
/// let mut zones = Vec::new();
/// withheld(text, |node, pages| zones.push((node, pages.0)));
/// assert_eq!(zones, [(0, 1300), (0, 700)]);
/// ```
pub fn withheld(text: &str, mut zone: impl FnMut(u32, Pages)) {
    let mut node: Option<u32> = None;
    let (mut free, mut high) = (0_u64, 0_u64);
    for line in text.lines() {
        let line = line.trim_start();
        let number = |prefix| line.strip_prefix(prefix).and_then(|n| n.trim().parse().ok());
        if let Some(name) = line.strip_prefix("Node ") {
            node = name.split(',').next().and_then(|number| number.parse().ok());
            (free, high) = (0, 0);
        } else if let Some(pages) = number("pages free") {
            free = pages;
        } else if let Some(pages) = number("high ") {
            high = pages;
        } else if let Some(list) = line.strip_prefix("protection:")
            && let Some(node) = node
        {
            // It ascends with the zones that an allocation could use, and promotions can use all.
            let numbers = list.split(|c: char| !c.is_ascii_digit());
            let reserve = numbers.filter_map(|n| n.parse::<u64>().ok()).max().unwrap_or(0);
            zone(node, Pages(free.min(high.saturating_add(reserve))));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file;
    use crate::topology::fixture;

    fn of(name: &str) -> Vec<(u32, Watermarks)> {
        let path = fixture::machine(name).proc.join("zoneinfo");
        watermarks(&path, &file::text(&path).unwrap()).unwrap()
    }

    #[test]
    fn the_zones_of_a_node_add_up() {
        let nodes = of("hmat-two-tier");
        assert_eq!(nodes.iter().map(|n| n.0).collect::<Vec<_>>(), [0, 1]);
        let marks = nodes[0].1;
        assert_eq!((marks.min, marks.low, marks.high), (Pages(1418), Pages(1772), Pages(2126)));
        // Not printed by 6.12: one step above, zone by zone.
        assert_eq!(marks.promo, Pages(31 + 5 + 2095 + 349));
    }

    #[test]
    fn promo_is_read_where_it_is_printed() {
        assert_eq!(of("one-node")[0].1.promo, Pages(24 + 3479 + 25_447));
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let path = Path::new("zoneinfo");
        let message = |text: &str| watermarks(path, text).unwrap_err().to_string();
        assert!(
            message("Node x, zone DMA\n").starts_with("zoneinfo:1: found \"Node x, zone DMA\"")
        );
        assert!(message("Node 0, zone DMA\n  min lots\n").starts_with("zoneinfo:2: found"));
        assert!(message("").contains("no zone with watermarks"));
    }

    proptest! {
        #[test]
        fn no_zoneinfo_makes_it_panic(text in "(Node [0-9]{0,3}, zone|  (min|low|high|promo) \
                                   +[0-9]{0,21}|.{0,20}|\n\
                                   ){0,40}") {
            let _ = watermarks(Path::new("zoneinfo"), &text);
        }
    }
}
