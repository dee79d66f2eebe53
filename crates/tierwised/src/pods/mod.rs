//! Pods of Kubernetes as tenants.
//!
//! - [`PodTable`]: the pods and containers that run here, as the container runtime reports them.
//! - [`control_group`]: the control group of a container, and its quality of service class.
//! - [`Wishes`]: the annotations of a pod.
//! - [`PodSettings`]: the wishes within the operator's classes.
//! - [`tenants`]: the tenants of a table.
//!
//! A pod is one tenant. A container with annotations of its own is a tenant of its own, and the pod
//! is then the tenant of its other containers. A pod with a claim of fast memory, which the
//! scheduler has allocated, is one tenant with that floor ([`PodTable::set_claims`]).
//!
//! | annotation | for a container | value |
//! |---|---|---|
//! | `tierwise.io/class` | `class.tierwise.io/CONTAINER` | the name of a class |
//! | `tierwise.io/floor` | `floor.tierwise.io/CONTAINER` | a quantity: `4Gi` |
//! | `tierwise.io/cap` | `cap.tierwise.io/CONTAINER` | a quantity |
//! | `tierwise.io/weight` | `weight.tierwise.io/CONTAINER` | 1 to 10000 |
//! | `tierwise.io/p99` | `p99.tierwise.io/CONTAINER` | a time: `500us`, `5ms`, `1s` |
//! | `tierwise.io/latency` | `latency.tierwise.io/CONTAINER` | `redis:PORT`, `memcached:PORT` or `prometheus:PORT/PATH#METRIC` |
//!
//! A key of Kubernetes has one slash at most, so the container follows the prefix.

mod control_group;
mod names;
mod settings;
mod table;
mod tenants;
#[cfg(test)]
mod tests;
mod wishes;

pub use control_group::{control_group, qos_class};
pub use names::{checked_name, kept_annotations};
pub use settings::PodSettings;
pub use table::{Container, Pod, PodTable, RuntimeState, SharedPods};
pub use tenants::{PodCapacity, tenants};
pub use wishes::{PREFIX, Wishes, is_ours};
