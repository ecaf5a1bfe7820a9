//! Crop, flip and rotation of one channel, in one pass from the source to the batch.

use super::Draw;
use crate::Shape;

/// Writes a channel as drawn. What is not in the image is black.
pub(super) fn place<T: Copy>(
    shape: Shape,
    source: &[T],
    value: impl Fn(T) -> f32,
    black: f32,
    draw: &Draw,
    out: &mut [f32],
) {
    match draw.turn {
        None => shift(shape, source, value, black, draw, out),
        Some([sin, cos]) => turn(shape, source, value, black, draw, [sin, cos], out),
    }
}

/// Crop and flip: rows are copied from an offset.
fn shift<T: Copy>(
    Shape { height, width, .. }: Shape,
    source: &[T],
    value: impl Fn(T) -> f32,
    black: f32,
    &Draw { shift: [down, right], flip, .. }: &Draw,
    out: &mut [f32],
) {
    let (wide, high) = (width as i32, height as i32);
    // The columns of the source that are seen.
    let (from, to) = (right.clamp(0, wide) as usize, (wide + right).clamp(0, wide) as usize);
    // Black on the side that lies before them.
    let before = (-right).clamp(0, wide) as usize;
    let before = if flip { width - before - (to - from) } else { before };
    for (y, row) in (0..).zip(out.chunks_exact_mut(width)) {
        let above: i32 = y + down;
        if !(0..high).contains(&above) {
            row.fill(black);
            continue;
        }
        let seen = &source[above as usize * width..][from..to];
        let (left, rest) = row.split_at_mut(before);
        let (middle, right) = rest.split_at_mut(seen.len());
        left.fill(black);
        right.fill(black);
        if flip {
            middle.iter_mut().zip(seen.iter().rev()).for_each(|(x, y)| *x = value(*y));
        } else {
            middle.iter_mut().zip(seen).for_each(|(x, y)| *x = value(*y));
        }
    }
}

/// Rotation about the centre of what crop and flip have left, counter-clockwise, bilinear.
fn turn<T: Copy>(
    Shape { height, width, .. }: Shape,
    source: &[T],
    value: impl Fn(T) -> f32,
    black: f32,
    &Draw { shift: [down, right], flip, .. }: &Draw,
    [sin, cos]: [f32; 2],
    out: &mut [f32],
) {
    let (wide, high) = (width as i32, height as i32);
    // A pixel of what crop and flip have left.
    let at = |x: i32, y: i32| {
        if !(0..wide).contains(&x) || !(0..high).contains(&y) {
            return black;
        }
        let (x, y) = (if flip { wide - 1 - x } else { x } + right, y + down);
        if !(0..wide).contains(&x) || !(0..high).contains(&y) {
            return black;
        }
        value(source[y as usize * width + x as usize])
    };
    let (middle_x, middle_y) = ((width - 1) as f32 / 2.0, (height - 1) as f32 / 2.0);
    for (y, row) in out.chunks_exact_mut(width).enumerate() {
        let y = y as f32 - middle_y;
        for (x, pixel) in row.iter_mut().enumerate() {
            let x = x as f32 - middle_x;
            let (from_x, from_y) = (cos * x - sin * y + middle_x, sin * x + cos * y + middle_y);
            let (left, above) = (floor(from_x), floor(from_y));
            let (u, v) = (from_x - left as f32, from_y - above as f32);
            let upper = (1.0 - u) * at(left, above) + u * at(left + 1, above);
            let lower = (1.0 - u) * at(left, above + 1) + u * at(left + 1, above + 1);
            *pixel = (1.0 - v) * upper + v * lower;
        }
    }
}

/// The whole number below; without the call that `f32::floor` is where the processor's oldest
/// instructions must do.
fn floor(x: f32) -> i32 {
    let whole = x as i32;
    whole - i32::from(x < whole as f32)
}
