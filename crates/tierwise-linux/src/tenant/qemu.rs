//! Finding the process of a QEMU guest.

use std::fs;
use std::path::Path;

use super::selector::Qemu;
use crate::error::{LinuxError, Result};
use crate::file;
use crate::process::Reader;
use crate::roots::Roots;

/// The process of a guest, if it runs.
///
/// # Errors
/// A pidfile holds no number, or `/proc` cannot be listed.
pub(super) fn find(roots: &Roots, guest: &Qemu, reader: &mut Reader) -> Result<Option<i32>> {
    match guest {
        Qemu::Name(name) => {
            first(roots, reader, |command| guest_name(command).as_deref() == Some(name))
        }
        Qemu::Pidfile(path) => pidfile(path, roots, reader),
        Qemu::Qmp(path) => {
            let Some(inode) = socket(roots, path, reader)? else { return Ok(None) };
            owner(roots, &format!("socket:[{inode}]"), reader)
        }
    }
}

/// The pidfile of a guest that ended may name a process that has its number now, so it must be QEMU.
fn pidfile(path: &Path, roots: &Roots, reader: &mut Reader) -> Result<Option<i32>> {
    match file::value::<i32>(path, "the number of a process, as -pidfile writes it") {
        Err(e) if e.is_gone() => Ok(None),
        other => {
            let pid = other?;
            Ok(command(roots, pid, reader).is_some_and(is_qemu).then_some(pid))
        }
    }
}

/// The first QEMU process whose command line fits.
fn first(
    roots: &Roots,
    reader: &mut Reader,
    mut fits: impl FnMut(&str) -> bool,
) -> Result<Option<i32>> {
    Ok(processes(roots)?
        .into_iter()
        .find(|&pid| command(roots, pid, reader).is_some_and(|text| is_qemu(text) && fits(text))))
}

/// Every process, ascending.
fn processes(roots: &Roots) -> Result<Vec<i32>> {
    let list = |e| LinuxError::file(&roots.proc, "list", e);
    let entries = fs::read_dir(&roots.proc).map_err(list)?.flatten();
    let mut pids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// A process's command line. One that ends meanwhile, or whose arguments are no text, is not the one that is looked for.
fn command<'r>(roots: &Roots, pid: i32, reader: &'r mut Reader) -> Option<&'r str> {
    reader.text(&roots.proc, format_args!("{pid}/cmdline")).ok()
}

/// `qemu-system-x86_64` of most distributions, `qemu-kvm` of Red Hat's, `kvm` of older Debian's.
fn is_qemu(command: &str) -> bool {
    let program = command.split('\0').next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    name.starts_with("qemu-system") || name == "qemu-kvm" || name == "kvm"
}

/// The name in `-name guest=NAME,debug-threads=on` or `-name NAME`. QEMU writes a comma of a name twice.
fn guest_name(command: &str) -> Option<String> {
    let mut arguments = command.split('\0').skip_while(|a| !matches!(*a, "-name" | "--name"));
    let value = arguments.nth(1)?.replace(",,", "\0");
    let name = |(index, option): (usize, &str)| match option.split_once('=') {
        Some(("guest", name)) => Some(name.replace('\0', ",")),
        None if index == 0 => Some(option.replace('\0', ",")),
        _ => None,
    };
    value.split(',').enumerate().find_map(name)
}

/// The inode of the socket that is bound to a path, from `/proc/net/unix`. A guest in another network namespace is not
/// listed there.
fn socket(roots: &Roots, path: &Path, reader: &mut Reader) -> Result<Option<u64>> {
    let text = match reader.text(&roots.proc, format_args!("net/unix")) {
        Err(e) if e.is_gone() => return Ok(None),
        other => other?,
    };
    // Num RefCount Protocol Flags Type St Inode Path; the path may contain spaces. Accepted connections carry the path as
    // well; the listening socket has __SO_ACCEPTCON (0x10000).
    let listening = |line: &&str| line.split_whitespace().nth(3) == Some("00010000");
    let inode = |line: &str| {
        let mut rest = line;
        let mut inode = None;
        for field in 0..7 {
            rest = rest.trim_start();
            let (word, after) = rest.split_once(' ')?;
            if field == 6 {
                inode = word.parse().ok();
            }
            rest = after;
        }
        (Path::new(rest) == path).then_some(inode).flatten()
    };
    Ok(text.lines().filter(listening).find_map(inode))
}

/// The QEMU process that has a file open.
fn owner(roots: &Roots, target: &str, reader: &mut Reader) -> Result<Option<i32>> {
    let holds = |pid: &i32| {
        let Ok(files) = fs::read_dir(roots.proc.join(format!("{pid}/fd"))) else { return false };
        files.flatten().any(|f| fs::read_link(f.path()).is_ok_and(|link| link == Path::new(target)))
    };
    Ok(processes(roots)?
        .into_iter()
        .filter(|&pid| command(roots, pid, reader).is_some_and(is_qemu))
        .find(holds))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::fixture;

    fn found(roots: &Roots, guest: &Qemu) -> Option<i32> {
        find(roots, guest, &mut Reader::default()).unwrap()
    }

    #[test]
    fn by_name_as_libvirt_and_as_people_write_it() {
        let roots = fixture::machine("hmat-two-tier");
        assert_eq!(found(&roots, &Qemu::Name("db-1".into())), Some(301));
        assert_eq!(found(&roots, &Qemu::Name("web-1".into())), Some(302));
        assert_eq!(found(&roots, &Qemu::Name("db".into())), None);
        assert_eq!(guest_name("kvm\0-name\0a,,b,process=x\0"), Some("a,b".into()));
        assert_eq!(guest_name("kvm\0-name\0debug-threads=on,guest=z\0"), Some("z".into()));
        assert_eq!(guest_name("kvm\0-name"), None);
    }

    #[test]
    fn by_socket_without_connecting() {
        let roots = fixture::machine("hmat-two-tier");
        assert_eq!(found(&roots, &Qemu::Qmp("/run/qemu/db-1.qmp".into())), Some(301));
        assert_eq!(found(&roots, &Qemu::Qmp("/run/systemd/private".into())), None);
        assert_eq!(found(&roots, &Qemu::Qmp("/run/none".into())), None);
    }

    #[test]
    fn an_old_pidfile_does_not_name_a_stranger() {
        let (dir, roots) = fixture::copy("hmat-two-tier");
        let path = dir.path().join("db.pid");
        let guest = Qemu::Pidfile(path.clone());
        assert_eq!(found(&roots, &guest), None);
        fixture::put(&path, "301\n");
        assert_eq!(found(&roots, &guest), Some(301));
        fixture::put(&path, "101\n");
        assert_eq!(found(&roots, &guest), None);
        fixture::put(&path, "db\n");
        let said = find(&roots, &guest, &mut Reader::default()).unwrap_err().to_string();
        assert!(said.contains("db.pid: found \"db\""), "{said}");
    }

    proptest! {
        #[test]
        fn no_command_line_panics(text in "(kvm|-name|guest=|,|\0|.{0,4}){0,8}") {
            let _ = (is_qemu(&text), guest_name(&text));
        }
    }
}
