//! Finding the process of a QEMU guest.
//!
//! It runs a QEMU that only root could have installed ([`process`]). A guest's name is what its
//! user says: it counts of those users only who are the system's, and of two guests with one name
//! neither does. A pid file counts of root and of the process's own user; of a socket the kernel
//! tells who listens on it.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;

use super::selector::Qemu;
use crate::bytes::quoted;
use crate::error::{LinuxError, Result};
use crate::process::{Process, Reader};
use crate::qemu::process;
use crate::roots::Roots;

/// Users of the system have smaller numbers (`UID_MIN` of login.defs); people and their containers
/// have these and larger.
const FIRST_PERSON: u32 = 1000;

/// `libvirt-qemu` of Debian and Ubuntu, which has a number of its own.
const LIBVIRT_QEMU: u32 = 64055;

/// Most processes that a refusal lists: a line's.
const MAX_LISTED: usize = 8;

/// The process of a guest, if it runs: with its start time, so that a reused pid is not taken for
/// it.
///
/// # Errors
/// What is there may not be believed, more than one process fits, or `/proc` cannot be listed.
pub(super) fn find(roots: &Roots, guest: &Qemu, reader: &mut Reader) -> Result<Option<Process>> {
    match guest {
        Qemu::Name(name) => by_name(roots, name, reader),
        Qemu::Pidfile(path) => by_pidfile(roots, path, reader),
        Qemu::Qmp(path) => by_socket(roots, path, reader),
    }
}

fn by_name(roots: &Roots, name: &str, reader: &mut Reader) -> Result<Option<Process>> {
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for pid in processes(roots)? {
        if !process::is_called_qemu(roots, pid) {
            continue;
        }
        match process::user(roots, pid) {
            // Reading a command line waits for the mmap lock of a process, which people may hold.
            Ok(uid) if !is_of_the_system(uid) => {
                refused.push(format!("process {pid} is of user {uid}"));
                continue;
            }
            Ok(_) if is_named(roots, pid, name) => {}
            _ => continue,
        }
        match believed(roots, pid, reader, is_of_the_system) {
            Ok((process, uid)) => {
                found.push((process, format!("process {pid} of user {uid}")));
            }
            Err(Some(why)) => refused.push(format!("process {pid}: {why}")),
            Err(None) => {}
        }
    }
    match &found[..] {
        [(process, _)] => Ok(Some(*process)),
        [] if refused.is_empty() => Ok(None),
        [] => Err(LinuxError::Missing {
            what: format!(
                "no guest of a system user is named {}; what QEMU of other users says of itself \
                 does not count: {}",
                quoted(name),
                listed(refused)
            ),
            remedy: "name it by its pid file, its QMP socket or its control group".into(),
        }),
        several => Err(LinuxError::Missing {
            what: format!(
                "{} guests are named {}: {}",
                several.len(),
                quoted(name),
                listed(several.iter().map(|(_, words)| words.clone()).collect())
            ),
            remedy: "name it by its pid file, its QMP socket or its control group".into(),
        }),
    }
}

/// The pid file of a guest that ended may name a process that has its number now, so it must be
/// QEMU; and who wrote it must be whose process it is, or root.
fn by_pidfile(roots: &Roots, path: &Path, reader: &mut Reader) -> Result<Option<Process>> {
    // A pipe of that name would otherwise be waited for.
    let (text, writer) = match process::beginning(path, libc::O_NONBLOCK) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| LinuxError::file(path, "read", e))?,
    };
    let text = text.trim_ascii();
    if text.is_empty() {
        // QEMU makes it before it writes it.
        return Ok(None);
    }
    let pid = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(pid) = pid.filter(|pid| *pid > 0) else {
        let (found, expected) = (quoted(text), "the number of a process, as -pidfile writes it");
        return Err(LinuxError::Format { path: path.to_owned(), line: None, found, expected });
    };
    match believed(roots, pid, reader, |uid| may_name(writer, uid)) {
        Ok((process, _)) => Ok(Some(process)),
        Err(None) => Ok(None),
        Err(Some(why)) => Err(LinuxError::Missing {
            what: format!("{} names process {pid}: {why}", path.display()),
            remedy: "have QEMU write it (-pidfile), into a directory of its user or of root".into(),
        }),
    }
}

/// Whether a file of one user may say that a process of another is a tenant's.
fn may_name(writer: u32, uid: u32) -> bool {
    writer == 0 || writer == geteuid().as_raw() || writer == uid
}

/// Who listens on a socket. `/proc/net/unix` would say it without a connection, but prints paths as
/// they are, newlines included, so that anybody can write lines of it.
fn by_socket(roots: &Roots, path: &Path, reader: &mut Reader) -> Result<Option<Process>> {
    let pid = match listener(path) {
        Ok(pid) => pid,
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(e) => return Err(LinuxError::file(path, "connect", e.into())),
    };
    match believed(roots, pid, reader, |_| true) {
        Ok((process, _)) => Ok(Some(process)),
        Err(None) => Ok(None),
        Err(Some(why)) => Err(LinuxError::Missing {
            what: format!("process {pid} listens on {}: {why}", path.display()),
            remedy: "name the QMP socket that QEMU itself listens on".into(),
        }),
    }
}

/// The process that called listen(2) on a socket. Nothing is waited for, and the connection ends at
/// once.
fn listener(path: &Path) -> std::result::Result<i32, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_os_str().as_bytes())?)?;
    peer(&socket)
}

/// Who listened when the connection was made; 0 is a process that no number names here.
fn peer(socket: &OwnedFd) -> std::result::Result<i32, Errno> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as the structure has, before the call
    // returns.
    #[allow(unsafe_code)]
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            std::ptr::from_mut(&mut peer).cast(),
            std::ptr::from_mut(&mut length),
        )
    };
    if got == 0 {
        return Ok(peer.pid);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// A process that is QEMU, was so all the time, and whose user counts; and that user.
///
/// # Errors
/// Why not; nothing if the process is gone.
fn believed(
    roots: &Roots,
    pid: i32,
    reader: &mut Reader,
    counts: impl Fn(u32) -> bool,
) -> std::result::Result<(Process, u32), Option<String>> {
    let before = Process::read(roots, pid, reader)
        .map_err(|e| (!e.is_gone()).then(|| "it cannot be read".to_owned()))?;
    let user = process::user(roots, pid);
    if !before.is_alive_with(roots, reader) {
        return Err(None);
    }
    let uid = user.map_err(Some)?;
    let refused = || Some(format!("it is of user {uid}, whose word does not count for that"));
    if counts(uid) { Ok((before, uid)) } else { Err(refused()) }
}

/// Whether a user is one that people cannot log in as, by the numbers that distributions give out.
fn is_of_the_system(uid: u32) -> bool {
    uid < FIRST_PERSON || uid == LIBVIRT_QEMU || uid == geteuid().as_raw()
}

fn listed(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(MAX_LISTED);
    words.truncate(MAX_LISTED);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join("; ")
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

/// Whether a process's command line says that it is the guest of this name. One that ends meanwhile
/// is not.
fn is_named(roots: &Roots, pid: i32, name: &str) -> bool {
    let command = process::beginning(&roots.proc.join(format!("{pid}/cmdline")), 0);
    command.is_ok_and(|(command, _)| guest_name(&command).as_deref() == Some(name.as_bytes()))
}

/// The name in `-name guest=NAME,debug-threads=on` or `-name NAME`. QEMU writes a comma of a name
/// twice.
pub(crate) fn guest_name(command: &[u8]) -> Option<Vec<u8>> {
    let mut arguments = command.split(|byte| *byte == 0);
    arguments.find(|argument| matches!(*argument, b"-name" | b"--name"))?;
    for (index, option) in options(arguments.next()?).into_iter().enumerate() {
        match option.iter().position(|byte| *byte == b'=') {
            Some(at) if option[..at] == *b"guest" => return Some(option[at + 1..].to_vec()),
            None if index == 0 => return Some(option),
            _ => {}
        }
    }
    None
}

/// What stands between single commas; two stand for one.
fn options(value: &[u8]) -> Vec<Vec<u8>> {
    let mut options = vec![Vec::new()];
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let ends = byte == b',' && bytes.next_if_eq(&b',').is_none();
        match options.last_mut() {
            Some(option) if !ends => option.push(byte),
            _ => options.push(Vec::new()),
        }
    }
    options
}

#[cfg(test)]
mod tests;
