//! The annotations of a pod, parsed one by one. A mistake costs its own annotation and no other.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use tierwise_core::tenant::MAX_WEIGHT;
use tierwise_core::units::Bytes;

use crate::config::Latency;

/// The prefix of every annotation.
pub const PREFIX: &str = "tierwise.io";

/// More than any machine has, and less than what a sum of a thousand could overflow.
const MAX_BYTES: f64 = (1_u64 << 50) as f64;

/// The settings that an annotation can wish.
const NAMES: [&str; 6] = ["class", "floor", "cap", "weight", "p99", "latency"];

/// The wishes of a pod or a container.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wishes {
    /// The class that it names.
    pub class: Option<String>,
    /// The floor in bytes.
    pub floor: Option<u64>,
    /// The cap in bytes.
    pub cap: Option<u64>,
    /// The weight.
    pub weight: Option<u32>,
    /// The 99th percentile that it must not exceed, in milliseconds.
    pub p99_ms: Option<f64>,
    /// The endpoint of its latency.
    pub latency: Option<WishedLatency>,
    /// The mistakes: key, value found, values allowed.
    pub problems: Vec<String>,
}

/// An endpoint of a latency, by its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WishedLatency {
    /// Redis.
    Redis(u16),
    /// Memcached.
    Memcached(u16),
    /// A Prometheus histogram: port, path and metric.
    Prometheus(u16, String, String),
}

impl WishedLatency {
    /// The endpoint at an address.
    pub fn at(&self, address: IpAddr) -> Latency {
        let at = |port| SocketAddr::new(address, port).to_string();
        match self {
            Self::Redis(port) => Latency::Redis(at(*port)),
            Self::Memcached(port) => Latency::Memcached(at(*port)),
            Self::Prometheus(port, path, metric) => Latency::Prometheus {
                address: format!("{}/{path}", at(*port)),
                metric: metric.clone(),
            },
        }
    }
}

/// True for a key that Tierwise reads, or that is close enough to be a mistake.
pub fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|(prefix, _)| {
        prefix == PREFIX || prefix.strip_suffix(PREFIX).is_some_and(|rest| rest.ends_with('.'))
    })
}

impl Wishes {
    /// Parses the annotations of a pod (`None`) or of one of its containers.
    pub fn parse(annotations: &BTreeMap<String, String>, container: Option<&str>) -> Self {
        let mut wishes = Self::default();
        for (key, value) in annotations {
            let Some((prefix, last)) = key.split_once('/') else { continue };
            let name = match container {
                None if prefix == PREFIX => last,
                Some(container) if last == container => {
                    let Some(name) = prefix.strip_suffix(PREFIX).and_then(|p| p.strip_suffix('.'))
                    else {
                        continue;
                    };
                    name
                }
                _ => continue,
            };
            if let Err(problem) = wishes.set(name, value.trim()) {
                wishes.problems.push(format!("{key}: {problem}"));
            }
        }
        wishes
    }

    /// True if a container has an annotation of its own.
    pub fn of_container(annotations: &BTreeMap<String, String>, container: &str) -> bool {
        annotations.keys().any(|key| {
            key.split_once('/').is_some_and(|(prefix, last)| {
                let name = prefix.strip_suffix(PREFIX).and_then(|p| p.strip_suffix('.'));
                last == container && name.is_some_and(|name| NAMES.contains(&name))
            })
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "class" => self.class = Some(class(value)?),
            "floor" => self.floor = Some(quantity(value)?.0),
            "cap" => self.cap = Some(quantity(value)?.0),
            "weight" => self.weight = Some(weight(value)?),
            "p99" => self.p99_ms = Some(milliseconds(value)?),
            "latency" => self.latency = Some(latency(value)?),
            _ => return Err(format!("no such annotation (allowed: {})", NAMES.join(", "))),
        }
        Ok(())
    }
}

fn class(value: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if value.is_empty() || !value.chars().all(allowed) {
        return Err(format!("found {value:?}; allowed: the name of a FastMemoryClass"));
    }
    Ok(value.to_owned())
}

/// A quantity of Kubernetes: `4Gi`, `500M`, `1.5Gi`, `1073741824`. `4G` is 4 * 10^9 there.
fn quantity(value: &str) -> Result<Bytes, String> {
    let refused = || {
        format!("found {value:?}; allowed: a quantity of memory up to 1024Ti, such as 512Mi or 4Gi")
    };
    let split = value.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(value.len());
    let (number, unit) = value.split_at(split);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(refused()),
    };
    let bytes = number.parse::<f64>().map_err(|_| refused())? * factor as f64;
    if !(0.0..=MAX_BYTES).contains(&bytes) {
        return Err(refused());
    }
    Ok(Bytes(bytes.round() as u64))
}

fn weight(value: &str) -> Result<u32, String> {
    let parsed = value.parse().ok().filter(|weight| (1..=MAX_WEIGHT).contains(weight));
    parsed.ok_or_else(|| format!("found {value:?}; allowed: 1 to {MAX_WEIGHT}"))
}

/// A time with its unit, in milliseconds.
fn milliseconds(value: &str) -> Result<f64, String> {
    let units = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        let number = value.strip_suffix(unit)?;
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        number.parse::<f64>().ok().filter(|_| plain).map(|number| number * factor)
    });
    // The same range as slo_ms of the configuration.
    parsed
        .filter(|ms| (0.05..=3_600_000.0).contains(ms))
        .ok_or_else(|| format!("found {value:?}; allowed: a time from 50us to 3600s, such as 5ms"))
}

fn latency(value: &str) -> Result<WishedLatency, String> {
    let refused = || {
        format!(
            "found {value:?}; allowed: redis:PORT, memcached:PORT or prometheus:PORT/PATH#METRIC"
        )
    };
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(refused);
    match value.split_once(':') {
        Some(("redis", rest)) => Ok(WishedLatency::Redis(port(rest)?)),
        Some(("memcached", rest)) => Ok(WishedLatency::Memcached(port(rest)?)),
        Some(("prometheus", rest)) => {
            let (address, metric) = rest.split_once('#').ok_or_else(refused)?;
            let (number, path) = address.split_once('/').ok_or_else(refused)?;
            // The request is one line that contains the path.
            let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
            if !plain(path) || !plain(metric) {
                return Err(refused());
            }
            Ok(WishedLatency::Prometheus(port(number)?, path.into(), metric.into()))
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn annotations(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn pod_and_container_have_own_wishes() {
        let all = annotations(&[
            ("tierwise.io/class", "gold"),
            ("tierwise.io/floor", "1.5Gi"),
            ("cap.tierwise.io/web", "2G"),
            ("weight.tierwise.io/web", "400"),
            ("p99.tierwise.io/web", "5ms"),
            ("latency.tierwise.io/web", "redis:6379"),
            ("example.org/floor", "9Gi"),
        ]);
        let pod = Wishes::parse(&all, None);
        assert_eq!((pod.class.as_deref(), pod.floor), (Some("gold"), Some(3 << 29)));
        assert_eq!((pod.cap, pod.problems.len()), (None, 0));
        let web = Wishes::parse(&all, Some("web"));
        assert_eq!((web.cap, web.weight, web.p99_ms), (Some(2_000_000_000), Some(400), Some(5.0)));
        assert_eq!(web.latency, Some(WishedLatency::Redis(6379)));
        assert!(Wishes::of_container(&all, "web") && !Wishes::of_container(&all, "db"));
        assert!(is_ours("cap.tierwise.io/web") && is_ours("tierwise.io/x"));
        assert!(!is_ours("nottierwise.io/x") && !is_ours("tierwise.io"));
    }

    #[test]
    fn mistake_costs_its_annotation_alone() {
        let all = annotations(&[
            ("tierwise.io/floors", "1Gi"),
            ("tierwise.io/floor", "4GiB"),
            ("tierwise.io/p99", "5"),
            ("tierwise.io/weight", "0"),
            ("tierwise.io/latency", "ftp:21"),
            ("tierwise.io/cap", "8Gi"),
        ]);
        let wishes = Wishes::parse(&all, None);
        assert_eq!((wishes.cap, wishes.floor, wishes.problems.len()), (Some(8 << 30), None, 5));
        let text = wishes.problems.join("\n");
        for part in [
            "tierwise.io/floor: found \"4GiB\"; allowed: a quantity",
            "tierwise.io/floors: no such annotation (allowed: class, floor",
            "tierwise.io/p99: found \"5\"; allowed: a time",
            "tierwise.io/weight: found \"0\"; allowed: 1 to 10000",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn endpoints_are_at_pods_address() {
        let wished = latency("prometheus:9100/metrics#http_seconds").unwrap();
        assert_eq!(
            wished.at("10.1.2.3".parse().unwrap()),
            Latency::Prometheus {
                address: "10.1.2.3:9100/metrics".into(),
                metric: "http_seconds".into()
            }
        );
        assert_eq!(
            WishedLatency::Redis(1).at("::1".parse().unwrap()),
            Latency::Redis("[::1]:1".into())
        );
        for bad in ["redis:0", "redis:", "prometheus:1/p", "prometheus:1/#m", "prometheus:1/a b#m"]
        {
            assert!(latency(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_annotation_makes_it_panic(
            key in "(floor|cap|weight|p99|latency|class)?\\.?(tierwise\\.io)?/?.{0,6}",
            value in "[0-9.]{0,6}(Gi|ms|us|redis:|prometheus:1/)?.{0,8}",
        ) {
            let all = annotations(&[(&key, &value)]);
            let wishes = Wishes::parse(&all, None);
            assert!(wishes.floor.is_none_or(|floor| floor <= 1 << 50));
            let _ = Wishes::parse(&all, Some("web"));
        }
    }
}
