use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Content {
    boot: String,
    number: u32,
}

const WHOLE: &str = r#"{"boot":"b1","number":7}"#;

fn load(path: &Path) -> StateFileContent<Content> {
    read(path, "boot", "b1", |_| Ok(())).unwrap()
}

#[test]
fn written_state_counts_in_its_boot() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("s.json");
    assert_eq!(load(&path), StateFileContent::Nothing);
    write(&path, WHOLE.as_bytes()).unwrap();
    assert_eq!(load(&path), StateFileContent::Whole(Content { boot: "b1".into(), number: 7 }));
    // The boot is compared before the content.
    write(&path, br#"{"boot":"b0","number":"of another version"}"#).unwrap();
    assert_eq!(load(&path), StateFileContent::OtherBoot);
    remove(&path).unwrap();
    remove(&path).unwrap();
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), 0);
}

#[test]
fn non_state_file_is_set_aside() {
    type Make = fn(&Path);
    let cases: [(Make, &str); 6] = [
        (|p| fs::write(p, "").unwrap(), "it is empty"),
        (|p| fs::write(p, &WHOLE[..9]).unwrap(), "it is cut"),
        (|p| fs::write(p, r#"{"name":"npm"}"#).unwrap(), "another program wrote it"),
        (|p| fs::create_dir(p).unwrap(), "it is no file"),
        (|p| symlink("elsewhere", p).unwrap(), "it is a symbolic link"),
        (|p| File::create(p).unwrap().set_len(1 << 40).unwrap(), "it has more than"),
    ];
    for (make, problem) in cases {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("s.json");
        make(&path);
        let StateFileContent::Damaged(damage) = load(&path) else { panic!("{problem}") };
        let message = damage.to_string();
        assert!(message.contains(problem) && message.contains("kept as "), "{message}");
        assert!(fs::symlink_metadata(tree.path().join("s.json.damaged")).is_ok(), "{message}");
        assert_eq!(load(&path), StateFileContent::Nothing);
        write(&path, WHOLE.as_bytes()).unwrap();
    }
}

#[test]
fn damaged_files_do_not_pile_up() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("s.json");
    for _ in 0..30 {
        fs::write(&path, "").unwrap();
        assert!(matches!(load(&path), StateFileContent::Damaged(_)));
    }
    assert_eq!(fs::read_dir(tree.path()).unwrap().count(), MAX_KEPT as usize);
}

#[test]
fn unsafe_state_directory_is_refused() {
    let tree = tempfile::tempdir().unwrap();
    let path = tree.path().join("run/tierwise");
    private_directory(&path).unwrap();
    for made in [&path, path.parent().unwrap()] {
        assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
    }
    private_directory(&path).unwrap();
    for mode in [0o777, 0o1777, 0o770] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let message = private_directory(&path).unwrap_err().to_string();
        assert!(
            message.contains("others may write to it") && message.contains("chmod 0700"),
            "{message}"
        );
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    private_directory(&path).unwrap();
    if geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        let message = private_directory(&path).unwrap_err().to_string();
        assert!(message.contains("belongs to user 65534"), "{message}");
    }
    fs::write(tree.path().join("file"), "").unwrap();
    assert!(private_directory(&tree.path().join("file")).is_err());
}

proptest! {
    #[test]
    fn no_bytes_stop_a_start(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        at in 0..WHOLE.len(),
        flip in 1..=u8::MAX,
    ) {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("s.json");
        let mut flipped = WHOLE.as_bytes().to_vec();
        flipped[at] ^= flip;
        for content in [bytes, flipped] {
            fs::write(&path, content).unwrap();
            load(&path);
        }
    }
}
