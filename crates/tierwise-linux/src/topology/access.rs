//! Latency and bandwidth of a node's memory from the firmware (HMAT, or a CXL device's CDAT):
//! `nodeN/accessM/initiators/read_latency` and similar files
//! (`Documentation/admin-guide/mm/numaperf.rst`).
//!
//! Latencies are nanoseconds and bandwidths MiB/s. Class 0 is the best initiator of any kind, which
//! may be a device. Class 1 is the best one with CPUs; programs experience its figures, so it is
//! read first.

use std::time::Duration;

use tierwise_core::units::Bandwidth;

use super::nodes;
use crate::error::Result;
use crate::file;
use crate::roots::Roots;

/// The firmware's figures of a node; `None` for a figure that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Latency of a load on an idle machine.
    pub read_latency: Option<Duration>,
    /// Latency of a store on an idle machine.
    pub write_latency: Option<Duration>,
    /// Peak bandwidth of reads.
    pub read_bandwidth: Option<Bandwidth>,
}

/// Reads the firmware's figures of a node's memory.
///
/// # Errors
/// A file exists but holds no number.
pub fn read(roots: &Roots, node: u32) -> Result<Access> {
    let of_cpus = class(roots, node, 1)?;
    if of_cpus == Access::default() { class(roots, node, 0) } else { Ok(of_cpus) }
}

fn class(roots: &Roots, node: u32, class: u32) -> Result<Access> {
    let directory = nodes::directory(roots).join(format!("node{node}/access{class}/initiators"));
    let figure = |name: &str| -> Result<Option<u64>> {
        match file::value::<u64>(&directory.join(name), "a number") {
            Err(e) if e.is_gone() => Ok(None),
            // Firmware that leaves an entry of the table empty reports zero.
            other => other.map(|n| (n > 0).then_some(n)),
        }
    };
    Ok(Access {
        read_latency: figure("read_latency")?.map(Duration::from_nanos),
        write_latency: figure("write_latency")?.map(Duration::from_nanos),
        read_bandwidth: figure("read_bandwidth")?.map(|n| Bandwidth(n.saturating_mul(1 << 20))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fixture;

    #[test]
    fn nanoseconds_and_mebibytes_a_second() {
        let access = read(&fixture::machine("hmat-two-tier"), 1).unwrap();
        assert_eq!(access.read_latency, Some(Duration::from_nanos(250)));
        assert_eq!(access.read_bandwidth, Some(Bandwidth(20_480 << 20)));
        // Without an HMAT there are no such files.
        assert_eq!(read(&fixture::machine("flat-two-node"), 1).unwrap(), Access::default());
        // An older kernel only has class 0.
        let old = read(&fixture::machine("cgroup-v1"), 0).unwrap();
        assert_eq!(old.read_latency, Some(Duration::from_nanos(90)));
    }

    #[test]
    fn cpu_figures_precede_device_figures() {
        let (_dir, roots) = fixture::copy("hmat-two-tier");
        let directory = nodes::directory(&roots).join("node1");
        fixture::put(&directory.join("access0/initiators/read_latency"), "70\n");
        assert_eq!(read(&roots, 1).unwrap().read_latency, Some(Duration::from_nanos(250)));
        fixture::put(&directory.join("access1/initiators/write_latency"), "0\n");
        assert_eq!(read(&roots, 1).unwrap().write_latency, None);
        fixture::put(&directory.join("access1/initiators/read_latency"), "slow\n");
        let message = read(&roots, 1).unwrap_err().to_string();
        assert!(message.contains("read_latency: found \"slow\""), "{message}");
    }
}
