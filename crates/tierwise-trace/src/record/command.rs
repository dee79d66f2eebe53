//! Finds the ELF file of a command line, which QEMU needs.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::RecordError;
use crate::pipe;

/// Maximum of scripts whose interpreter is a script: Linux stops after four
/// (`BINPRM_MAX_RECURSION`).
const MAX_INTERPRETERS: usize = 4;

/// Bytes that the kernel reads of a script's first line (`BINPRM_BUF_SIZE`).
const HEAD_BYTES: usize = 256;

/// A program that QEMU can load.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// The ELF file.
    pub program: PathBuf,
    /// The program's name, as the program itself reads it.
    pub argv0: OsString,
    /// The arguments after the name.
    pub arguments: Vec<OsString>,
}

/// Finds the program in PATH and follows `#!` lines.
pub(super) fn resolve(command: &[OsString]) -> Result<Resolved, RecordError> {
    let Some((name, arguments)) = command.split_first() else {
        return Err(RecordError::Option {
            option: "command",
            reason: "no program was named".into(),
        });
    };
    let refuse =
        |reason: String| RecordError::Command { command: name.display().to_string(), reason };
    let mut program = find(name).map_err(|reason| refuse(reason.to_owned()))?;
    let mut argv0 = name.clone();
    let mut arguments = arguments.to_vec();
    for _ in 0..=MAX_INTERPRETERS {
        let head = head_of(&program).map_err(|e| {
            let file = program.display();
            refuse(match e.kind() {
                ErrorKind::NotFound => {
                    format!(
                        "its interpreter {file} is not there; install it, or change the first line"
                    )
                }
                _ => format!("{file}: {e}"),
            })
        })?;
        let Some((interpreter, argument)) = interpreter(&head) else {
            check_elf(&head).map_err(refuse)?;
            return Ok(Resolved { program, argv0, arguments });
        };
        let script = program.into_os_string();
        arguments.splice(0..0, argument.into_iter().chain([script]));
        argv0.clone_from(&interpreter);
        program = interpreter.into();
    }
    Err(refuse(format!("more than {MAX_INTERPRETERS} interpreters, one run by the other")))
}

fn find(name: &OsStr) -> Result<PathBuf, &'static str> {
    const MISSING: &str = "no such program; give its path, or a name that is found in PATH";
    if !name.as_bytes().contains(&b'/') {
        return search_path(name).ok_or(MISSING);
    }
    let path = PathBuf::from(name);
    match path.metadata() {
        Err(_) => Err(MISSING),
        Ok(there) if there.is_dir() => Err("it is a directory; name a program in it"),
        Ok(_) if !is_executable(&path) => Err("it is not executable; chmod +x makes it executable"),
        Ok(_) => Ok(path),
    }
}

/// Searches PATH for a program.
pub(super) fn search_path(name: &OsStr) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| is_executable(file))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn head_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    pipe::open(path)?.take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The interpreter of a script, and the one argument that it may have.
fn interpreter(head: &[u8]) -> Option<(OsString, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.trim_ascii().splitn(2, |&byte| byte == b' ' || byte == b'\t');
    let word = |bytes: &[u8]| OsStr::from_bytes(bytes.trim_ascii()).to_owned();
    let program = words.next().filter(|program| !program.is_empty())?;
    Some((word(program), words.next().map(word)))
}

/// Checks the ELF header: magic, class (64-bit) and machine.
fn check_elf(head: &[u8]) -> Result<(), String> {
    let (b"\x7fELF", Some(&[low, high])) = (head.get(..4).unwrap_or_default(), head.get(18..20))
    else {
        return Err("neither an ELF program nor a script that starts with #!".into());
    };
    let machine = u16::from_le_bytes([low, high]);
    let own = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        other => return Err(format!("recording is not supported on {other}")),
    };
    if head[4] != 2 || machine != own {
        return Err(format!(
            "a program for ELF machine {machine}; only programs of this machine's own kind \
             ({}, 64 bit) can be recorded",
            std::env::consts::ARCH
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(directory: &Path, name: &str, text: &str) -> OsString {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.into_os_string()
    }

    #[test]
    fn script_runs_interpreter_with_one_argument() {
        let directory = tempfile::tempdir().unwrap();
        let inner = script(directory.path(), "inner", "#!/bin/sh -e u\necho\n");
        let outer = script(directory.path(), "outer", &format!("#!{}\n", inner.display()));
        let resolved = resolve(&[outer.clone(), "x".into()]).unwrap();
        assert_eq!(resolved.program, Path::new("/bin/sh"));
        assert_eq!(resolved.argv0, "/bin/sh");
        assert_eq!(resolved.arguments, ["-e u".as_ref(), &*inner, &*outer, "x".as_ref()]);
    }

    #[test]
    fn arguments_may_be_any_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let inner = OsStr::from_bytes(b"inner \xff").to_owned();
        let file = directory.path().join(OsStr::from_bytes(b"outer\xfe"));
        std::fs::write(&file, b"#!/bin/sh -\xfd\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let resolved = resolve(&[file.clone().into(), inner.clone()]).unwrap();
        let option = OsStr::from_bytes(b"-\xfd");
        assert_eq!(resolved.arguments, [option, file.as_os_str(), &*inner]);
    }

    #[test]
    fn unrunnable_command_is_refused_with_reason() {
        let directory = tempfile::tempdir().unwrap();
        let text = script(directory.path(), "text", "hello");
        let message = resolve(&[text]).unwrap_err().to_string();
        assert!(message.contains("neither an ELF program nor a script"), "{message}");
        let message = resolve(&["no-such-program-here".into()]).unwrap_err().to_string();
        assert!(message.contains("no such program"), "{message}");
        let parent = directory.path().as_os_str().to_owned();
        let message = resolve(&[parent]).unwrap_err().to_string();
        assert!(message.contains("it is a directory; name a program in it"), "{message}");
        let lost = script(directory.path(), "lost", "#!/no/such/interpreter\n");
        let message = resolve(&[lost]).unwrap_err().to_string();
        assert!(message.contains("/no/such/interpreter is not there; install it"), "{message}");
        let own = script(directory.path(), "loop", "");
        std::fs::write(&own, format!("#!{}\n", own.display())).unwrap();
        let message = resolve(&[own]).unwrap_err().to_string();
        assert!(message.contains("interpreters"), "{message}");
    }
}
