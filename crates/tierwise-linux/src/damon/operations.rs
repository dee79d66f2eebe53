//! Operations of this kernel's DAMON, found without touching DAMON: `avail_operations` only exists
//! in a context, and a probe must not make one. The kernel's symbols (`/proc/kallsyms`) name the
//! built-in functions.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::error::{LinuxError, Result};
use crate::roots::Roots;

/// Refuses if the kernel's symbols name DAMON, but none of these operations ("vaddr", "paddr"). If
/// symbols cannot be read, only configuring a kdamond shows it.
///
/// # Errors
/// The operations are missing; the error names the option that builds them in.
pub fn probe(roots: &Roots, operations: &str) -> Result<()> {
    // Prefix of every function in mm/damon/vaddr.c and paddr.c.
    let prefix = if operations == "paddr" { b"damon_pa_" } else { b"damon_va_" };
    let Ok(file) = File::open(roots.proc.join("kallsyms")) else { return Ok(()) };
    let mut lines = BufReader::new(file);
    let (mut line, mut knows_damon) = (Vec::new(), false);
    // Bytes, not text: most of a daemon's start was spent on these 150,000 lines.
    while lines.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let name = line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default();
        if name.starts_with(prefix) {
            return Ok(());
        }
        knows_damon |= name.starts_with(b"damon_");
        line.clear();
    }
    if knows_damon { Err(missing(operations)) } else { Ok(()) }
}

/// Returns the error that the operations are missing.
pub(super) fn missing(operations: &str) -> LinuxError {
    LinuxError::Missing {
        what: format!("this kernel's DAMON has no operations {operations}"),
        remedy: format!("use a kernel built with CONFIG_DAMON_{}", operations.to_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_show_what_was_built_in() {
        let tree = tempfile::tempdir().unwrap();
        let roots = Roots::under(tree.path());
        probe(&roots, "vaddr").unwrap();
        std::fs::create_dir_all(&roots.proc).unwrap();
        let symbols = |text: &str| std::fs::write(roots.proc.join("kallsyms"), text).unwrap();
        symbols("0 T schedule\n");
        probe(&roots, "vaddr").unwrap();
        symbols("0 T schedule\n0 T damon_start\n0 t damon_pa_mkold\n");
        probe(&roots, "paddr").unwrap();
        let message = probe(&roots, "vaddr").unwrap_err().to_string();
        assert!(message.contains("CONFIG_DAMON_VADDR"), "{message}");
    }
}
