//! Search for the process of a QEMU guest.
//!
//! The process must run a QEMU that only root could have installed ([`process`]). A guest's name is
//! chosen by its user. It counts only if that is a system user, and if no two guests have it. A pid
//! file counts if root or the process's own user wrote it. For a socket, the kernel reports the
//! process that listens on it.

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

/// First user id that is not a system user's (`UID_MIN` of login.defs). People and their containers
/// have this and larger ones.
const FIRST_ORDINARY_USER: u32 = 1000;

/// `libvirt-qemu` of Debian and Ubuntu, a system user with a large id.
const LIBVIRT_QEMU: u32 = 64055;

/// Maximum number of processes that an error lists, so that it fits a line.
const MAX_LISTED: usize = 8;

/// Finds the process of a guest, if it runs. It is identified by its start time, too, so that a
/// later process with the same pid is not taken for it.
///
/// # Errors
/// The process found may not be trusted, more than one process fits, or `/proc` cannot be listed.
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
            // Reading a command line waits for the process's mmap lock, which an ordinary user's
            // process may hold.
            Ok(uid) if !is_system_user(uid) => {
                refused.push(format!("process {pid} is of user {uid}"));
                continue;
            }
            Ok(_) if is_named(roots, pid, name) => {}
            _ => continue,
        }
        match trusted(roots, pid, reader, is_system_user) {
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
                "no guest of a system user is named {}; the name of another user's QEMU does not \
                 count: {}",
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

/// Finds a guest by its pid file. The file of a guest that has ended may name another process, so
/// the process must be QEMU. The file's writer must be the process's user or root.
fn by_pidfile(roots: &Roots, path: &Path, reader: &mut Reader) -> Result<Option<Process>> {
    // Without O_NONBLOCK, opening a pipe of that name would wait.
    let (text, writer) = match process::beginning(path, libc::O_NONBLOCK) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| LinuxError::file(path, "read", e))?,
    };
    let text = text.trim_ascii();
    if text.is_empty() {
        // QEMU creates the file before it writes it.
        return Ok(None);
    }
    let pid = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(pid) = pid.filter(|pid| *pid > 0) else {
        let (found, expected) = (quoted(text), "the number of a process, as -pidfile writes it");
        return Err(LinuxError::Format { path: path.to_owned(), line: None, found, expected });
    };
    match trusted(roots, pid, reader, |uid| may_name(writer, uid)) {
        Ok((process, _)) => Ok(Some(process)),
        Err(None) => Ok(None),
        Err(Some(why)) => Err(LinuxError::Missing {
            what: format!("{} names process {pid}: {why}", path.display()),
            remedy: "have QEMU write it (-pidfile), into a directory of its user or of root".into(),
        }),
    }
}

/// True if a file of one user may name a process of another.
fn may_name(writer: u32, uid: u32) -> bool {
    writer == 0 || writer == geteuid().as_raw() || writer == uid
}

/// Finds the process that listens on a socket. `/proc/net/unix` would show it without a connection,
/// but prints paths unescaped, newlines included, so that any process can forge lines.
fn by_socket(roots: &Roots, path: &Path, reader: &mut Reader) -> Result<Option<Process>> {
    let pid = match listener(path) {
        Ok(pid) => pid,
        Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
        Err(e) => return Err(LinuxError::file(path, "connect", e.into())),
    };
    match trusted(roots, pid, reader, |_| true) {
        Ok((process, _)) => Ok(Some(process)),
        Err(None) => Ok(None),
        Err(Some(why)) => Err(LinuxError::Missing {
            what: format!("process {pid} listens on {}: {why}", path.display()),
            remedy: "name the QMP socket that QEMU itself listens on".into(),
        }),
    }
}

/// Process that called listen(2) on a socket. Nothing is waited for, and the connection ends at
/// once.
fn listener(path: &Path) -> std::result::Result<i32, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path.as_os_str().as_bytes())?)?;
    peer(&socket)
}

/// Process that listened when the connection was made; 0 if it has no pid in this namespace.
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

/// Returns a process and its user, if it has been QEMU all the time and its user counts.
///
/// # Errors
/// The reason; `None` if the process has ended.
fn trusted(
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
    let refused =
        || Some(format!("it belongs to user {uid}, and is not trusted as a guest named this way"));
    if counts(uid) { Ok((before, uid)) } else { Err(refused()) }
}

/// True for users that people cannot log in as, by the ids that distributions assign.
fn is_system_user(uid: u32) -> bool {
    uid < FIRST_ORDINARY_USER || uid == LIBVIRT_QEMU || uid == geteuid().as_raw()
}

fn listed(mut words: Vec<String>) -> String {
    let more = words.len().saturating_sub(MAX_LISTED);
    words.truncate(MAX_LISTED);
    if more > 0 {
        words.push(format!("and {more} more"));
    }
    words.join("; ")
}

/// All pids, ascending.
fn processes(roots: &Roots) -> Result<Vec<i32>> {
    let list = |e| LinuxError::file(&roots.proc, "list", e);
    let entries = fs::read_dir(&roots.proc).map_err(list)?.flatten();
    let mut pids: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// True if a process's command line names the guest. A process that ends meanwhile does not count.
fn is_named(roots: &Roots, pid: i32, name: &str) -> bool {
    let command = process::beginning(&roots.proc.join(format!("{pid}/cmdline")), 0);
    command.is_ok_and(|(command, _)| guest_name(&command).as_deref() == Some(name.as_bytes()))
}

/// Name in `-name guest=NAME,debug-threads=on` or `-name NAME`. QEMU writes a comma in a name
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

/// Splits at single commas; two commas stand for one.
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
