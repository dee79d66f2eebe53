//! Traffic of the memory channels: lines read and written, by medium and channel.
//!
//! Lines are interleaved over the channels of their medium one by one (Memstrata, section 3.1), so
//! that any run of neighbours uses all of them alike.

use super::HardwareError;

/// Lines that one medium's channels moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelTraffic {
    /// By channel: lines read, lines written.
    counts: Vec<(u64, u64)>,
}

impl ChannelTraffic {
    fn new(channels: u32) -> Result<Self, HardwareError> {
        // The same limit as a scenario's tier has.
        if !(1..=1024).contains(&channels) {
            return Err(HardwareError::Channels { found: channels });
        }
        Ok(Self { counts: vec![(0, 0); channels as usize] })
    }

    #[inline]
    fn channel(&mut self, line: u32) -> &mut (u64, u64) {
        let channels = self.counts.len() as u32;
        &mut self.counts[(line % channels) as usize]
    }

    #[inline]
    pub(super) fn read(&mut self, line: u32) {
        self.channel(line).0 += 1;
    }

    #[inline]
    pub(super) fn write(&mut self, line: u32) {
        self.channel(line).1 += 1;
    }

    /// Lines read.
    pub fn reads(&self) -> u64 {
        self.counts.iter().map(|c| c.0).sum()
    }

    /// Lines written.
    pub fn writes(&self) -> u64 {
        self.counts.iter().map(|c| c.1).sum()
    }

    /// Lines moved by the busiest channel.
    pub fn busiest(&self) -> u64 {
        self.counts.iter().map(|c| c.0 + c.1).max().unwrap_or(0)
    }
}

/// Lines that both media moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Fast memory.
    pub fast: ChannelTraffic,
    /// Slow memory.
    pub slow: ChannelTraffic,
}

impl Traffic {
    pub(super) fn new(fast_channels: u32, slow_channels: u32) -> Result<Self, HardwareError> {
        Ok(Self {
            fast: ChannelTraffic::new(fast_channels)?,
            slow: ChannelTraffic::new(slow_channels)?,
        })
    }
}
