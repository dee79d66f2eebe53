//! Addresses of services on this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::anyhow;

/// Converts a text to loopback addresses, without a resolver. The daemon reads only services on
/// this host.
pub(crate) fn loopback(address: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let here = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let port = address.strip_prefix("localhost:").and_then(|port| port.parse::<u16>().ok());
    if let Some(port) = port {
        return Ok(here.map(|ip| SocketAddr::new(ip, port)).into());
    }
    let parsed = address.parse::<SocketAddr>().ok().filter(|address| address.ip().is_loopback());
    parsed.map(|address| vec![address]).ok_or_else(|| {
        anyhow!(
            "not a loopback address with a port (127.0.0.1:9100, [::1]:9100, localhost:9100); \
             Tierwise reads latencies on this host only"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_has_two_addresses() {
        assert_eq!(loopback("localhost:80").unwrap().len(), 2);
        assert_eq!(loopback("[::1]:80").unwrap().len(), 1);
        assert!(loopback("192.0.2.1:80").is_err());
    }
}
