//! A sheet of samples as a picture: a row for each class or client.

use super::font;
use crate::{DataError, Federation, Samples, Split};
use image::imageops::{self, FilterType};
use image::{ImageFormat, Rgb, RgbImage};
use std::io::Cursor;

/// What a row of the sheet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SheetRows {
    /// The training samples of a class.
    Classes,
    /// The training samples of a client.
    Clients,
}

/// Samples of a row.
const COLUMNS: usize = 12;
/// Of more rows than this, only the first are drawn.
const MOST_ROWS: usize = 50;
/// The longer side of a sample on the sheet, about.
const SIDE: u32 = 64;
/// Between samples.
const GAP: u32 = 4;
/// How much larger letters are than their dots.
const LETTER: u32 = 2;
/// Letters of a name.
const MOST_LETTERS: usize = 18;

const PAPER: Rgb<u8> = Rgb([250, 250, 248]);
const INK: Rgb<u8> = Rgb([40, 40, 48]);

/// A sheet of training samples, as a PNG file: a row for each class or client with its name, samples that lie evenly
/// over it. Nothing for data that are not pictures.
pub fn sheet(federation: &Federation, rows: SheetRows) -> Result<Option<Vec<u8>>, DataError> {
    let dataset = &federation.dataset;
    if dataset.shape.plane() == 1 {
        return Ok(None);
    }
    let named = match rows {
        SheetRows::Classes => classes(federation),
        SheetRows::Clients => clients(federation),
    };
    let left_out = named.len().saturating_sub(MOST_ROWS);
    let named = &named[..named.len().min(MOST_ROWS)];
    let scale = Scale::of(&*dataset.train);
    let longest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let margin = longest.min(MOST_LETTERS) as u32 * font::ADVANCE * LETTER + 2 * GAP;
    let (wide, high) = (scale.width + GAP, scale.height.max(font::HEIGHT * LETTER) + GAP);
    let foot = if left_out > 0 { font::HEIGHT * LETTER + GAP } else { 0 };
    let width = margin + COLUMNS as u32 * wide;
    let height = GAP + named.len() as u32 * high + foot;
    let mut picture = RgbImage::from_pixel(width, height, PAPER);
    for (row, (name, samples)) in (0..).zip(named) {
        let top = GAP + row * high;
        let short: String = name.chars().take(MOST_LETTERS).collect();
        let middle = top + (high - GAP).saturating_sub(font::HEIGHT * LETTER) / 2;
        font::write(&mut picture, (GAP, middle), LETTER, INK, &short);
        for (column, &i) in (0..).zip(samples) {
            let drawn = scale.drawn(&*dataset.train, i as usize);
            imageops::replace(
                &mut picture,
                &drawn,
                i64::from(margin + column * wide),
                i64::from(top),
            );
        }
    }
    if left_out > 0 {
        let line = format!("and {left_out} more");
        font::write(&mut picture, (GAP, height - foot), LETTER, INK, &line);
    }
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, ImageFormat::Png).map_err(|error| DataError::Input {
        place: "the sheet of samples".into(),
        found: error.to_string(),
        remedy: "make the samples smaller with data.size".into(),
    })?;
    Ok(Some(file.into_inner()))
}

/// Every class with samples of its own.
fn classes(federation: &Federation) -> Vec<(String, Vec<u32>)> {
    let dataset = &federation.dataset;
    let mut members = vec![Vec::new(); dataset.classes];
    for i in 0..dataset.train.len() as u32 {
        members[dataset.train.label(i as usize)].push(i);
    }
    dataset.class_names.iter().cloned().zip(members.iter().map(|own| spread(own))).collect()
}

/// Every client with samples of its own.
fn clients(federation: &Federation) -> Vec<(String, Vec<u32>)> {
    let own = |(client, data): (usize, &crate::ClientData)| {
        let indices: Vec<u32> = data.indices(Split::All).collect();
        (format!("client {client}"), spread(&indices))
    };
    federation.clients.iter().enumerate().map(own).collect()
}

/// Some of many, evenly.
fn spread(all: &[u32]) -> Vec<u32> {
    let count = all.len().min(COLUMNS);
    (0..count).map(|i| all[i * all.len() / count]).collect()
}

/// How samples are brought to the size that they have on the sheet.
struct Scale {
    width: u32,
    height: u32,
    /// The least and the greatest of some real numbers.
    range: (f32, f32),
}

impl Scale {
    fn of(samples: &dyn Samples) -> Self {
        let (height, width) = (samples.shape().height as u32, samples.shape().width as u32);
        let longer = width.max(height);
        let (width, height) = if longer <= SIDE {
            // Dots stay dots.
            let times = (SIDE / longer).max(1);
            (width * times, height * times)
        } else {
            ((width * SIDE / longer).max(1), (height * SIDE / longer).max(1))
        };
        let mut range = (f32::INFINITY, f32::NEG_INFINITY);
        for i in 0..samples.len().min(256) {
            for &value in samples.floats(i).iter().flat_map(|values| values.iter()) {
                range = (range.0.min(value), range.1.max(value));
            }
        }
        Self { width, height, range }
    }

    fn drawn(&self, samples: &dyn Samples, i: usize) -> RgbImage {
        let shape = samples.shape();
        let plane = shape.plane();
        let bytes: Vec<u8> = match (samples.bytes(i), samples.floats(i)) {
            (Some(bytes), _) => bytes.into_owned(),
            (None, Some(values)) => {
                let (least, most) = self.range;
                let span = (most - least).max(f32::MIN_POSITIVE);
                values.iter().map(|value| ((value - least) / span * 255.0) as u8).collect()
            }
            (None, None) => vec![0; shape.len()],
        };
        // Anything else than colours is shown by its first channel.
        let channel = |nth: usize| if shape.channels == 3 { nth * plane } else { 0 };
        let picture = RgbImage::from_fn(shape.width as u32, shape.height as u32, |x, y| {
            let place = y as usize * shape.width + x as usize;
            Rgb([0, 1, 2].map(|nth| bytes[channel(nth) + place]))
        });
        let filter =
            if self.width >= picture.width() { FilterType::Nearest } else { FilterType::Triangle };
        imageops::resize(&picture, self.width, self.height, filter)
    }
}
