//! Augmentation by the obvious way: an image that is padded, cut out, flipped, turned and coloured in turn.

use super::{Draw, Pictures};
use crate::Shape;

/// A new value from all channels, a row, a column and the old one.
type Change<'c> = dyn Fn(&[Vec<Vec<f64>>], usize, usize, f64) -> f64 + 'c;

/// One sample as drawn.
pub(super) fn seen(image: &Pictures, index: usize, draw: &Draw) -> Vec<f64> {
    let Shape { channels, height, width } = image.shape;
    let mut planes: Vec<Vec<Vec<f64>>> = (0..channels)
        .map(|c| {
            let byte = |y: i32, x: i32| -> f64 {
                let inside = (0..height as i32).contains(&y) && (0..width as i32).contains(&x);
                let at = (c * height + y.max(0) as usize) * width + x.max(0) as usize;
                if inside { f64::from(image.sample(index)[at]) / 255.0 } else { 0.0 }
            };
            let cropped =
                |y: usize, x: usize| byte(y as i32 + draw.shift[0], x as i32 + draw.shift[1]);
            let row = |y| (0..width).map(move |x| cropped(y, x)).collect::<Vec<_>>();
            let mut rows: Vec<Vec<f64>> = (0..height).map(row).collect();
            if draw.flip {
                for row in &mut rows {
                    row.reverse();
                }
            }
            rows
        })
        .collect();
    if let Some([sin, cos]) = draw.turn.map(|turn| turn.map(f64::from)) {
        for plane in &mut planes {
            let before = plane.clone();
            let at = |y: i64, x: i64| -> f64 {
                let row = usize::try_from(y).ok().and_then(|y| before.get(y));
                let pixel = row.and_then(|row| usize::try_from(x).ok().and_then(|x| row.get(x)));
                pixel.copied().unwrap_or(0.0)
            };
            for (y, row) in plane.iter_mut().enumerate() {
                for (x, pixel) in row.iter_mut().enumerate() {
                    let (mx, my) = ((width as f64 - 1.0) / 2.0, (height as f64 - 1.0) / 2.0);
                    let (dx, dy) = (x as f64 - mx, y as f64 - my);
                    let (fx, fy) = (cos * dx - sin * dy + mx, sin * dx + cos * dy + my);
                    *pixel = 0.0;
                    for (ky, kx) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        let (ny, nx) = (fy.floor() as i64 + ky, fx.floor() as i64 + kx);
                        let weight =
                            (1.0 - (fy - ny as f64).abs()) * (1.0 - (fx - nx as f64).abs());
                        *pixel += weight * at(ny, nx);
                    }
                }
            }
        }
    }
    if let Some([brightness, contrast, saturation]) = draw.colour.map(|all| all.map(f64::from)) {
        let grey = |planes: &[Vec<Vec<f64>>], y: usize, x: usize| match channels {
            3 => 0.2989 * planes[0][y][x] + 0.587 * planes[1][y][x] + 0.114 * planes[2][y][x],
            _ => planes[0][y][x],
        };
        let all = |planes: &mut Vec<Vec<Vec<f64>>>, change: &Change<'_>| {
            let before = planes.clone();
            for plane in planes {
                for (y, row) in plane.iter_mut().enumerate() {
                    for (x, pixel) in row.iter_mut().enumerate() {
                        *pixel = change(&before, y, x, *pixel).clamp(0.0, 1.0);
                    }
                }
            }
        };
        all(&mut planes, &|_, _, _, v| brightness * v);
        let places = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        let mean = places.map(|(y, x)| grey(&planes, y, x)).sum::<f64>() / (height * width) as f64;
        all(&mut planes, &|_, _, _, v| contrast * v + (1.0 - contrast) * mean);
        if channels == 3 {
            all(&mut planes, &|p, y, x, v| saturation * v + (1.0 - saturation) * grey(p, y, x));
        }
    }
    for (plane, n) in planes.iter_mut().zip(&image.normalisation) {
        for (y, row) in plane.iter_mut().enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                *pixel = (*pixel - f64::from(n.mean)) / f64::from(n.std);
                if draw.hole[0].contains(&y) && draw.hole[1].contains(&x) {
                    *pixel = 0.0;
                }
            }
        }
    }
    planes.into_iter().flatten().flatten().collect()
}
