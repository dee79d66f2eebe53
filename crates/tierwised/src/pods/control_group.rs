//! A container's control group, from the path that the runtime gives, and the class of service that
//! the kubelet writes into it.

/// Longest path of a group: the kernel's limit of a path.
const MAX_PATH: usize = 4096;

/// Returns the path of a container's control group below the cgroup file system. With systemd's
/// driver the runtime names the slice, a prefix and the container (`cgroupsPath` of the OCI runtime
/// specification), otherwise the path itself.
///
/// # Errors
/// The text is no such path.
///
/// ```
/// use tierwised::pods::control_group;
///
/// assert_eq!(
///     control_group("kubepods-burstable-pod7d1f.slice:cri-containerd:4e2a").unwrap(),
///     "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7d1f.slice/\
///      cri-containerd-4e2a.scope"
/// );
/// assert_eq!(
///     control_group("/kubepods/burstable/pod7d1f/4e2a").unwrap(),
///     "kubepods/burstable/pod7d1f/4e2a"
/// );
/// ```
pub fn control_group(written: &str) -> Result<String, String> {
    let refuse = |why: &str| Err(format!("its control group cannot be used: {why}"));
    if written.len() > MAX_PATH {
        return refuse("its path is longer than the kernel allows");
    }
    let path = match *written.split(':').collect::<Vec<_>>() {
        [slice, prefix, name] if !written.contains('/') => scope(slice, prefix, name),
        _ => written.trim_matches('/').to_owned(),
    };
    // Commas separate the paths of a selector.
    if path.contains(',') || path.chars().any(char::is_control) {
        return refuse("its path has a comma or a control character");
    }
    if path.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return refuse("its path is empty, or has an empty name, \".\" or \"..\"");
    }
    Ok(path)
}

/// The scope that runc and crun ask systemd for: `PREFIX-NAME.scope` in the slice.
fn scope(slice: &str, prefix: &str, name: &str) -> String {
    let unit = match (prefix, name.ends_with(".slice")) {
        (_, true) => name.to_owned(),
        ("", false) => format!("{name}.scope"),
        (prefix, false) => format!("{prefix}-{name}.scope"),
    };
    // The runtimes' own default.
    let slice = if slice.is_empty() { "system.slice" } else { slice };
    let above = slice_path(slice);
    if above.is_empty() { unit } else { format!("{above}/{unit}") }
}

/// The path of a slice: systemd nests `a-b.slice` in `a.slice` (`systemd.slice(5)`).
fn slice_path(slice: &str) -> String {
    let Some(stem) = slice.strip_suffix(".slice") else { return slice.to_owned() };
    if stem == "-" {
        return String::new();
    }
    let ends = stem.match_indices('-').map(|(at, _)| at).chain([stem.len()]);
    ends.map(|end| format!("{}.slice", &stem[..end])).collect::<Vec<_>>().join("/")
}

/// Returns the quality of service class that the kubelet's control group of a pod means; empty if
/// the path is none of the kubelet's.
pub fn qos_class(path: &str) -> &'static str {
    let mut kubelet = false;
    for name in path.split('/') {
        let name = name.strip_suffix(".slice").unwrap_or(name);
        // A pod's name follows, which is no class.
        if kubelet && matches!(name, "burstable" | "besteffort")
            || name.ends_with("kubepods-burstable")
            || name.ends_with("kubepods-besteffort")
        {
            let burstable = name.ends_with("burstable");
            return if burstable { "Burstable" } else { "BestEffort" };
        }
        kubelet |= name == "kubepods" || name.ends_with("-kubepods");
    }
    if kubelet { "Guaranteed" } else { "" }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_form_of_path_is_known() {
        let path = |written: &str| control_group(written).unwrap();
        assert_eq!(path("-.slice:cri-containerd:a"), "cri-containerd-a.scope");
        assert_eq!(path(":crio:a"), "system.slice/crio-a.scope");
        assert_eq!(path("a.slice::b"), "a.slice/b.scope");
        assert_eq!(path("a.slice:x:b.slice"), "a.slice/b.slice");
        assert_eq!(path("/a/b:c:d"), "a/b:c:d");
        for bad in ["", "/", "a//b", "/../b", "a,b", "a\nb", "a.slice:x:/../b"] {
            assert!(control_group(bad).is_err(), "{bad:?}");
        }
        assert!(control_group(&"a".repeat(5000)).is_err());
    }

    #[test]
    fn class_of_service_follows_from_path() {
        for (path, class) in [
            ("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice", "Burstable"),
            ("kubepods.slice/kubepods-besteffort.slice/x", "BestEffort"),
            ("kubepods.slice/kubepods-pod1.slice/cri-containerd-a.scope", "Guaranteed"),
            ("kubepods/burstable/pod1/a", "Burstable"),
            ("kubepods/pod1/burstable-not", "Guaranteed"),
            ("k.slice/k-kubepods.slice/k-kubepods-burstable.slice/x", "Burstable"),
            ("system.slice/burstable", ""),
        ] {
            assert_eq!(qos_class(path), class, "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_mount_point(written in "[a.:/,\\-\u{0}sice]{0,24}") {
            if let Ok(path) = control_group(&written) {
                let leaves = |name: &str| name == ".." || name.is_empty();
                assert!(!path.starts_with('/') && !path.split('/').any(leaves));
            }
            let _ = qos_class(&written);
        }
    }
}
