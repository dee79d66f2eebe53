//! Migration by the kernel of page cache that no process maps. It has no address for move_pages(2).
//!
//! - [`demotion`]: oldest generation first, by [`mglru`] (the multi-generational LRU's generations
//!   and their eviction), within [`groups`].
//! - [`promotion`]: pages accessed repeatedly, by [`damos`] (DAMON's migration schemes).

pub mod damos;
pub mod demotion;
pub mod groups;
pub mod mglru;
pub mod promotion;
