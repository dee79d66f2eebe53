//! The recorder's stream, as a function of bytes.

use super::wire::{self, WireMessage};
use crate::Window;

/// Reads a stream to its end. Its bytes bound the content of its windows.
pub(crate) fn wire(mut bytes: &[u8]) {
    let length = bytes.len();
    if wire::read_hello(&mut bytes).is_err() {
        return;
    }
    let mut window = Window::default();
    while let Ok(message) = wire::read(&mut bytes, &mut window) {
        // The shortest entry of a list is an unmap, of 4 bytes.
        let entries = window.allocations.len() + window.accesses.len() + window.unmaps.len();
        assert!(4 * entries <= length, "{entries} entries out of {length} bytes");
        if message == WireMessage::Gone {
            break;
        }
    }
}
