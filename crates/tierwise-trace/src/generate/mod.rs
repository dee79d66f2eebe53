//! Generators: programs whose hot pages are known by construction.
