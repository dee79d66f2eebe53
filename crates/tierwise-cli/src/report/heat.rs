//! A heat map as a small picture: pages upwards, time to the right. The colour shows which tier
//! served the misses, its strength their number.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use tierwise_sim::stats::HeatMap;

use crate::failure::Failure;

/// As many as a reader distinguishes in a picture that fills a third of the page. It also keeps a
/// report on hundreds of runs below five megabytes.
const COLUMNS: usize = 120;
const ROWS: usize = 40;

/// Levels of each quantity: a reader distinguishes no more, and 8 times 8 colours compress well.
const LEVELS: usize = 8;

/// Misses served by the slowest tier, and by the fastest: orange and blue, which are distinguished
/// with every kind of colour vision.
const SLOW: [f64; 3] = [230.0, 97.0, 1.0];
const FAST: [f64; 3] = [38.0, 120.0, 200.0];

/// Misses, and those served fast, of one pixel.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    misses: f64,
    fast: f64,
}

/// Returns the picture as a `data:` address; `None` for an empty map.
pub fn picture(map: &HeatMap) -> Result<Option<String>, Failure> {
    let (cells, width) = shrink(map);
    let mut strengths: Vec<f64> = cells.iter().map(|c| c.misses).filter(|&m| m > 0.0).collect();
    if strengths.is_empty() {
        return Ok(None);
    }
    strengths.sort_by(f64::total_cmp);
    // A few pages have most misses; the full strength is for the upper hundredth.
    let full = strengths[(strengths.len() - 1) * 99 / 100];
    let pixels: Vec<u8> = cells.iter().map(|cell| index(*cell, full)).collect();
    let height = pixels.len() / width;
    let png = encode(&pixels, width as u32, height as u32)
        .map_err(|error| Failure::Internal(format!("heat map: {error}")))?;
    Ok(Some(format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))))
}

/// Adds up cells until they fit the picture. Row by row, the last pages first.
fn shrink(map: &HeatMap) -> (Vec<Cell>, usize) {
    let rows = map.misses.iter().map(Vec::len).max().unwrap_or(0);
    let (across, up) = (map.misses.len().div_ceil(COLUMNS).max(1), rows.div_ceil(ROWS).max(1));
    let (width, height) = (map.misses.len().div_ceil(across).max(1), rows.div_ceil(up));
    let mut cells = vec![Cell::default(); width * height];
    for (x, (misses, shares)) in map.misses.iter().zip(&map.fast_share).enumerate() {
        for (y, (&misses, &share)) in misses.iter().zip(shares).enumerate() {
            let cell = &mut cells[(height - 1 - y / up) * width + x / across];
            cell.misses += misses;
            cell.fast += misses * f64::from(share);
        }
    }
    (cells, width)
}

/// Returns the palette's colour of a cell; 0 is nothing.
fn index(cell: Cell, full: f64) -> u8 {
    if cell.misses <= 0.0 {
        return 0;
    }
    // A square root, so that cool pages stay visible beside hot ones.
    let strength = (cell.misses / full).sqrt().min(1.0);
    let strength = ((strength * LEVELS as f64).ceil() as usize).clamp(1, LEVELS) - 1;
    let share = (cell.fast / cell.misses * (LEVELS - 1) as f64).round() as usize;
    (1 + strength * LEVELS + share.min(LEVELS - 1)) as u8
}

/// Returns the colours and their opacities.
fn palette() -> (Vec<u8>, Vec<u8>) {
    let (mut colours, mut opacities) = (vec![0, 0, 0], vec![0]);
    for strength in 1..=LEVELS {
        for share in 0..LEVELS {
            let fast = share as f64 / (LEVELS - 1) as f64;
            for (slow, quick) in SLOW.iter().zip(FAST) {
                colours.push((slow + (quick - slow) * fast).round() as u8);
            }
            opacities.push((255 * strength / LEVELS) as u8);
        }
    }
    (colours, opacities)
}

fn encode(pixels: &[u8], width: u32, height: u32) -> Result<Vec<u8>, png::EncodingError> {
    let mut file = Vec::new();
    let (colours, opacities) = palette();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(colours);
    encoder.set_trns(opacities);
    encoder.set_compression(png::Compression::High);
    // Neighbouring indices of a palette are not neighbouring numbers.
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(pixels)?;
    writer.finish()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_keeps_misses_and_page_order() {
        let map = HeatMap {
            pages_per_row: 1,
            seconds_per_column: 1.0,
            misses: (0..500).map(|_| vec![8.0, 1.0, 1.0]).collect(),
            fast_share: (0..500).map(|_| vec![0.25, 1.0, 0.0]).collect(),
        };
        let (cells, width) = shrink(&map);
        assert_eq!((width, cells.len()), (100, 300));
        assert_eq!(cells.iter().map(|c| c.misses).sum::<f64>(), 5000.0);
        let bottom = cells[2 * width];
        assert_eq!((bottom.misses, bottom.fast), (40.0, 10.0));
    }

    #[test]
    fn colours_follow_tier_and_strength() {
        let (colours, opacities) = palette();
        assert_eq!((colours.len() / 3, opacities.len()), (65, 65));
        let colour = |cell| {
            let i = usize::from(index(cell, 100.0));
            (&colours[3 * i..3 * i + 3], opacities[i])
        };
        assert_eq!(colour(Cell { misses: 100.0, fast: 100.0 }), (&[38, 120, 200][..], 255));
        assert_eq!(colour(Cell { misses: 900.0, fast: 0.0 }), (&[230, 97, 1][..], 255));
        assert_eq!(colour(Cell { misses: 1e-9, fast: 0.0 }), (&[230, 97, 1][..], 31));
        assert_eq!(colour(Cell::default()).1, 0);
    }

    #[test]
    fn an_empty_map_is_no_picture() {
        assert!(picture(&HeatMap::default()).unwrap().is_none());
    }
}
