//! The operator's own list of tiers, for machines whose kernel has all nodes in one tier.
//!
//! ```toml
//! [[tier]]
//! name = "DRAM"
//! nodes = [0]
//!
//! [[tier]]
//! name = "CXL"
//! nodes = [1]
//! latency_ns = 250
//! bandwidth_gbps = 30
//! ```

use serde::{Deserialize, Serialize};
use tierwise_core::topology::Topology;

use super::nodes::MemoryNode;
use crate::error::{LinuxError, Result};

/// The tiers, fastest first. Pages on nodes that no tier names stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// Fastest first.
    #[serde(rename = "tier")]
    pub tiers: Vec<TierOverride>,
}

/// One tier as the operator describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierOverride {
    /// Name for display.
    pub name: String,
    /// The kernel's numbers of the tier's nodes.
    pub nodes: Vec<u32>,
    /// Measured latency of a load on an idle machine, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<f64>,
    /// Measured peak bandwidth in 10^9 bytes per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_gbps: Option<f64>,
}

impl Override {
    /// Checks that these tiers can consist of these nodes.
    ///
    /// # Errors
    /// The first tier that cannot, with the existing nodes.
    pub fn check(&self, nodes: &[MemoryNode]) -> Result<()> {
        if self.tiers.is_empty() || self.tiers.len() > Topology::MAX_TIERS {
            let what = format!("the configuration lists {} tiers", self.tiers.len());
            let remedy = format!("write 1 to {} of them, fastest first", Topology::MAX_TIERS);
            return Err(LinuxError::Missing { what, remedy });
        }
        for (index, tier) in self.tiers.iter().enumerate() {
            tier.check(nodes)?;
            let earlier = &self.tiers[..index];
            if let Some(other) = earlier.iter().find(|o| o.name == tier.name) {
                return Err(tier.wrong("stands twice", format!("rename one {:?}", other.name)));
            }
            for &node in &tier.nodes {
                if let Some(other) = earlier.iter().find(|o| o.nodes.contains(&node)) {
                    let what = format!("names node {node}, which tier {:?} names too", other.name);
                    return Err(tier.wrong(&what, "leave it in one of them".into()));
                }
            }
        }
        Ok(())
    }
}

impl TierOverride {
    fn check(&self, nodes: &[MemoryNode]) -> Result<()> {
        let there = || nodes.iter().map(|n| n.id.to_string()).collect::<Vec<_>>().join(", ");
        if self.nodes.is_empty() {
            let remedy = format!("name some of the nodes with memory: {}", there());
            return Err(self.wrong("names no node", remedy));
        }
        for (index, &node) in self.nodes.iter().enumerate() {
            if !nodes.iter().any(|n| n.id == node) {
                let what = format!("names node {node}, which is offline or has no memory");
                let remedy = format!("nodes with memory: {}; bring it online or drop it", there());
                return Err(self.wrong(&what, remedy));
            }
            if self.nodes[..index].contains(&node) {
                return Err(
                    self.wrong(&format!("names node {node} twice"), "once is enough".into())
                );
            }
        }
        for (key, figure) in
            [("latency_ns", self.latency_ns), ("bandwidth_gbps", self.bandwidth_gbps)]
        {
            // A million of either is no memory: a disk answers faster, and no bus is as wide.
            if let Some(found) = figure
                && !(found > 0.0 && found <= 1e6)
            {
                let remedy = "allowed: more than 0, up to 1000000; leave it out if it is not known";
                return Err(self.wrong(&format!("{key}: found {found}"), remedy.into()));
            }
        }
        Ok(())
    }

    fn wrong(&self, what: &str, remedy: String) -> LinuxError {
        LinuxError::Missing { what: format!("tier {:?}: {what}", self.name), remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{fixture, nodes};

    fn tier(name: &str, nodes: &[u32]) -> TierOverride {
        let (name, nodes) = (name.to_owned(), nodes.to_vec());
        TierOverride { name, nodes, latency_ns: None, bandwidth_gbps: None }
    }

    fn refusal(tiers: Vec<TierOverride>) -> String {
        let nodes = nodes::read(&fixture::machine("flat-two-node")).unwrap();
        Override { tiers }.check(&nodes).unwrap_err().to_string()
    }

    #[test]
    fn every_refusal_names_tier_and_remedy() {
        assert_eq!(
            refusal(vec![tier("DRAM", &[0]), tier("CXL", &[3])]),
            "tier \"CXL\": names node 3, which is offline or has no memory; nodes with memory: 0, \
             1; bring it online or drop it"
        );
        assert!(refusal(vec![]).contains("lists 0 tiers; write 1 to 7"));
        assert!(refusal(vec![tier("DRAM", &[])]).contains("names no node"));
        assert!(refusal(vec![tier("a", &[0, 0])]).contains("names node 0 twice"));
        let both = refusal(vec![tier("a", &[0]), tier("b", &[1, 0])]);
        assert!(both.contains("tier \"b\": names node 0, which tier \"a\" names too"), "{both}");
        assert!(refusal(vec![tier("a", &[0]), tier("a", &[1])]).contains("stands twice"));
        for wrong in [0.0, -3.0, f64::NAN, f64::INFINITY] {
            let message =
                refusal(vec![TierOverride { latency_ns: Some(wrong), ..tier("a", &[0]) }]);
            assert!(message.contains("latency_ns: found"), "{message}");
        }
    }

    #[test]
    fn keys_are_those_of_the_documentation() {
        let read = |text: &str| serde_json::from_str::<Override>(text);
        let list = read(r#"{"tier": [{"name": "DRAM", "nodes": [0], "latency_ns": 90}]}"#).unwrap();
        assert_eq!(list.tiers[0].latency_ns, Some(90.0));
        assert!(read(r#"{"tier": [{"name": "DRAM", "node": [0]}]}"#).is_err());
    }
}
