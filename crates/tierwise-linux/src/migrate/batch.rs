//! The arguments of one move_pages(2) call, side by side as the kernel wants them.

use super::mover::Request;

/// What status entries hold before a call: no node, and no error number of Linux.
const UNTOUCHED: i32 = i32::MIN;

/// The arguments of one call, and what came back.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub requests: Vec<u32>,
    pub addresses: Vec<usize>,
    pub nodes: Vec<i32>,
    pub status: Vec<i32>,
    pub placed: Vec<i32>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.requests.clear();
        self.addresses.clear();
        self.nodes.clear();
    }

    pub fn push(&mut self, index: u32, request: &Request) {
        self.requests.push(index);
        self.addresses.push(request.address as usize);
        // No kernel has more nodes than an int can count; one that is out of range is refused by
        // it.
        self.nodes.push(i32::try_from(request.node).unwrap_or(i32::MAX));
    }

    /// Keeps entry `from` as entry `to` of the call to come.
    pub fn keep(&mut self, from: usize, to: usize) {
        self.requests[to] = self.requests[from];
        self.addresses[to] = self.addresses[from];
        self.nodes[to] = self.nodes[from];
    }

    pub fn truncate(&mut self, length: usize) {
        self.requests.truncate(length);
        self.addresses.truncate(length);
        self.nodes.truncate(length);
    }

    pub fn forget_status(&mut self) {
        self.status.clear();
        self.status.resize(self.addresses.len(), UNTOUCHED);
    }

    pub fn forget_placed(&mut self) {
        self.placed.clear();
        self.placed.resize(self.addresses.len(), UNTOUCHED);
    }
}
