//! Sentences on the terminal, wrapped at its width.

use std::io::Write;

use anstyle::Style;
use ratatui::text::Span;

use crate::failure::CommandResult;
use crate::output;

/// Writes a paragraph within the terminal's width. `mark` stands before its first line; the others
/// are indented by as much.
pub fn paragraph(out: &mut impl Write, style: Style, mark: &str, text: &str) -> CommandResult {
    paragraph_within(out, style, (mark, text), usize::from(output::width()))
}

fn paragraph_within(
    out: &mut impl Write,
    style: Style,
    (mark, text): (&str, &str),
    width: usize,
) -> CommandResult {
    let indent = columns(mark);
    let blank = " ".repeat(indent);
    for (i, line) in wrapped(text, width.saturating_sub(indent)).iter().enumerate() {
        let mark = if i == 0 { mark } else { &blank };
        writeln!(out, "{style}{mark}{line}{style:#}")?;
    }
    Ok(())
}

/// Wraps a text into lines of at most this many columns, between words if possible. Line breaks in
/// the text stay; other control characters are escaped.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    text.split('\n').flat_map(|line| wrapped_line(&printable(line), width)).collect()
}

fn wrapped_line(text: &str, width: usize) -> Vec<String> {
    let mut done = Vec::new();
    let mut line = String::new();
    for piece in text.split(' ').flat_map(|word| pieces(word, width)) {
        if !line.is_empty() && columns(&line) + 1 + columns(&piece) > width {
            done.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&piece);
    }
    done.push(line);
    done
}

/// Breaks a word that is wider than a line.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for letter in word.chars() {
        let more = columns(letter.encode_utf8(&mut [0; 4]));
        if used > 0 && used + more > width {
            pieces.push(String::new());
            used = 0;
        }
        if let Some(piece) = pieces.last_mut() {
            piece.push(letter);
        }
        used += more;
    }
    pieces
}

/// Escapes control characters: the name of a file or of a tenant may have any, and a terminal would
/// obey them.
pub fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(mark: &str, text: &str, width: usize) -> String {
        let mut out = Vec::new();
        paragraph_within(&mut out, Style::new(), (mark, text), width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_hang_below_the_first() {
        assert_eq!(written("* ", "one two three", 9), "* one two\n  three\n");
        assert_eq!(written("", "one\ntwo", 9), "one\ntwo\n");
        assert_eq!(written("", "", 9), "\n");
        assert_eq!(written("", "a\x1b[2J", 20), "a\\u{1b}[2J\n");
    }

    #[test]
    fn words_without_end_are_broken() {
        let long = format!("a {} b 界界界界界", "x".repeat(255));
        for width in [1, 2, 7, 80] {
            let text = written("", &long, width);
            let letters = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(letters(&text), letters(&long));
            assert!(text.lines().all(|line| columns(line) <= width.max(2)), "{width}: {text}");
        }
    }
}
