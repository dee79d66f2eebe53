//! Pages on the processors' own lists (`pagesets` of `/proc/zoneinfo`): free, and not counted as `MemFree`. A processor keeps
//! back what it just freed, up to a hundredth of a zone and more (`percpu_pagelist_high`): after a demotion tens of megabytes of the fast node seem
//! to be in somebody's use that are in nobody's.

use tierwise_core::units::Pages;

use crate::file;
use crate::roots::Roots;

/// Base pages by node, ascending by node; empty if the kernel does not say. That costs nothing but accuracy.
pub fn listed(roots: &Roots) -> Vec<(u32, Pages)> {
    file::text(&roots.proc.join("zoneinfo")).map_or_else(|_| Vec::new(), |text| sum(&text))
}

/// Adds up the lists of each node's zones.
///
/// ```
/// use tierwise_core::units::Pages;
/// use tierwise_linux::topology::per_cpu::sum;
///
/// let text = "Node 0, zone   Normal\n  pages free     9\n  pagesets\n    cpu: 0\n              count:    40\n              high:     60\n    \
///             cpu: 1\n              count:    2\nNode 1, zone  Movable\n    cpu: 0\n              count:    7\n";
/// assert_eq!(sum(text), [(0, Pages(42)), (1, Pages(7))]);
/// assert_eq!(sum("Node x, zone DMA\n count: 3\n"), []);
/// ```
pub fn sum(text: &str) -> Vec<(u32, Pages)> {
    let mut nodes: Vec<(u32, Pages)> = Vec::new();
    let mut at = None;
    for line in text.lines() {
        if let Some(zone) = line.strip_prefix("Node ") {
            let node = zone.split(',').next().and_then(|number| number.parse().ok());
            at = node.map(|node| match nodes.binary_search_by_key(&node, |&(known, _)| known) {
                Ok(found) => found,
                Err(place) => {
                    nodes.insert(place, (node, Pages(0)));
                    place
                }
            });
        } else if let Some(count) = line.trim_start().strip_prefix("count:")
            && let (Some(at), Ok(pages)) = (at, count.trim().parse())
        {
            let (_, known) = &mut nodes[at];
            *known = Pages(known.0.saturating_add(pages));
        }
    }
    nodes
}
