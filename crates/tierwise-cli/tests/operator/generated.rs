use crate::common::{Folder, succeeded};

const COMMANDS: [&str; 7] =
    ["config", "daemon", "doctor", "record-live", "restore", "status", "top"];

#[test]
fn completions_and_manual_pages_know_the_operators_commands() {
    let script = succeeded(&["completions", "bash"]);
    let folder = Folder::new();
    succeeded(&["man", &folder.name("man1")]);
    for command in COMMANDS {
        let mut words = script.split([' ', '"', '\n', ')']);
        assert!(words.any(|word| word == command), "{command}");
        assert!(folder.path(&format!("man1/tierwise-{command}.1")).is_file(), "{command}");
    }
    assert!(folder.path("man1/tierwise-daemon-tenant-add.1").is_file());
}
