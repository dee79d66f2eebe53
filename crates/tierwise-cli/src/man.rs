//! `tierwise man`: manual pages.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};

use crate::cli::Cli;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Write the manual pages into a directory: one per subcommand, and that of `tierwised`.
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLE\n  tierwise man ~/.local/share/man/man1")]
pub struct Man {
    /// The directory; it is made if it is missing.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Man {
    pub fn execute(&self) -> Outcome {
        // Everything is rendered before the first file is written.
        let commands = [tierwised::args::Args::command(), Cli::command()];
        let pages = commands.map(pages).into_iter().collect::<Result<Vec<_>, _>>()?.concat();
        self.make_folder()?;
        pages
            .iter()
            .try_for_each(|(name, page)| output::whole_file(&self.directory.join(name), page))
    }

    fn make_folder(&self) -> Outcome {
        let refuse = |why: &dyn Display| {
            Err(Failure::User(format!("{}: {why}; name a directory", self.directory.display())))
        };
        match std::fs::create_dir_all(&self.directory) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => refuse(&"is not a directory"),
            Err(error) => refuse(&error),
        }
    }
}

/// A file's name and what it holds.
type Page = (String, Vec<u8>);

/// The pages of a command and of all below it that are shown.
fn pages(command: Command) -> Result<Vec<Page>, Failure> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<Page>) -> Outcome {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        add(below, pages)?;
    }
    let page = clap_mangen::Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), text));
    Ok(())
}
