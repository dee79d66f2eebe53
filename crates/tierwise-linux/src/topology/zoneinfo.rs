//! The kernel's own watermarks of a node, from `/proc/zoneinfo`: the sum over the node's zones.

use std::path::Path;

use tierwise_core::topology::Watermarks;
use tierwise_core::units::Pages;

use crate::error::{LinuxError, Result};

/// The watermarks of every node, in base pages, ascending by node. A kernel that does not print
/// `promo` (up to 6.12) has it one step above `high` all the same (`__setup_per_zone_wmarks`).
///
/// # Errors
/// A watermark that is no number, or none at all.
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

/// The watermarks of one zone, as far as they were read.
#[derive(Debug, Default)]
struct Zone {
    node: Option<u32>,
    min: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    promo: Option<u64>,
}

impl Zone {
    /// Where a row belongs. `high:` of the CPUs' page sets ends with a colon and is none of
    /// ours.
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
        let said = |text: &str| watermarks(path, text).unwrap_err().to_string();
        assert!(said("Node x, zone DMA\n").starts_with("zoneinfo:1: found \"Node x, zone DMA\""));
        assert!(said("Node 0, zone DMA\n  min lots\n").starts_with("zoneinfo:2: found"));
        assert!(said("").contains("no zone with watermarks"));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(Node [0-9]{0,3}, zone|  (min|low|high|promo) \
                                   +[0-9]{0,21}|.{0,20}|\n\
                                   ){0,40}") {
            let _ = watermarks(Path::new("zoneinfo"), &text);
        }
    }
}
