use crate::common::{Directory, succeeded};

const COMMANDS: [&str; 7] =
    ["config", "daemon", "doctor", "record-live", "restore", "status", "top"];

#[test]
fn completions_and_manuals_cover_operator_commands() {
    let script = succeeded(&["completions", "bash"]);
    let directory = Directory::new();
    succeeded(&["man", &directory.name("man")]);
    for command in COMMANDS {
        let mut words = script.split([' ', '"', '\n', ')']);
        assert!(words.any(|word| word == command), "{command}");
        assert!(directory.path(&format!("man/man1/tierwise-{command}.1")).is_file(), "{command}");
    }
    assert!(directory.path("man/man1/tierwise-daemon-tenant-add.1").is_file());
}
