//! The suitability of this machine for tiering, and the remedy where the kernel has one tier only.

use std::fmt;

use tierwise_core::topology::Topology;

use super::nodes::MemoryNode;

/// The suitability of this machine's memory for tiering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Suitability {
    /// Two or more tiers.
    Tiered,
    /// One memory node: pages can only be observed, not moved.
    OneNode {
        /// The node.
        node: u32,
    },
    /// Several nodes in one tier.
    OneTier {
        /// The finding, in one or two sentences.
        found: String,
        /// The configuration lines that would make tiers of the nodes, if their guess is right.
        lines: String,
    },
}

impl fmt::Display for Suitability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tiered => write!(f, "this machine has memory tiers"),
            Self::OneNode { node } => write!(
                f,
                "all memory is on node {node}, so there is nowhere to move a page to: Tierwise \
                 only observes"
            ),
            Self::OneTier { found, lines } => write!(
                f,
                "{found}. Tierwise does not guess which is faster; if it is as the firmware's \
                 distances suggest, write into the configuration:\n\n\
                 {lines}"
            ),
        }
    }
}

impl Suitability {
    /// The result for nodes that are all in one tier.
    pub(super) fn of_one_tier(tier: &str, nodes: &[MemoryNode]) -> Self {
        if let [node] = nodes {
            return Self::OneNode { node: node.id };
        }
        let without = nodes.iter().filter(|n| !n.has_cpu).map(|n| n.id).collect::<Vec<_>>();
        let all = numbers(&nodes.iter().map(|n| n.id).collect::<Vec<_>>());
        let mut found = format!("nodes {all} are all in one memory tier ({tier})");
        if !without.is_empty() && without.len() < nodes.len() {
            let (node, have) = if without.len() == 1 { ("node", "has") } else { ("nodes", "have") };
            found += &format!(", although {node} {} {have} no CPUs", numbers(&without));
        }
        Self::OneTier { found, lines: lines(&guess(nodes)) }
    }
}

/// Formats a list of nodes for a sentence.
pub(super) fn numbers(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the nodes in the order of their likely speed. Memory beside CPUs is faster; memory
/// without CPUs is slower the farther it is from the nearest CPU. If all nodes are alike, the first
/// one counts as near.
fn guess(nodes: &[MemoryNode]) -> Vec<Vec<u32>> {
    let mixed = nodes.iter().any(|n| n.has_cpu) && nodes.iter().any(|n| !n.has_cpu);
    let near: Vec<u32> = if mixed {
        nodes.iter().filter(|n| n.has_cpu).map(|n| n.id).collect()
    } else {
        nodes.iter().take(1).map(|n| n.id).collect()
    };
    let distance = |node: &MemoryNode| near.iter().filter_map(|&n| node.distance(n)).min();
    let mut far: Vec<(Option<u32>, u32)> =
        nodes.iter().filter(|n| !near.contains(&n.id)).map(|n| (distance(n), n.id)).collect();
    far.sort_unstable();
    let mut tiers = vec![near];
    let mut last = None;
    for (distance, node) in far {
        if last == Some(distance) || tiers.len() == Topology::MAX_TIERS {
            if let Some(tier) = tiers.last_mut() {
                tier.push(node);
            }
        } else {
            tiers.push(vec![node]);
        }
        last = Some(distance);
    }
    tiers
}

fn lines(tiers: &[Vec<u32>]) -> String {
    let name = |index: usize| match index {
        0 => "fast".to_owned(),
        1 => "slow".to_owned(),
        n => format!("slow-{n}"),
    };
    let table = |(index, nodes): (usize, &Vec<u32>)| {
        format!("[[tier]]\nname = \"{}\"\nnodes = [{}]\n", name(index), numbers(nodes))
    };
    tiers.iter().enumerate().map(table).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierwise_core::units::Bytes;

    fn node(id: u32, has_cpu: bool, distances: &[u32]) -> MemoryNode {
        let distances = (0..).zip(distances.iter().copied()).collect();
        MemoryNode { id, has_cpu, total: Bytes(1 << 30), free: Bytes(0), distances }
    }

    #[test]
    fn cpuless_memory_is_guessed_slow_by_distance() {
        let nodes = [
            node(0, true, &[10, 21, 24, 28]),
            node(1, true, &[21, 10, 28, 17]),
            node(2, false, &[24, 28, 10, 30]),
            node(3, false, &[28, 17, 30, 10]),
        ];
        assert_eq!(guess(&nodes), [vec![0, 1], vec![3], vec![2]]);
    }

    #[test]
    fn alike_nodes_are_guessed_from_the_first() {
        let nodes = [
            node(0, true, &[10, 21, 21]),
            node(1, true, &[21, 10, 21]),
            node(2, true, &[21, 21, 10]),
        ];
        assert_eq!(guess(&nodes), [vec![0], vec![1, 2]]);
        // No distance is known: each node still has one answer.
        assert_eq!(guess(&[node(0, false, &[]), node(5, false, &[])]), [vec![0], vec![5]]);
    }

    #[test]
    fn tiers_never_exceed_page_tables_limit() {
        let distances: Vec<u32> = (1..=12).map(|n| n * 10).collect();
        let far = |id| node(id, false, &[(id + 1) * 10]);
        let mut nodes = vec![node(0, true, &distances)];
        nodes.extend((1..12).map(far));
        let tiers = guess(&nodes);
        assert_eq!(tiers.len(), Topology::MAX_TIERS);
        assert_eq!(tiers.iter().flatten().count(), 12);
    }

    #[test]
    fn the_text_names_what_to_write() {
        let nodes = [node(0, true, &[10, 20]), node(1, false, &[20, 10])];
        let message = Suitability::of_one_tier("memory_tier4", &nodes).to_string();
        assert!(
            message.starts_with(
                "nodes 0, 1 are all in one memory tier (memory_tier4), although node 1 has no \
                 CPUs. Tierwise does not guess"
            ),
            "{message}"
        );
        assert!(message.ends_with(
            "[[tier]]\nname = \"fast\"\nnodes = [0]\n\n[[tier]]\nname = \"slow\"\nnodes = [1]\n"
        ));
        let one = Suitability::of_one_tier("memory_tier4", &nodes[..1]);
        assert_eq!(one, Suitability::OneNode { node: 0 });
        assert!(one.to_string().contains("only observes"));
    }
}
