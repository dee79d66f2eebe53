//! Errors in Python's form.

use std::io;
use std::path::Path;

use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyFileNotFoundError};

pyo3::create_exception!(
    tierwise,
    TierwiseError,
    PyException,
    "The request cannot be executed. The message names the file, the key, the value found and the \
     values allowed."
);

/// An exception with the error's words.
pub(crate) fn refuse(error: impl std::fmt::Display) -> PyErr {
    TierwiseError::new_err(error.to_string())
}

/// An exception for a file that cannot be read.
pub(crate) fn unreadable(path: &Path, error: &io::Error) -> PyErr {
    let words = format!("{}: {error}", path.display());
    if error.kind() == io::ErrorKind::NotFound {
        return PyFileNotFoundError::new_err(words);
    }
    refuse(words)
}
