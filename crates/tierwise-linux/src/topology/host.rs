//! This host's memory tiers, from the kernel, the firmware and the operator.

use tierwise_core::topology::{Tier, Topology, Watermarks};
use tierwise_core::units::{Bytes, Pages, TierId};

use super::access::{self, Access};
use super::figures::Figures;
use super::fingerprint::Fingerprint;
use super::nodes::{self, MemoryNode};
use super::overrides::{Override, TierOverride};
use super::suitability::{Suitability, numbers};
use super::tiers::{self, KernelTier};
use super::zoneinfo;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Reader;
use crate::roots::Roots;

/// One tier of this host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostTier {
    /// The operator's name, else the kernel's: `memory_tier4`.
    pub name: String,
    /// Nodes that are online now, ascending. Empty when all went offline: the tier keeps its index.
    pub nodes: Vec<u32>,
    /// True if one of the nodes has CPUs.
    pub has_cpu: bool,
    /// Memory that the kernel's allocator manages, in base pages.
    pub capacity: Pages,
    /// The kernel's free-page thresholds, summed over the nodes.
    pub watermarks: Watermarks,
    /// Latency and bandwidth, with their sources.
    pub figures: Figures,
    belongs: Belongs,
}

/// Selects the nodes of a tier.
#[derive(Debug, Clone, PartialEq)]
enum Belongs {
    /// The nodes that the operator lists.
    Listed(TierOverride),
    /// The nodes of the kernel's `memory_tierN`.
    Rank(u32),
    /// All nodes: the kernel has no tiers.
    All,
}

/// This host.
#[derive(Debug, Clone, PartialEq)]
pub struct LinuxHost {
    /// Tiers, fastest first; [`TierId`] is the index, and does not change.
    pub tiers: Vec<HostTier>,
    /// Size of a base page in bytes.
    pub page_size: Bytes,
    /// Nodes with memory outside every tier; their pages stay.
    pub outside: Vec<u32>,
    nodes: Vec<MemoryNode>,
}

/// A change that [`LinuxHost::refresh`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierChange {
    /// A node went offline, or the kernel moved it to another tier.
    Left {
        /// The node.
        node: u32,
        /// Tier that it left.
        tier: TierId,
    },
    /// A node joined a tier.
    Joined {
        /// The node.
        node: u32,
        /// The tier.
        tier: TierId,
    },
    /// A node with memory belongs to none of the tiers found at start: its memory is used after a
    /// restart.
    Outside {
        /// The node.
        node: u32,
    },
    /// A tier's memory grew or shrank.
    Resized {
        /// The tier.
        tier: TierId,
        /// Its memory before, in base pages.
        before: Pages,
    },
}

impl LinuxHost {
    /// Whether several nodes have CPUs: between these the kernel's NUMA balancing has a purpose.
    pub fn has_several_cpu_nodes(&self) -> bool {
        self.nodes.iter().filter(|node| node.has_cpu).count() > 1
    }

    /// Finds the tiers: the operator's list if there is one, else the kernel's.
    ///
    /// ```no_run
    /// use tierwise_linux::roots::Roots;
    /// use tierwise_linux::topology::{LinuxHost, Suitability};
    ///
    /// let host = LinuxHost::discover(&Roots::default(), None)?;
    /// if host.suitability() == Suitability::Tiered {
    ///     for tier in &host.tiers {
    ///         let latency = tier.figures.load_latency.value;
    ///         println!("{}: nodes {:?}, {latency:?}", tier.name, tier.nodes);
    ///     }
    /// } else {
    ///     println!("{}", host.suitability());
    /// }
    /// # Ok::<(), tierwise_linux::error::LinuxError>(())
    /// ```
    ///
    /// # Errors
    /// The kernel has no NUMA support, a kernel file is malformed, or the operator's list does not
    /// fit the machine.
    pub fn discover(roots: &Roots, list: Option<&Override>) -> Result<Self> {
        let nodes = nodes::read(roots)?;
        if nodes.is_empty() {
            return Err(LinuxError::Missing {
                what: "no NUMA node with memory is online".into(),
                remedy: "bring one online in /sys/devices/system/memory".into(),
            });
        }
        let kernel = tiers::read(roots)?;
        let named = match list {
            Some(list) => {
                list.check(&nodes)?;
                list.tiers.iter().map(|t| (t.name.clone(), Belongs::Listed(t.clone()))).collect()
            }
            None => of_kernel(kernel.as_deref())?,
        };
        let page_size = Bytes(rustix::param::page_size() as u64);
        let mut host = Self { tiers: Vec::new(), page_size, outside: Vec::new(), nodes };
        for (name, belongs) in named {
            let tier = host.tier(roots, name, belongs, kernel.as_deref())?;
            host.tiers.push(tier);
        }
        host.read_watermarks(roots);
        host.outside = host.nowhere();
        Ok(host)
    }

    /// Reads the nodes and their sizes again. Tiers keep their number and name; a tier whose nodes
    /// all went offline stays, with no memory.
    ///
    /// # Errors
    /// A kernel file is malformed. The host is unchanged then.
    pub fn refresh(&mut self, roots: &Roots) -> Result<Vec<TierChange>> {
        let kernel = tiers::read(roots)?;
        let mut fresh = self.clone();
        fresh.nodes = nodes::read(roots)?;
        let mut changes = Vec::new();
        for index in 0..self.tiers.len() {
            let (id, old) = (TierId(index as u8), &self.tiers[index]);
            let (name, belongs) = (old.name.clone(), old.belongs.clone());
            let mut tier = fresh.tier(roots, name, belongs, kernel.as_deref())?;
            if tier.nodes.is_empty() {
                tier.figures = old.figures;
            }
            let absent = |from: &[u32], node: &u32| !from.contains(node);
            let left = old.nodes.iter().filter(|n| absent(&tier.nodes, n));
            changes.extend(left.map(|&node| TierChange::Left { node, tier: id }));
            let joined = tier.nodes.iter().filter(|n| absent(&old.nodes, n));
            changes.extend(joined.map(|&node| TierChange::Joined { node, tier: id }));
            if tier.capacity != old.capacity {
                changes.push(TierChange::Resized { tier: id, before: old.capacity });
            }
            fresh.tiers[index] = tier;
        }
        fresh.read_watermarks(roots);
        fresh.outside = fresh.nowhere();
        let new = fresh.outside.iter().filter(|n| !self.outside.contains(n));
        changes.extend(new.map(|&node| TierChange::Outside { node }));
        *self = fresh;
        Ok(changes)
    }

    /// Returns the machine as the engine's topology.
    pub fn topology(&self) -> Topology {
        let tier = |tier: &HostTier| Tier {
            name: tier.name.clone(),
            capacity: tier.capacity,
            watermarks: tier.watermarks,
            load_latency: tier.figures.load_latency.value,
            store_latency: tier.figures.store_latency.value,
            bandwidth: tier.figures.bandwidth.value,
        };
        Topology { page_size: self.page_size, tiers: self.tiers.iter().map(tier).collect() }
    }

    /// Returns the tier of a node.
    pub fn tier_of(&self, node: u32) -> Option<TierId> {
        let index = self.tiers.iter().position(|t| t.nodes.contains(&node))?;
        Some(TierId(index as u8))
    }

    /// Replaces `out` by the free base pages of each tier. A node that just went offline has none.
    ///
    /// # Errors
    /// A node's `meminfo` is malformed.
    pub fn free(&self, roots: &Roots, reader: &mut Reader, out: &mut Vec<Pages>) -> Result<()> {
        out.clear();
        for tier in &self.tiers {
            let mut free = Pages(0);
            for &node in &tier.nodes {
                match nodes::free(roots, reader, node) {
                    Err(e) if e.is_gone() => {}
                    other => free += other?.in_pages(self.page_size),
                }
            }
            out.push(free);
        }
        Ok(())
    }

    /// Replaces `listed` by the base pages of each tier on per-CPU lists, which are free, but not
    /// part of [`LinuxHost::free`], and `withheld` by the free ones that promotions leave. Printing
    /// the lists costs the kernel more than any other file that is read here. A file that cannot be
    /// read yields no pages; that costs accuracy only.
    pub fn read_zones(
        &self,
        roots: &Roots,
        reader: &mut Reader,
        listed: &mut Vec<Pages>,
        withheld: &mut Vec<Pages>,
    ) {
        for out in [&mut *listed, &mut *withheld] {
            out.clear();
            out.resize(self.tiers.len(), Pages(0));
        }
        let Ok(text) = reader.text(&roots.proc, format_args!("zoneinfo")) else { return };
        let add = |out: &mut Vec<Pages>, node, pages| {
            if let Some(tier) = self.tier_of(node) {
                out[tier.index()] += pages;
            }
        };
        zoneinfo::per_cpu_lists(text, |node, pages| add(listed, node, pages));
        zoneinfo::withheld(text, |node, pages| add(withheld, node, pages));
    }

    /// True if data that [`LinuxHost::refresh`] reads has changed, by a few small files: the nodes,
    /// their tiers, their sizes, and the kernel's watermarks.
    /// `report` holds the last content.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn has_changed(
        &self,
        roots: &Roots,
        reader: &mut Reader,
        report: &mut Fingerprint,
    ) -> Result<bool> {
        report.start();
        for list in ["online", "has_memory"] {
            report.add(reader.text(&roots.sys, format_args!("devices/system/node/{list}"))?);
        }
        for tier in &self.tiers {
            if let Belongs::Rank(rank) = tier.belongs {
                let name =
                    format_args!("devices/virtual/memory_tiering/memory_tier{rank}/nodelist");
                report.add(reader.text_if_there(&roots.sys, name)?.unwrap_or_default());
            }
        }
        for mark in ["min_free_kbytes", "watermark_scale_factor"] {
            let name = format_args!("sys/vm/{mark}");
            report.add(reader.text_if_there(&roots.proc, name)?.unwrap_or_default());
        }
        for node in &self.nodes {
            match nodes::total(roots, reader, node.id) {
                Err(e) if e.is_gone() => report.add("gone"),
                other => report.add_number(other?.0),
            }
        }
        Ok(report.replace())
    }

    /// Returns whether this machine has memory tiers, and the reason if not.
    pub fn suitability(&self) -> Suitability {
        match &self.tiers[..] {
            [tier] => Suitability::of_one_tier(&tier.name, &self.nodes),
            _ => Suitability::Tiered,
        }
    }

    /// Returns warnings about tiers that look wrong although there are several; the operator should
    /// see them.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for tier in self.tiers.iter().filter(|t| t.has_cpu) {
            let bare = self.nodes.iter().filter(|n| !n.has_cpu && tier.nodes.contains(&n.id));
            let bare: Vec<u32> = bare.map(|n| n.id).collect();
            // With one tier, [`Suitability`] reports it.
            if !bare.is_empty() && self.tiers.len() > 1 {
                doubts.push(format!(
                    "tier {} holds node {}, without CPUs, beside nodes that have them; list the \
                     tiers in the configuration if that memory is slower",
                    tier.name,
                    numbers(&bare)
                ));
            }
        }
        if !self.outside.is_empty() {
            doubts.push(format!(
                "memory of node {} is in no tier and not managed; list the tiers in the \
                 configuration to use it",
                numbers(&self.outside)
            ));
        }
        doubts
    }

    /// Makes a tier of the existing nodes that belong to it.
    fn tier(
        &self,
        roots: &Roots,
        name: String,
        belongs: Belongs,
        kernel: Option<&[KernelTier]>,
    ) -> Result<HostTier> {
        let (listed, written) = match &belongs {
            Belongs::Listed(tier) => (Some(&tier.nodes[..]), Some(tier)),
            Belongs::Rank(rank) => {
                let tier = kernel.unwrap_or_default().iter().find(|t| t.rank == *rank);
                (Some(tier.map_or(&[][..], |t| &t.nodes)), None)
            }
            Belongs::All => (None, None),
        };
        let here = |n: &&MemoryNode| listed.is_none_or(|list| list.contains(&n.id));
        let present: Vec<&MemoryNode> = self.nodes.iter().filter(here).collect();
        let access = |n: &&MemoryNode| access::read(roots, n.id);
        let accesses = present.iter().map(access).collect::<Result<Vec<Access>>>()?;
        let above = self.tiers.iter().take_while(|t| t.name != name).last();
        let figures = Figures::of(written, &accesses, above.map(|t| &t.figures));
        Ok(HostTier {
            nodes: present.iter().map(|n| n.id).collect(),
            has_cpu: present.iter().any(|n| n.has_cpu),
            capacity: present.iter().map(|n| n.total.in_pages(self.page_size)).sum(),
            watermarks: Watermarks::NONE,
            figures,
            name,
            belongs,
        })
    }

    /// Reads the kernel's own watermarks, or derives them from the sizes as the kernel would if it
    /// does not show them.
    fn read_watermarks(&mut self, roots: &Roots) {
        let path = roots.proc.join("zoneinfo");
        let nodes = file::text(&path).and_then(|text| zoneinfo::watermarks(&path, &text));
        let nodes = nodes.unwrap_or_else(|error| {
            tracing::warn!(%error, "watermarks are derived from the sizes of the nodes");
            Vec::new()
        });
        let factor = roots.proc.join("sys/vm/watermark_scale_factor");
        // 10 is the kernel's default (Documentation/admin-guide/sysctl/vm.rst).
        let factor = file::value(&factor, "a number").unwrap_or(10);
        let machine = self.nodes.iter().map(|n| n.total.in_pages(self.page_size)).sum();
        for tier in &mut self.tiers {
            let of = |node: &u32| nodes.iter().find(|(n, _)| n == node).map(|(_, marks)| *marks);
            let shown: Option<Vec<Watermarks>> = tier.nodes.iter().map(of).collect();
            tier.watermarks = match shown {
                Some(marks) => sum(&marks),
                None => Watermarks::kernel(tier.capacity, machine, self.page_size, factor),
            };
        }
    }

    fn nowhere(&self) -> Vec<u32> {
        let ids = self.nodes.iter().map(|n| n.id);
        ids.filter(|&id| self.tier_of(id).is_none()).collect()
    }
}

/// Returns the kernel's tiers by name; a single tier for a kernel that has none.
fn of_kernel(kernel: Option<&[KernelTier]>) -> Result<Vec<(String, Belongs)>> {
    let tiers = kernel.unwrap_or_default();
    if tiers.is_empty() {
        return Ok(vec![("memory".into(), Belongs::All)]);
    }
    if tiers.len() > Topology::MAX_TIERS {
        return Err(LinuxError::Missing {
            what: format!("the kernel has {} memory tiers", tiers.len()),
            remedy: format!(
                "list the tiers in the configuration: Tierwise works with up to {}",
                Topology::MAX_TIERS
            ),
        });
    }
    Ok(tiers.iter().map(|t| (format!("memory_tier{}", t.rank), Belongs::Rank(t.rank))).collect())
}

fn sum(marks: &[Watermarks]) -> Watermarks {
    marks.iter().fold(Watermarks::NONE, |sum, more| Watermarks {
        min: sum.min + more.min,
        low: sum.low + more.low,
        high: sum.high + more.high,
        promo: sum.promo + more.promo,
    })
}

#[cfg(test)]
mod tests;
