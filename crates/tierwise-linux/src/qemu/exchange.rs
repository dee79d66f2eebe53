//! Two pages of two processes change nodes, as a pair of moves with a spare page, on a stock
//! kernel.
//!
//! Memstrata's own kernel exchanges two page frames at once (section 5). A stock kernel moves a
//! page to a free frame only, so the borrower's page goes first, into the spare page that the fast
//! node keeps, and the lender's page then takes the room that it left. Each step is verified by
//! asking where the page lies. If the second fails, the first is undone: either both pages changed
//! their nodes or neither did.

/// A page of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Page {
    /// The process.
    pub pid: i32,
    /// Its address there.
    pub address: usize,
}

/// Moves pages between nodes, and says where they lie.
pub trait Mover {
    /// Moves a page; the answer is the kernel's, and not to be relied on.
    ///
    /// # Errors
    /// Why not, in words.
    fn move_to(&mut self, page: Page, node: i32) -> Result<(), String>;

    /// Where a page lies; `None` if it is gone.
    ///
    /// # Errors
    /// Why nobody can say, in words.
    fn node_of(&mut self, page: Page) -> Result<Option<i32>, String>;
}

/// What came of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchanged {
    /// Both pages lie where they should.
    Done,
    /// Nothing is different from before, and why.
    Undone(String),
    /// One page lies where the other should have made room, and why: the spare page is in use until
    /// somebody moves it. The next exchange of this node has to start by that.
    Left {
        /// The page.
        page: Page,
        /// The node where it should lie.
        home: i32,
        /// What happened.
        why: String,
    },
}

/// Exchanges the borrower's page against the lender's.
pub fn exchange(mover: &mut dyn Mover, borrower: Page, lender: Page) -> Exchanged {
    let (from, to) = match (lies(mover, borrower), lies(mover, lender)) {
        (Ok(from), Ok(to)) if from != to => (from, to),
        (Ok(node), Ok(_)) => {
            return Exchanged::Undone(format!("both pages lie on node {node} already"));
        }
        (Err(why), _) | (_, Err(why)) => return Exchanged::Undone(why),
    };
    if let Err(why) = carried(mover, borrower, to) {
        return Exchanged::Undone(why);
    }
    match carried(mover, lender, from) {
        Ok(()) => Exchanged::Done,
        Err(why) => undo(mover, borrower, from, why),
    }
}

/// Where a page lies, which must be somewhere.
fn lies(mover: &mut dyn Mover, page: Page) -> Result<i32, String> {
    let Page { pid, address } = page;
    mover.node_of(page)?.ok_or_else(|| format!("process {pid}: the page at {address:#x} is gone"))
}

/// Moves a page and looks whether it arrived.
fn carried(mover: &mut dyn Mover, page: Page, to: i32) -> Result<(), String> {
    let said = mover.move_to(page, to);
    let at = lies(mover, page)?;
    if at == to {
        return Ok(());
    }
    let why = said.err().unwrap_or_else(|| "the kernel said it moved".to_owned());
    Err(format!(
        "process {}: the page at {:#x} lies on node {at} and not on {to}: {why}",
        page.pid, page.address
    ))
}

fn undo(mover: &mut dyn Mover, borrower: Page, home: i32, why: String) -> Exchanged {
    match mover.node_of(borrower) {
        // It has ended, and its page with it: there is nothing to undo.
        Ok(None) => return Exchanged::Undone(why),
        Ok(Some(at)) if at == home => return Exchanged::Undone(why),
        _ => {}
    }
    match carried(mover, borrower, home) {
        Ok(()) => Exchanged::Undone(why),
        Err(also) => {
            Exchanged::Left { page: borrower, home, why: format!("{why}; and back: {also}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const BORROWER: Page = Page { pid: 10, address: 0x1000 };
    const LENDER: Page = Page { pid: 20, address: 0x2000 };

    /// Two nodes with so many free frames. Pages in `stuck` do not move; those in `dying` are gone
    /// after so many moves.
    struct Fake {
        at: BTreeMap<Page, i32>,
        free: [i32; 2],
        stuck: Vec<(Page, i32)>,
        dying: Option<(usize, Page)>,
        moves: usize,
    }

    fn fake() -> Fake {
        let at = BTreeMap::from([(BORROWER, 1), (LENDER, 0)]);
        Fake { at, free: [1, 0], stuck: Vec::new(), dying: None, moves: 0 }
    }

    impl Mover for Fake {
        fn move_to(&mut self, page: Page, node: i32) -> Result<(), String> {
            self.moves += 1;
            if let Some((_, dead)) = self.dying.filter(|&(after, _)| after == self.moves) {
                let node = self.at.remove(&dead).unwrap();
                self.free[node as usize] += 1;
            }
            if self.stuck.contains(&(page, node)) {
                return Err("it is pinned".to_owned());
            }
            let Some(at) = self.at.get_mut(&page) else { return Err("no such page".to_owned()) };
            if self.free[node as usize] == 0 {
                return Err("no free frame".to_owned());
            }
            self.free[*at as usize] += 1;
            self.free[node as usize] -= 1;
            *at = node;
            Ok(())
        }

        fn node_of(&mut self, page: Page) -> Result<Option<i32>, String> {
            Ok(self.at.get(&page).copied())
        }
    }

    fn nodes(fake: &Fake) -> [Option<i32>; 2] {
        [BORROWER, LENDER].map(|page| fake.at.get(&page).copied())
    }

    #[test]
    fn exchange_swaps_nodes_and_frees_spare() {
        let mut fake = fake();
        assert_eq!(exchange(&mut fake, BORROWER, LENDER), Exchanged::Done);
        assert_eq!((nodes(&fake), fake.free, fake.moves), ([Some(0), Some(1)], [1, 0], 2));
    }

    #[test]
    fn without_a_spare_page_nothing_happens() {
        let mut fake = Fake { free: [0, 0], ..fake() };
        let Exchanged::Undone(why) = exchange(&mut fake, BORROWER, LENDER) else { panic!() };
        assert!(why.contains("lies on node 1 and not on 0: no free frame"), "{why}");
        assert_eq!(nodes(&fake), [Some(1), Some(0)]);
    }

    #[test]
    fn pinned_lender_leaves_no_half_move() {
        let mut pinned = Fake { stuck: vec![(LENDER, 1)], ..fake() };
        let outcome = exchange(&mut pinned, BORROWER, LENDER);
        assert!(matches!(outcome, Exchanged::Undone(_)), "{outcome:?}");
        assert_eq!((nodes(&pinned), pinned.free), ([Some(1), Some(0)], [1, 0]));
        let mut vanished = Fake { dying: Some((2, LENDER)), ..fake() };
        let Exchanged::Undone(why) = exchange(&mut vanished, BORROWER, LENDER) else { panic!() };
        assert_eq!(
            (why.as_str(), nodes(&vanished)),
            ("process 20: the page at 0x2000 is gone", [Some(1), None])
        );
    }

    #[test]
    fn tenant_absent_before_is_left_alone() {
        let mut fake = fake();
        fake.at.remove(&BORROWER);
        let Exchanged::Undone(why) = exchange(&mut fake, BORROWER, LENDER) else { panic!() };
        assert_eq!((why.as_str(), fake.moves), ("process 10: the page at 0x1000 is gone", 0));
    }

    #[test]
    fn unreturnable_page_is_named() {
        let mut fake = Fake { stuck: vec![(LENDER, 1), (BORROWER, 1)], ..fake() };
        let outcome = exchange(&mut fake, BORROWER, LENDER);
        assert!(matches!(outcome, Exchanged::Left { page: BORROWER, home: 1, .. }), "{outcome:?}");
    }
}
