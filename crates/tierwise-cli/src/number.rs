//! Numbers in words and table cells.

/// "1.23 G": a rate with a decimal prefix.
pub fn rate(value: f64) -> String {
    let prefixes = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let found = prefixes.into_iter().find(|&(factor, _)| value >= factor);
    let (factor, prefix) = found.unwrap_or((1.0, ""));
    format!("{:.3}{prefix}", value / factor)
}

/// "+12.3 %" of a share; never "-0.0 %".
pub fn signed_percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    // Adding zero turns minus zero into zero.
    format!("{:+.1} %", (tenths + 0.0) / 10.0)
}

/// "1,234,567".
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun: `1 window`, `12,000 windows`, `2 forked processes`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_readable_forms() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(rate(2.5e9), "2.500 G");
        assert_eq!(signed_percent(-0.0001), "+0.0 %");
        assert_eq!(signed_percent(-0.027), "-2.7 %");
        assert_eq!(signed_percent(1.5), "+150.0 %");
        assert_eq!(rate(12.0), "12.000");
    }

    #[test]
    fn nouns_agree_with_their_numbers() {
        assert_eq!(counted(0, "window"), "0 windows");
        assert_eq!(counted(1, "forked process"), "1 forked process");
        assert_eq!(counted(12_000, "process"), "12,000 processes");
    }
}
