//! Tests that this command understands every command line of the documents and the help: every
//! argument, every value. `tests/documented` also runs the cheap ones.

#[path = "../tests/documented/blocks.rs"]
#[allow(dead_code, reason = "the suite that runs commands uses the rest")]
mod blocks;

use clap::Parser;
use clap::error::ErrorKind;

use crate::cli::Cli;

/// Returns clap's message for a command line that it does not understand.
fn misunderstood(line: &str, whole: bool) -> Option<String> {
    for call in blocks::calls(line) {
        let Err(error) = Cli::try_parse_from(&call) else { continue };
        let incomplete = matches!(
            error.kind(),
            ErrorKind::MissingRequiredArgument
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::MissingSubcommand
        );
        let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        // Running text may name a command without its arguments.
        if !(asked || incomplete && !whole) {
            return Some(format!("{call:?}: {error}"));
        }
    }
    None
}

#[test]
fn every_documented_command_parses() {
    let mut wrong = Vec::new();
    for (name, text) in blocks::documents() {
        for block in blocks::blocks(&name, &text) {
            let commands = blocks::commands(&block).unwrap_or_else(|why| panic!("{why}"));
            let problem = |c: &blocks::DocumentedCommand| {
                Some((c.place.clone(), misunderstood(&c.line, true)?))
            };
            wrong.extend(commands.iter().filter_map(problem));
        }
        let problem =
            |c: &blocks::DocumentedCommand| Some((c.place.clone(), misunderstood(&c.line, false)?));
        wrong.extend(blocks::mentions(&name, &text).iter().filter_map(problem));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_command_that_is_wrong_is_found() {
    assert!(misunderstood("tierwise compare x.toml --polices tpp", true).is_some());
    assert!(misunderstood("sudo tierwise daemon tenant set shop --floor much", true).is_some());
    assert!(misunderstood("tierwise simulate", true).is_some());
    assert!(misunderstood("tierwise simulate", false).is_none());
    assert!(misunderstood("tierwise policies | head; tierwise nothing", false).is_some());
}
