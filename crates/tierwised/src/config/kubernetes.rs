//! Pods as tenants: the container runtime's socket, and the operator's classes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tierwise_core::tenant::MAX_WEIGHT;

use super::limit::Amount;
use super::tenant::SLO_MS;

/// Pods of Kubernetes as tenants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kubernetes {
    /// The socket of the container runtime's Node Resource Interface (NRI), usually
    /// `/var/run/nri/nri.sock`, or `off`. Through it the daemon learns which pods and containers
    /// run, and their annotations. It changes none of them.
    pub nri: String,
    /// The socket of the container runtime's Container Runtime Interface (CRI), usually
    /// `/run/containerd/containerd.sock` or `/run/crio/crio.sock`, or `off`. Where NRI is off or
    /// not connected, the daemon asks there every five seconds which pods run.
    pub cri: String,
    /// The socket at which the driver of fast memory sets the floors that pods have claimed, or
    /// `off`. It takes no other command. `control.socket` takes this one, too.
    pub claims: String,
    /// The pods that become tenants.
    pub pods: PodChoice,
    /// Part of the fastest tier that no floor of a pod may take, in percent. The kernel and
    /// processes of no tenant use it.
    pub reserve_percent: f64,
    /// The operator's classes. A pod names one by the annotation `tierwise.io/class`; the class
    /// `default` is that of the others.
    #[serde(rename = "class", skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<FastMemoryClass>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            nri: "off".into(),
            cri: "off".into(),
            claims: "off".into(),
            pods: PodChoice::All,
            reserve_percent: 0.0,
            classes: Vec::new(),
        }
    }
}

/// The pods that become tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PodChoice {
    /// Every pod. One without annotations is a best-effort tenant.
    All,
    /// Pods with an annotation of Tierwise.
    Annotated,
}

/// A class of pods: what they have unless an annotation says otherwise, and what an annotation may
/// say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FastMemoryClass {
    /// Its name, unique among the classes.
    pub name: String,
    /// The floor of a pod without one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Amount>,
    /// The cap of a pod without one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<Amount>,
    /// The weight of a pod without one of its own, 1 to 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 400)]
    pub weight: Option<u32>,
    /// The 99th percentile of latency that a pod without one of its own must not exceed, in
    /// milliseconds. It holds for pods with the annotation `tierwise.io/latency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 5.0)]
    pub p99_ms: Option<f64>,
    /// The largest floor. A pod that asks for more has this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_floor: Option<Amount>,
    /// The largest weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 400)]
    pub max_weight: Option<u32>,
    /// The smallest 99th percentile, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = 5.0)]
    pub min_p99_ms: Option<f64>,
}

impl Kubernetes {
    /// The socket of NRI; none if it is off.
    pub fn nri_socket(&self) -> Option<&str> {
        (self.nri != "off").then_some(&self.nri)
    }

    /// The mistake in the reserve.
    pub(super) fn reserve_problem(&self) -> Option<String> {
        let found = self.reserve_percent;
        let wrong = !(0.0..=100.0).contains(&found);
        wrong.then(|| format!("found {found}; allowed: 0 to 100 percent of the fastest tier"))
    }

    /// The socket of CRI; none if it is off.
    pub fn cri_socket(&self) -> Option<&str> {
        (self.cri != "off").then_some(&self.cri)
    }

    /// The socket of claims; none if it is off.
    pub fn claims_socket(&self) -> Option<&str> {
        (self.claims != "off").then_some(&self.claims)
    }

    /// The first mistake in the sockets: the key and the problem.
    pub(super) fn socket_problem(&self) -> Option<(&'static str, String)> {
        let sockets = [
            ("nri", self.nri_socket(), "/var/run/nri/nri.sock"),
            ("cri", self.cri_socket(), "/run/containerd/containerd.sock"),
            ("claims", self.claims_socket(), "/run/tierwise-claims/claims.sock"),
        ];
        sockets.into_iter().find_map(|(key, path, usual)| {
            let path = path.filter(|path| !path.starts_with('/') || path.contains('\0'))?;
            let problem =
                format!("found {path:?}; allowed: the socket's whole path ({usual}), or off");
            Some((key, problem))
        })
    }
}

impl FastMemoryClass {
    /// The first mistake in it: the key and the problem.
    pub(super) fn problem(&self) -> Option<(&'static str, String)> {
        // The name of a FastMemoryClass resource is a DNS subdomain.
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(allowed) {
            let problem = format!(
                "found {:?}; allowed: lower-case letters, digits, - and . (the name of a \
                 FastMemoryClass)",
                self.name
            );
            return Some(("name", problem));
        }
        for (key, weight) in [("weight", self.weight), ("max_weight", self.max_weight)] {
            if let Some(found) = weight.filter(|weight| !(1..=MAX_WEIGHT).contains(weight)) {
                return Some((key, format!("found {found}; allowed: 1 to {MAX_WEIGHT}")));
            }
        }
        for (key, ms) in [("p99_ms", self.p99_ms), ("min_p99_ms", self.min_p99_ms)] {
            if let Some(found) = ms.filter(|ms| !SLO_MS.contains(ms)) {
                let (min, max) = (SLO_MS.start(), SLO_MS.end());
                return Some((key, format!("found {found}; allowed: {min} to {max} milliseconds")));
            }
        }
        let above = |value: &Option<Amount>, limit: &Option<Amount>| {
            value.as_ref().zip(limit.as_ref()).is_some_and(|(v, l)| v.bytes() > l.bytes())
        };
        if above(&self.floor, &self.cap) {
            let problem = "found a cap below the floor; allowed: the floor or more. A floor counts \
                           up to the cap: write the cap's value for both";
            return Some(("cap", problem.into()));
        }
        if above(&self.floor, &self.max_floor) {
            let problem = "found a floor above max_floor; allowed: at most max_floor";
            return Some(("floor", problem.into()));
        }
        if self.weight.zip(self.max_weight).is_some_and(|(weight, max)| weight > max) {
            let problem = "found a weight above max_weight; allowed: at most max_weight";
            return Some(("weight", problem.into()));
        }
        if self.p99_ms.zip(self.min_p99_ms).is_some_and(|(p99, min)| p99 < min) {
            let problem = "found a p99_ms below min_p99_ms; allowed: at least min_p99_ms";
            return Some(("p99_ms", problem.into()));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn printed(text: &str) -> String {
        Config::parse("t.toml", text).unwrap_err().to_string()
    }

    #[test]
    fn mistakes_in_classes_name_their_place() {
        let class = |text: &str| printed(&format!("[[kubernetes.class]]\nname = \"gold\"\n{text}"));
        for key in ["nri", "cri", "claims"] {
            let relative = printed(&format!("[kubernetes]\n{key} = \"a.sock\"\n"));
            assert!(relative.starts_with(&format!("t.toml:2: {key}: found")), "{relative}");
        }
        assert_eq!(
            printed("[kubernetes]\nreserve_percent = 101.0\n"),
            "t.toml:2: reserve_percent: found 101; allowed: 0 to 100 percent of the fastest tier"
        );
        assert!(printed("[kubernetes]\nreserve_percent = nan\n").contains("found NaN; allowed"));
        assert!(
            printed("[[kubernetes.class]]\nname = \"Gold!\"\n")
                .starts_with("t.toml:2: kubernetes.class[0].name: found \"Gold!\"; allowed: lower")
        );
        assert_eq!(
            class("weight = 0\n"),
            "t.toml:3: kubernetes.class[0].weight: found 0; allowed: 1 to 10000"
        );
        assert!(class("floor = \"2GiB\"\ncap = \"1GiB\"\n").contains("a cap below the floor"));
        assert!(class("floor = \"2GiB\"\nmax_floor = \"1GiB\"\n").contains("above max_floor"));
        assert!(class("p99_ms = 1.0\nmin_p99_ms = 2.0\n").contains("below min_p99_ms"));
        assert!(class("min_p99_ms = 0.0001\n").contains("allowed: 0.05 to 3600000 milliseconds"));
        let twice = class("[[kubernetes.class]]\nname = \"gold\"\n");
        assert!(twice.contains("\"gold\" stands twice"), "{twice}");
    }

    #[test]
    fn classes_are_read_in_order() {
        let text = "[kubernetes]\nnri = \"/run/nri.sock\"\npods = \"annotated\"\n\
                    [[kubernetes.class]]\nname = \"default\"\nmax_floor = \"1GiB\"\n\
                    [[kubernetes.class]]\nname = \"gold\"\nweight = 400\n";
        let config = Config::parse("t.toml", text).unwrap();
        let names: Vec<_> = config.kubernetes.classes.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["default", "gold"]);
        assert_eq!(config.kubernetes.nri_socket(), Some("/run/nri.sock"));
        assert_eq!(Config::default().kubernetes.nri_socket(), None);
    }
}
