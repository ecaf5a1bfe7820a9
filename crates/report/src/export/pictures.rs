//! The report's figures as files.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::ExportFile;
use crate::{Figure, ReportError, RunLog, figures};

/// Latin, Greek and some symbols, so that a picture is the same on every machine. See `fonts/README.md`.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSansCondensed-subset.ttf");

/// Pixels of a picture for each of the drawing: sharp on paper.
const SCALE: f32 = 2.0;
/// The most pixels of a picture; a larger drawing is scaled down.
const MOST: f32 = 64e6;

/// Which files figures become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Picture {
    /// Scalable, with text that can be searched.
    Svg,
    /// Pixels, for programs that take no SVG.
    Png,
}

/// Every figure of the report of some runs as a file.
pub fn pictures(logs: &[RunLog], kind: Picture) -> Result<Vec<ExportFile>, ReportError> {
    let figures = figures(logs);
    if figures.is_empty() {
        let name = logs.first().map(|log| log.started.name.clone()).unwrap_or_default();
        return Err(ReportError::NoFigures { name });
    }
    let pens = Pens::new();
    let files = figures.into_iter().map(|Figure { name, svg, .. }| match kind {
        Picture::Svg => Ok(ExportFile::new(format!("{name}.svg"), svg)),
        Picture::Png => match pens.draw(&svg) {
            Ok(bytes) => Ok(ExportFile::new(format!("{name}.png"), bytes)),
            Err(why) => Err(ReportError::Undrawable { figure: name, why }),
        },
    });
    files.collect()
}

/// An SVG of ours as a PNG: on every machine with the same letters.
pub fn png(name: &str, svg: &str) -> Result<Vec<u8>, ReportError> {
    let drawn = Pens::new().draw(svg);
    drawn.map_err(|why| ReportError::Undrawable { figure: name.to_owned(), why })
}

/// What drawing needs.
struct Pens {
    options: Options<'static>,
}

impl Pens {
    fn new() -> Self {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(FONT.to_vec());
        let first = fonts.faces().next().and_then(|face| face.families.first());
        let family = first.map(|(name, _)| name.clone()).unwrap_or_default();
        // Whatever family an SVG asks for, this is it.
        fonts.set_sans_serif_family(family.as_str());
        fonts.set_serif_family(family.as_str());
        fonts.set_monospace_family(family.as_str());
        let options =
            Options { font_family: family, fontdb: Arc::new(fonts), ..Options::default() };
        Self { options }
    }

    fn draw(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = Tree::from_str(svg, &self.options).map_err(|error| error.to_string())?;
        let size = tree.size();
        let fitting = (MOST / (size.width() * size.height())).sqrt();
        let scale = SCALE.min(fitting);
        let [width, height] =
            [size.width(), size.height()].map(|side| (side * scale).ceil() as u32);
        let mut pixels = Pixmap::new(width, height).ok_or("it has no size")?;
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
        pixels.encode_png().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(content: &str) -> Pixmap {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"60\" height=\"20\" viewBox=\"0 0 60 20\">\
             <style>text {{ font: 12px Helvetica, sans-serif }} .a {{ color: #ff0000; fill: currentColor }}</style>\
             {content}</svg>"
        );
        Pixmap::decode_png(&png("test", &svg).unwrap()).unwrap()
    }

    #[test]
    fn text_is_drawn_without_fonts_of_the_system() {
        let ink = |letters: &str| {
            let pixels = drawn(&format!("<text x=\"2\" y=\"15\">{letters}</text>"));
            assert_eq!((pixels.width(), pixels.height()), (120, 40));
            pixels.pixels().iter().filter(|pixel| pixel.alpha() > 128).count()
        };
        let missing = ink("中");
        for letter in "Aé±≈−×ατλ≤…".chars() {
            let found = ink(&letter.to_string());
            assert!(found > 0 && found != missing, "{letter}: {found} pixels");
        }
        assert_eq!(ink(""), 0);
    }

    #[test]
    fn classes_give_colours() {
        let pixels = drawn("<rect class=\"a\" width=\"60\" height=\"20\"/>");
        let first = pixels.pixels()[0];
        assert_eq!((first.red(), first.green(), first.alpha()), (255, 0, 255));
    }

    #[test]
    fn what_is_no_svg_is_refused() {
        let refused = png("curves", "<svg").unwrap_err().to_string();
        assert!(
            refused.contains("curves") && refused.contains("; take it with --svg"),
            "{refused}"
        );
    }
}
