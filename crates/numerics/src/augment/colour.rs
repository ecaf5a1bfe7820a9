//! Brightness, contrast and saturation of values in `[0, 1]`, as torchvision's `ColorJitter` defines them, in this
//! order.

use super::batch::Planes;

/// What red, green and blue contribute to grey (ITU-R 601-2).
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// Changes one sample by the factors of brightness, contrast and saturation.
pub(super) fn jitter([brightness, contrast, saturation]: [f32; 3], planes: &mut Planes<'_>) {
    if brightness != 1.0 {
        for channel in 0..planes.channels() {
            planes.of(channel).iter_mut().for_each(|x| *x = (brightness * *x).clamp(0.0, 1.0));
        }
    }
    if contrast != 1.0 {
        let shade = (1.0 - contrast) * mean_grey(planes);
        for channel in 0..planes.channels() {
            let plane = planes.of(channel).iter_mut();
            plane.for_each(|x| *x = (contrast * *x + shade).clamp(0.0, 1.0));
        }
    }
    if saturation != 1.0
        && let Some([red, green, blue]) = planes.colours()
    {
        for ((r, g), b) in red.iter_mut().zip(green).zip(blue) {
            let shade = (1.0 - saturation) * grey(*r, *g, *b);
            for x in [r, g, b] {
                *x = (saturation * *x + shade).clamp(0.0, 1.0);
            }
        }
    }
}

fn grey(r: f32, g: f32, b: f32) -> f32 {
    GREY[0] * r + GREY[1] * g + GREY[2] * b
}

/// Of an image in colour, or else the mean of its first channel, which is then the only one.
fn mean_grey(planes: &mut Planes<'_>) -> f32 {
    let (sum, len) = if let Some([red, green, blue]) = planes.colours() {
        let pixels = red.iter().zip(green.iter()).zip(blue.iter());
        (pixels.map(|((r, g), b)| f64::from(grey(*r, *g, *b))).sum::<f64>(), red.len())
    } else {
        let plane = planes.of(0);
        (plane.iter().map(|x| f64::from(*x)).sum(), plane.len())
    };
    (sum / len as f64) as f32
}
