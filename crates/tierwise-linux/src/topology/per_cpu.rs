//! Pages on the CPUs' own lists (`pagesets` of `/proc/zoneinfo`): free, and not counted as
//! `MemFree`. A CPU keeps back what it just freed, up to a hundredth of a zone and more
//! (`percpu_pagelist_high`): after a demotion tens of megabytes of the fast node seem to be in
//! somebody's use that are in nobody's.

use tierwise_core::units::Pages;

use crate::process::Reader;
use crate::roots::Roots;

/// Calls with each list: its node, and its base pages. With none if the kernel does not say; that
/// costs nothing but accuracy.
pub fn listed(roots: &Roots, reader: &mut Reader, list: impl FnMut(u32, Pages)) {
    if let Ok(text) = reader.text(&roots.proc, format_args!("zoneinfo")) {
        each(text, list);
    }
}

/// Reads the text.
///
/// ```
/// use tierwise_linux::topology::per_cpu::each;
///
/// let text = "Node 0, zone   Normal\n  pages free     9\n  pagesets\n    cpu: 0\n              count:    40\n              high:     60\n    \
///             cpu: 1\n              count:    2\nNode 1, zone  Movable\n    cpu: 0\n              count:    7\n";
/// let mut lists = Vec::new();
/// each(text, |node, pages| lists.push((node, pages.0)));
/// assert_eq!(lists, [(0, 40), (0, 2), (1, 7)]);
/// each("Node x, zone DMA\n count: 3\n", |_, _| panic!("of no node"));
/// ```
pub fn each(text: &str, mut list: impl FnMut(u32, Pages)) {
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
