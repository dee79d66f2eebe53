//! The code in the documents: fenced blocks, the commands in them, commands in running text,
//! and the examples of the help.

use std::fs;
use std::path::{Path, PathBuf};

/// Languages of fences that hold no command and no file of ours.
const OTHER: [&str; 1] = ["python"];

/// One fenced block.
pub struct FencedBlock {
    /// `README.md:15`, the line of its first line.
    pub place: String,
    /// The info string after the fence.
    pub language: String,
    pub text: String,
}

/// One command line as a user would type it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentedCommand {
    pub place: String,
    pub line: String,
}

pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README.md and docs/*.md, by name.
pub fn documents() -> Vec<(String, String)> {
    let directory = fs::read_dir(project().join("docs")).unwrap();
    let mut files: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    files.sort();
    files.insert(0, project().join("README.md"));
    let named = |path: &PathBuf| {
        let name = path.strip_prefix(project()).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    files.iter().map(named).collect()
}

/// The fenced blocks of a document, in order.
pub fn blocks(name: &str, text: &str) -> Vec<FencedBlock> {
    let mut blocks: Vec<FencedBlock> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            open = !open;
            if open {
                let place = format!("{name}:{}", number + 2);
                blocks.push(FencedBlock {
                    place,
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
        } else if open && let Some(block) = blocks.last_mut() {
            block.text += line;
            block.text.push('\n');
        }
    }
    blocks
}

/// Returns the commands of a block, or the reason why its kind is unknown.
pub fn commands(block: &FencedBlock) -> Result<Vec<DocumentedCommand>, String> {
    let lines: Vec<String> = match block.language.as_str() {
        "sh" => block.text.replace("\\\n", " ").lines().map(without_comment).collect(),
        "text" => {
            let typed = block.text.lines().filter_map(|line| line.strip_prefix("$ "));
            typed.map(str::to_owned).chain(examples(&block.text)).collect()
        }
        "toml" => Vec::new(),
        other if OTHER.contains(&other) => Vec::new(),
        other => return Err(format!("{}: what is a block of {other:?}?", block.place)),
    };
    let message = lines.into_iter().filter(|line| !line.is_empty());
    Ok(message.map(|line| DocumentedCommand { place: block.place.clone(), line }).collect())
}

fn without_comment(line: &str) -> String {
    line.split(" # ").next().unwrap_or_default().trim().to_owned()
}

/// The examples below "EXAMPLE" of a help text, whose lines may have been wrapped.
fn examples(help: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let below = help.lines().skip_while(|line| *line != "EXAMPLE").skip(1);
    for line in below.take_while(|line| line.starts_with("  ")) {
        let line = line.trim();
        let begins = ["tierwise ", "sudo "].iter().any(|word| line.starts_with(word));
        match found.last_mut() {
            Some(last) if !begins => *last += &format!(" {line}"),
            _ => found.push(line.to_owned()),
        }
    }
    found
}

/// Our commands between backticks in running text and tables.
pub fn mentions(name: &str, text: &str) -> Vec<DocumentedCommand> {
    let mut open = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            open = !open;
        }
        if open {
            continue;
        }
        let place = format!("{name}:{}", number + 1);
        let code = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("tierwise "));
        found.extend(
            code.map(|code| DocumentedCommand { place: place.clone(), line: code.to_owned() }),
        );
    }
    found
}

/// The arguments of each call of `tierwise` in a command line.
pub fn calls(line: &str) -> Vec<Vec<String>> {
    let parts = line.split(['|', ';']).flat_map(|part| part.split(" && "));
    let words = parts.map(|part| {
        let part = part.split('>').next().unwrap_or_default();
        let words = part.split_whitespace().map(|word| word.trim_matches(['\'', '"']).to_owned());
        words.skip_while(|word| word == "sudo").collect::<Vec<String>>()
    });
    words.filter(|words| words.first().is_some_and(|word| word == "tierwise")).collect()
}
