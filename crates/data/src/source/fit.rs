//! Bringing pictures of any size into the one shape that is wanted.

use formant_numerics::{Shape, Size};
use image::imageops::{FilterType, resize};
use image::{ImageBuffer, Luma, Pixel, Rgb};

/// A picture as bytes, pixel after pixel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Grey (1) or red, green, blue (3).
    pub(crate) channels: usize,
    /// Columns.
    pub(crate) width: usize,
    /// Rows.
    pub(crate) height: usize,
    /// `channels` bytes per pixel.
    pub(crate) bytes: Vec<u8>,
}

/// What had to be done to pictures before they had the wanted shape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fitting {
    /// Pictures that were cropped or resized.
    pub resized: usize,
    /// The size of the first of them.
    pub size: Option<Size>,
    /// Whether others of them had another size.
    pub sizes_differ: bool,
    /// Pictures with colours that were turned to grey.
    pub to_grey: usize,
    /// Grey pictures that were given three channels.
    pub to_colour: usize,
}

impl Fitting {
    /// Whether every picture had the wanted shape already.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what was done to later pictures.
    pub fn add(&mut self, later: &Self) {
        self.sizes_differ |= later.sizes_differ
            || (self.size.is_some() && later.resized > 0 && self.size != later.size);
        self.size = self.size.or(later.size);
        self.resized += later.resized;
        self.to_grey += later.to_grey;
        self.to_colour += later.to_colour;
    }
}

/// The largest side to which pictures of different sizes are brought if nobody says how large they should
/// be: on a processor, training on larger ones takes hours.
const MOST_SIDE: usize = 64;

/// A shape for pictures, and what is done to them unless all have it.
pub(crate) type Suitable = (Shape, Option<String>);

/// A shape for pictures of these sizes, with or without colours; nothing if there are none.
pub(crate) fn suitable(seen: &[(Size, bool)], wanted: Option<Size>) -> Option<Suitable> {
    let (first, _) = *seen.first()?;
    let colour = seen.iter().any(|(_, colour)| *colour);
    let shape = |size: Size| Shape::new(if colour { 3 } else { 1 }, size.height, size.width);
    let alike = seen.iter().all(|(size, _)| *size == first);
    let shown = |size: Size| format!("{}x{}", size.width, size.height);
    let done = |size| format!("pictures are cropped in the middle and resized to {}", shown(size));
    if let Some(size) = wanted {
        return Some((shape(size), (!alike || size != first).then(|| done(size))));
    }
    if alike && first.width.max(first.height) <= MOST_SIDE {
        return Some((shape(first), None));
    }
    let mut sides: Vec<usize> = seen.iter().map(|(size, _)| size.height.min(size.width)).collect();
    sides.sort_unstable();
    let median = sides[sides.len() / 2];
    // Halved often enough by a network's pooling, whatever it is.
    let side = if median < 8 { median.max(1) } else { (median / 8 * 8).min(MOST_SIDE) };
    let size = Size { height: side, width: side };
    let sizes = if alike {
        format!("all have {}", shown(first))
    } else {
        format!("they have different sizes, the median of the shorter sides is {median}")
    };
    Some((shape(size), Some(format!("{} ({sizes}); data.size chooses another size", done(size)))))
}

/// Appends a picture in the wanted shape, channel after channel: colours converted, the middle of it
/// cut out in the wanted proportion, then resized with an antialiasing (triangle) filter.
///
/// `shape` has one channel or three.
pub(crate) fn fit(picture: Picture, shape: Shape, out: &mut Vec<u8>) -> Fitting {
    let mut done = Fitting::default();
    let mut picture = picture;
    if picture.channels != shape.channels {
        if shape.channels == 1 {
            // Some formats store grey pictures as colours; nothing is lost there.
            let (pixels, _) = picture.bytes.as_chunks::<3>();
            done.to_grey = usize::from(pixels.iter().any(|[r, g, b]| r != g || g != b));
            picture = grey(&picture);
        } else {
            done.to_colour = 1;
            picture.bytes = picture.bytes.iter().flat_map(|&byte| [byte; 3]).collect();
            picture.channels = 3;
        }
    }
    if (picture.width, picture.height) != (shape.width, shape.height) {
        done.resized = 1;
        done.size = Some(Size { height: picture.height, width: picture.width });
        picture = cropped(picture, shape);
        picture = if shape.channels == 1 {
            scaled::<Luma<u8>>(picture, shape)
        } else {
            scaled::<Rgb<u8>>(picture, shape)
        };
    }
    for channel in 0..shape.channels {
        out.extend(picture.bytes.iter().skip(channel).step_by(shape.channels));
    }
    done
}

/// The luma of ITU-R BT.601 in the fixed-point arithmetic of Pillow's `convert("L")`, so that a grey
/// picture has the same bytes as in Python.
fn grey(picture: &Picture) -> Picture {
    let (pixels, _) = picture.bytes.as_chunks::<3>();
    let luma = |[red, green, blue]: &[u8; 3]| {
        let [red, green, blue] = [red, green, blue].map(|byte| u32::from(*byte));
        ((red * 19_595 + green * 38_470 + blue * 7_471 + 0x8000) >> 16) as u8
    };
    let bytes = pixels.iter().map(luma).collect();
    Picture { channels: 1, width: picture.width, height: picture.height, bytes }
}

/// The largest part in the middle that has the proportion of the shape's width to its height.
fn cropped(picture: Picture, shape: Shape) -> Picture {
    let (wide, high) = (picture.width as u64, picture.height as u64);
    let (width, height) = (shape.width as u64, shape.height as u64);
    let rounded = |a: u64, b: u64| ((a + b / 2) / b).max(1);
    let (new_wide, new_high) = if wide * height > high * width {
        (rounded(high * width, height).min(wide), high)
    } else {
        (wide, rounded(wide * height, width).min(high))
    };
    if (new_wide, new_high) == (wide, high) {
        return picture;
    }
    let (left, top) = ((wide - new_wide) / 2, (high - new_high) / 2);
    let row = picture.width * picture.channels;
    let columns = left as usize * picture.channels..(left + new_wide) as usize * picture.channels;
    let rows = picture.bytes.chunks_exact(row).skip(top as usize).take(new_high as usize);
    let bytes = rows.flat_map(|row| &row[columns.clone()]).copied().collect();
    let (width, height) = (new_wide as usize, new_high as usize);
    Picture { channels: picture.channels, width, height, bytes }
}

fn scaled<P: Pixel<Subpixel = u8> + 'static>(picture: Picture, shape: Shape) -> Picture {
    let (width, height) = (picture.width as u32, picture.height as u32);
    let bytes = match ImageBuffer::<P, _>::from_raw(width, height, picture.bytes) {
        Some(image) => {
            resize(&image, shape.width as u32, shape.height as u32, FilterType::Triangle).into_raw()
        }
        // A picture has as many bytes as its extents say.
        None => vec![0; shape.len()],
    };
    Picture { channels: shape.channels, width: shape.width, height: shape.height, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(channels: usize, width: usize, height: usize, bytes: &[u8]) -> Picture {
        Picture { channels, width, height, bytes: bytes.to_vec() }
    }

    #[test]
    fn the_wanted_shape_is_left_alone_and_made_planar() {
        let mut out = vec![9];
        let done = fit(picture(3, 2, 1, &[1, 2, 3, 4, 5, 6]), Shape::new(3, 1, 2), &mut out);
        assert_eq!((out, done), (vec![9, 1, 4, 2, 5, 3, 6], Fitting::default()));
    }

    #[test]
    fn colours_become_grey_as_pillow_has_them() {
        // By Pillow: Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0))
        let known = [
            ([255, 0, 0], 76),
            ([0, 255, 0], 150),
            ([0, 0, 255], 29),
            ([255, 255, 255], 255),
            ([10, 200, 30], 124),
            ([123, 45, 67], 71),
        ];
        for (colour, luma) in known {
            let mut out = Vec::new();
            let done = fit(picture(3, 1, 1, &colour), Shape::new(1, 1, 1), &mut out);
            let coloured = usize::from(colour != [255; 3]);
            assert_eq!((out, done.to_grey), (vec![luma], coloured), "{colour:?}");
        }
    }

    #[test]
    fn grey_becomes_three_equal_channels() {
        let mut out = Vec::new();
        let done = fit(picture(1, 2, 1, &[7, 8]), Shape::new(3, 1, 2), &mut out);
        assert_eq!((out, done.to_colour), (vec![7, 8, 7, 8, 7, 8], 1));
    }

    #[test]
    fn the_middle_is_cut_out_before_resizing() {
        // 6x2 pixels; the middle 2x2 are bright.
        let row = [0, 0, 200, 200, 0, 0];
        let mut out = Vec::new();
        let wide = picture(1, 6, 2, &[row, row].concat());
        let done = fit(wide, Shape::new(1, 1, 1), &mut out);
        assert_eq!(
            (out, done.size, done.resized),
            (vec![200], Some(Size { height: 2, width: 6 }), 1)
        );
        let high = picture(1, 1, 6, &row);
        let mut out = Vec::new();
        fit(high, Shape::new(1, 2, 1), &mut out);
        assert_eq!(out, [200, 200]);
    }

    #[test]
    fn shrinking_averages_and_does_not_alias() {
        // Alternating columns must become grey, not black or white.
        let bytes: Vec<u8> = (0..64 * 64).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect();
        let mut out = Vec::new();
        fit(picture(1, 64, 64, &bytes), Shape::new(1, 8, 8), &mut out);
        assert!(out.iter().all(|byte| (110..=145).contains(byte)), "{out:?}");
    }

    #[test]
    fn fittings_add_up_in_order() {
        let mut all = Fitting::default();
        let one = |width| Fitting {
            resized: 1,
            size: Some(Size { height: 4, width }),
            ..Fitting::default()
        };
        all.add(&one(4));
        all.add(&Fitting { to_grey: 1, ..Fitting::default() });
        assert!(!all.sizes_differ);
        all.add(&one(5));
        let expected = Fitting {
            resized: 2,
            size: Some(Size::square(4)),
            sizes_differ: true,
            to_grey: 1,
            to_colour: 0,
        };
        assert_eq!(all, expected);
    }
}
