//! The token that each request for exported metrics must bring.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// Allowed characters of a token. Sixteen of base64 have 96 bits: more than anyone can try.
/// Prometheus and Kubernetes allow far more than the most.
const ALLOWED: std::ops::RangeInclusive<usize> = 16..=4096;

/// A file with a token.
pub(super) struct TokenFile(PathBuf);

impl TokenFile {
    /// The token in a file.
    ///
    /// # Errors
    /// The file cannot be read, or has no token.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = Self(path.to_owned());
        file.read()?;
        Ok(file)
    }

    /// Reads the token, without the white space around it.
    fn read(&self) -> anyhow::Result<Vec<u8>> {
        let shown = self.0.display();
        let place = || format!("metrics.token_file: {shown}");
        let found = std::fs::metadata(&self.0).with_context(place)?;
        // To open a pipe may take for ever.
        if !found.is_file() {
            bail!("metrics.token_file: {shown}: no regular file; name one that has the token");
        }
        let mut bytes = Vec::new();
        // A newline and more than the longest token.
        let most = *ALLOWED.end() as u64 + 2;
        File::open(&self.0)
            .and_then(|file| file.take(most).read_to_end(&mut bytes))
            .with_context(place)?;
        let token = bytes.trim_ascii();
        if !ALLOWED.contains(&token.len()) || !token.iter().all(u8::is_ascii_graphic) {
            let (length, least, most) = (token.len(), ALLOWED.start(), ALLOWED.end());
            bail!(
                "metrics.token_file: {shown}: found {length} bytes; allowed: {least} to {most} \
                 visible characters without spaces (`head -c 32 /dev/urandom | base64` makes them)"
            );
        }
        Ok(token.to_vec())
    }

    /// Checks that a request brings the token.
    ///
    /// # Errors
    /// The token's file cannot be read now. No request is admitted then.
    pub(super) fn admits(&self, headers: &HeaderMap) -> anyhow::Result<bool> {
        let token = self.read()?;
        let mut brought = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (brought.next(), brought.next()) else { return Ok(false) };
        let Some((scheme, found)) = value.as_bytes().split_at_checked("Bearer ".len()) else {
            return Ok(false);
        };
        // The scheme has no case (RFC 9110, section 11.1).
        Ok(scheme.eq_ignore_ascii_case(b"Bearer ") && is_same(&token, found.trim_ascii()))
    }
}

/// Compares in a time that depends on the lengths alone, so that no answer's delay tells how much
/// of a guess is right.
fn is_same(token: &[u8], found: &[u8]) -> bool {
    let difference = token.iter().zip(found).fold(0, |all, (a, b)| all | (a ^ b));
    token.len() == found.len() && std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn only_the_whole_token_is_admitted() {
        let (_dir, path) = file(&format!("{TOKEN}\n"));
        let token = TokenFile::open(&path).unwrap();
        let admits = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            token.admits(&headers).unwrap()
        };
        assert!(admits(&[&format!("Bearer {TOKEN}")]) && admits(&[&format!("bearer  {TOKEN}")]));
        for bad in ["", "Bearer", "Bearer ", TOKEN, "Bearer 0123456789abcde", "Basic MTIz"] {
            assert!(!admits(&[bad]), "{bad:?}");
        }
        assert!(!admits(&[&format!("Bearer {TOKEN}0")]) && !admits(&[]));
        assert!(!admits(&[&format!("Bearer {TOKEN}"), "Bearer other"]));
    }

    #[test]
    fn replaced_token_holds_at_once() {
        let (_dir, path) = file(TOKEN);
        let token = TokenFile::open(&path).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, "Bearer fedcba9876543210".parse().unwrap());
        assert!(!token.admits(&headers).unwrap());
        std::fs::write(&path, "fedcba9876543210").unwrap();
        assert!(token.admits(&headers).unwrap());
        std::fs::remove_file(&path).unwrap();
        assert!(token.admits(&headers).is_err());
    }

    #[test]
    fn file_without_a_token_is_refused() {
        let refused = |path: &Path| format!("{:#}", TokenFile::open(path).err().unwrap());
        for text in ["", "short", "sixteen bytes but spaces", &"x".repeat(5000)] {
            let (_dir, path) = file(text);
            assert!(refused(&path).contains("allowed: 16 to 4096 visible"), "{text:?}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(refused(dir.path()).contains("no regular file"));
        assert!(refused(&dir.path().join("none")).contains("metrics.token_file: /"));
    }
}
