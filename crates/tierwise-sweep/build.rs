//! Names the engine by its version and its sources, so that no kept result outlives the code that
//! computed it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Everything below the workspace on which a result depends. The recipe and the scenario are in the
/// key themselves.
const SOURCES: [&str; 8] = [
    "Cargo.lock",
    "crates/tierwise-core/src",
    "crates/tierwise-driver/src",
    "crates/tierwise-learn/src",
    "crates/tierwise-sim/src",
    "crates/tierwise-sweep/src/unit.rs",
    "crates/tierwise-trace/src",
    "models",
];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let root = Path::new("../..");
    // A published crate is alone, and its version names its sources.
    let digest = if root.join(SOURCES[1]).is_dir() { digest(root)? } else { String::new() };
    // C libraries differ in the last digit of a logarithm.
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=TIERWISE_ENGINE={version} {target} {digest}");
    Ok(())
}

fn digest(root: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    for source in SOURCES {
        let path = root.join(source);
        println!("cargo::rerun-if-changed={}", path.display());
        let mut files = Vec::new();
        find(&path, &mut files)?;
        files.sort();
        for file in files {
            hash.update(file.to_string_lossy().as_bytes());
            hash.update(Sha256::digest(content(&file)?));
        }
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// What decides about results: of Rust, neither comments nor the tests at a file's end.
fn content(path: &Path) -> io::Result<Vec<u8>> {
    let content = fs::read(path)?;
    if path.extension().is_none_or(|extension| extension != "rs") {
        return Ok(content);
    }
    let text = String::from_utf8_lossy(&content);
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    Ok(lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

fn find(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        find(&entry?.path(), files)?;
    }
    Ok(())
}
