use crate::common::{Folder, succeeded};

const COMMANDS: [&str; 7] =
    ["config", "daemon", "doctor", "record-live", "restore", "status", "top"];

#[test]
fn completions_and_manual_pages_know_the_operators_commands() {
    let script = succeeded(&["completions", "bash"]);
    let folder = Folder::new();
    succeeded(&["man", &folder.name("man1")]);
    for command in COMMANDS {
        assert!(
            script.contains(&format!("tierwise__subcmd__{}", command.replace('-', "__"))),
            "{command}"
        );
        assert!(folder.path(&format!("man1/tierwise-{command}.1")).is_file(), "{command}");
    }
    assert!(folder.path("man1/tierwise-daemon-tenant-add.1").is_file());
}
