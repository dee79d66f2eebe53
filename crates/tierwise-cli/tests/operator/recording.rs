use crate::common::{Folder, refused, tierwise};

#[test]
fn a_recording_is_refused_before_anything_is_touched() {
    let folder = Folder::new();
    let trace = folder.write("a.twt", "x");
    let state = folder.name("state");
    let refused_with = |more: &[&str]| {
        refused(&[&["record-live", "-o", &trace, "--pid", "1", "--state", &state], more].concat())
    };
    assert!(refused_with(&[]).contains("the file exists; --force replaces it"));
    let said = refused_with(&["--sampling", "1s", "--interval", "100ms"]);
    assert!(said.contains("--sampling is longer than --interval"), "{said}");
    assert_eq!(folder.files(), ["a.twt"]);
    for wrong in [&["--pid", "0"][..], &["--pid", "1", "--cgroup", "a.slice"], &[]] {
        let output = tierwise(&[&["record-live", "-o", "b.twt"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
    let b = folder.name("b.twt");
    let said = refused(&["record-live", "-o", &b, "--cgroup", "../x", "--state", &state]);
    assert!(said.contains("are not allowed"), "{said}");
}
