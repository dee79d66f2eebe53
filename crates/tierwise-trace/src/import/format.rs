//! The formats that can be imported, and what is known of each.

use std::path::Path;

/// A tool's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// ChampSim's instructions of 64 bytes (inc/trace_instruction.h, `input_instr`).
    Champsim,
    /// Ramulator's memory traces: `LD 0x12340` of Ramulator 2, `0x12340 R` of Ramulator 1.
    Ramulator,
    /// Ramulator's CPU traces: `3 20734016 20841280` (SimpleO3 of Ramulator 2).
    RamulatorCpu,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// `perf script -F pid,tid,time,period,event,addr,data_src`.
    PerfScript,
    /// A record of damo, or DAMON's tracepoint as text.
    Damo,
}

impl ImportFormat {
    /// The format of an input with this name and these first bytes. Lackey's is the format of an
    /// input that shows no other's signs.
    #[must_use]
    pub fn detect(name: &Path, first: &[u8]) -> Self {
        let name = name.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if name.contains("champsim") {
            return Self::Champsim;
        }
        if name.contains("oraclegeneral") {
            return Self::OracleGeneral;
        }
        // perf's own file: the error says how to print it.
        if first.starts_with(b"PERFILE2") {
            return Self::PerfScript;
        }
        // A zlib stream with the usual window, or JSON.
        if matches!(first.first(), Some(0x78 | b'[' | b'{')) {
            return Self::Damo;
        }
        let head = String::from_utf8_lossy(&first[..first.len().min(4096)]);
        if head.contains("damon_aggregated:") {
            return Self::Damo;
        }
        let line = head.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        match words[..] {
            ["LD" | "ST", _] | [_, "R" | "W"] => Self::Ramulator,
            [_, _] | [_, _, _] if words.iter().all(number) => Self::RamulatorCpu,
            // Only perf's lines have times; without -F they lack the process, which the error says.
            _ if words.iter().any(|word| is_time(word)) => Self::PerfScript,
            _ => Self::Lackey,
        }
    }

    /// The tool, for messages.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Self::Lackey => "valgrind lackey output",
            Self::Champsim => "a ChampSim trace",
            Self::Ramulator => "a Ramulator memory trace",
            Self::RamulatorCpu => "a Ramulator CPU trace",
            Self::OracleGeneral => "a libCacheSim oracleGeneral trace",
            Self::PerfScript => "perf script output",
            Self::Damo => "a DAMON record",
        }
    }

    /// The form of the format's records and how to make them, for errors.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Lackey => {
                "lines such as \" L 1ffefffe48,8\" from valgrind --tool=lackey --trace-mem=yes; \
                 --format names another tool's format"
            }
            Self::Champsim => "ChampSim's records of 64 bytes (struct input_instr), unpacked",
            Self::Ramulator => {
                "lines such as \"LD 0x12340\" or \"ST 4096\" (Ramulator 2, LoadStoreTrace), or \
                 \"0x12340 R\" (Ramulator 1)"
            }
            Self::RamulatorCpu => {
                "lines such as \"3 20734016\" or \"3 20734016 20841280\": instructions, a load's \
                 address, a store's address"
            }
            Self::OracleGeneral => "libCacheSim's records of 24 bytes (oracleGeneral), unpacked",
            Self::PerfScript => {
                "lines such as \"123/124 16104.055540: 1 mem-loads: 7f8ac6f65b70\" from perf \
                 script -F pid,tid,time,period,event,addr,data_src"
            }
            Self::Damo => {
                "a file of damo record (json_compressed, json or perf_script), or lines such as \
                 \"12.345678: damon_aggregated: target_id=0 nr_regions=9 4096-8192: 3 1\""
            }
        }
    }

    /// What an access of the trace is, and what the format lacks, in words.
    #[must_use]
    pub fn access(self) -> &'static str {
        match self {
            Self::Lackey | Self::Champsim => {
                "an access is an executed one; the kernel's are missing, and times are counted in \
                 instructions"
            }
            Self::Ramulator => {
                "an access is one that reached memory, and counts as a miss; instructions are \
                 assumed"
            }
            Self::RamulatorCpu => {
                "an access is a line's, so that hits in caches before the trace are missing"
            }
            Self::OracleGeneral => {
                "an access is a request of an object, one for each of its pages, and counts as a \
                 load and as a miss; the instructions stand for the time"
            }
            Self::PerfScript => {
                "an access is a sample times its period, so that rare pages are missing; the \
                 instructions stand for the time"
            }
            Self::Damo => {
                "an access is one check that found the page's region accessed, and counts as a \
                 load and as a miss; memory that no check found accessed is missing; the \
                 instructions stand for the time"
            }
        }
    }

    /// True if records have times, so that windows are intervals and no numbers of instructions.
    #[must_use]
    pub fn has_times(self) -> bool {
        matches!(self, Self::OracleGeneral | Self::PerfScript | Self::Damo)
    }

    /// True if the records are all accesses of the program, so that a cache can be modelled.
    #[must_use]
    pub fn has_every_access(self) -> bool {
        matches!(self, Self::Lackey | Self::Champsim | Self::RamulatorCpu)
    }
}

/// True for seconds as perf prints them: "16104.055540:".
fn is_time(word: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = word.strip_suffix(':').and_then(|word| word.split_once('.'));
    parts.is_some_and(|(seconds, part)| number(seconds) && number(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_show_by_name_or_content() {
        for (name, first, format) in [
            ("a.champsimtrace.xz", "", ImportFormat::Champsim),
            ("w.oracleGeneral.bin.zst", "", ImportFormat::OracleGeneral),
            ("damon.data", "x\u{1}", ImportFormat::Damo),
            ("damon.json", "[\n  {", ImportFormat::Damo),
            ("a", "# tracer: nop\n k-1 [0] 1.5: damon_aggregated: ", ImportFormat::Damo),
            ("a", "LD 0x10\n", ImportFormat::Ramulator),
            ("a", "0x10 W\n", ImportFormat::Ramulator),
            ("a", "3 4096 8192\n", ImportFormat::RamulatorCpu),
            ("a", " 7/7 1.5:  1 page-faults:  10 \n", ImportFormat::PerfScript),
            ("a", "java  7 1.5:  1 mem-loads:  10  5080144 |OP LOAD|\n", ImportFormat::PerfScript),
            ("perf.data", "PERFILE2h", ImportFormat::PerfScript),
            ("a", "==7== Lackey\n", ImportFormat::Lackey),
            ("a", "", ImportFormat::Lackey),
        ] {
            assert_eq!(ImportFormat::detect(Path::new(name), first.as_bytes()), format, "{first}");
        }
    }
}
