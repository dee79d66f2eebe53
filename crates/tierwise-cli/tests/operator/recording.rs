use crate::common::{Directory, refused, tierwise};

#[test]
fn recording_is_refused_before_changing_anything() {
    let directory = Directory::new();
    let trace = directory.write("a.twt", "x");
    let state = directory.name("state");
    let refused_with = |more: &[&str]| {
        refused(&[&["record-live", "-o", &trace, "--pid", "1", "--state", &state], more].concat())
    };
    assert!(refused_with(&[]).contains("the file exists; --force replaces it"));
    let message = refused_with(&["--sampling", "1s", "--interval", "100ms"]);
    assert!(message.contains("--sampling is longer than --interval"), "{message}");
    assert_eq!(directory.files(), ["a.twt"]);
    for wrong in [&["--pid", "0"][..], &["--pid", "1", "--cgroup", "a.slice"], &[]] {
        let output = tierwise(&[&["record-live", "-o", "b.twt"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let b = directory.name("b.twt");
    let message = refused(&["record-live", "-o", &b, "--cgroup", "../x", "--state", &state]);
    assert!(message.contains("are not allowed"), "{message}");
}
