//! Lines of a foreign text, of bounded length.

use std::io::{BufRead, Read};

use super::ImportProblem;

/// The longest line: tools' own messages may name files, whose paths have at most 4096 bytes
/// (`PATH_MAX`); events have some 20 to 200.
const MAX_LINE_BYTES: u64 = 4096;

/// Calls `take` with each line, without its end. A refusal names the line.
pub(super) fn for_each(
    input: &mut dyn BufRead,
    take: &mut dyn FnMut(&[u8]) -> Result<(), LineProblem>,
) -> Result<(), ImportProblem> {
    let mut bytes = Vec::new();
    let mut line = 0;
    loop {
        bytes.clear();
        if input.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(());
        }
        line += 1;
        let refuse = |reason: &str| ImportProblem::Line(line, shown(&bytes), reason.to_owned());
        if bytes.len() as u64 == MAX_LINE_BYTES && !bytes.ends_with(b"\n") {
            return Err(refuse("the line is longer than 4096 bytes"));
        }
        take(bytes.trim_ascii_end()).map_err(|problem| match problem {
            LineProblem::Form(reason) => refuse(reason),
            LineProblem::Other(problem) => problem,
        })?;
    }
}

/// The reason why a line was not taken.
pub(super) enum LineProblem {
    /// The line has not the format's form.
    Form(&'static str),
    /// Another failure.
    Other(ImportProblem),
}

impl From<&'static str> for LineProblem {
    fn from(reason: &'static str) -> Self {
        Self::Form(reason)
    }
}

impl From<ImportProblem> for LineProblem {
    fn from(problem: ImportProblem) -> Self {
        Self::Other(problem)
    }
}

/// The start of a line, for a message.
fn shown(line: &[u8]) -> String {
    /// Bytes shown of a foreign line: a line of lackey has some 20, and twice that identifies
    /// another.
    const SHOWN_BYTES: usize = 40;
    let line = line.trim_ascii_end();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN_BYTES)]).into_owned()
}

/// Parses an address: hexadecimal after 0x, else decimal.
pub(super) fn address(text: &str) -> Result<u64, &'static str> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match digits {
        Some(digits) => hexadecimal(digits),
        None => decimal(text, "the address is no number"),
    }
}

/// Parses hexadecimal digits.
pub(super) fn hexadecimal(digits: &str) -> Result<u64, &'static str> {
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all.then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
        .ok_or("the address is not hexadecimal")
}

/// Parses decimal digits.
pub(super) fn decimal(digits: &str, reason: &'static str) -> Result<u64, &'static str> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok()).flatten().ok_or(reason)
}

/// Parses seconds with a fraction, such as 16104.055540, as nanoseconds.
pub(super) fn seconds(text: &str) -> Result<u64, &'static str> {
    const REASON: &str = "the time is not in seconds";
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let whole = decimal(whole, REASON)?;
    let digits = fraction.len();
    if digits == 0 || digits > 9 {
        return Err(REASON);
    }
    let fraction = decimal(fraction, REASON)? * 10u64.pow(9 - digits as u32);
    whole.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(fraction)).ok_or(REASON)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_strictly() {
        assert_eq!((address("0x1F"), address("31")), (Ok(31), Ok(31)));
        assert_eq!(seconds("16104.05554"), Ok(16_104_055_540_000));
        assert_eq!((seconds("7"), seconds("0.000000001")), (Ok(7_000_000_000), Ok(1)));
        for wrong in ["", "-1", "+1", "1e3", " 1", "18446744073709551616"] {
            assert!(address(wrong).is_err(), "{wrong}");
            assert!(hexadecimal(&format!("{wrong}g")).is_err(), "{wrong}");
        }
        for wrong in ["", ".", "1.", "1.0000000001", "99999999999.0", "-1.5", "1.+5"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn too_long_a_line_is_refused() {
        let text = format!("short\n{}\n", "x".repeat(5000));
        let mut lines = 0;
        let refused = for_each(&mut text.as_bytes(), &mut |_| {
            lines += 1;
            Ok(())
        });
        assert!(matches!(refused, Err(ImportProblem::Line(2, _, _))));
        assert_eq!(lines, 1);
    }
}
