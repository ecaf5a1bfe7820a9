//! The report's figures as files.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::ExportFile;
use crate::{Figure, ReportError, RunLog, figures};

/// Latin, Greek and some symbols, so that a picture is the same on every machine. See `fonts/README.md`.
const FONT: &[u8] = include_bytes!("../../fonts/DejaVuSans-subset.ttf");
const FAMILY: &str = "DejaVu Sans";

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
        // Whatever family an SVG asks for, there is one.
        fonts.set_sans_serif_family(FAMILY);
        fonts.set_serif_family(FAMILY);
        fonts.set_monospace_family(FAMILY);
        let options = Options {
            font_family: FAMILY.to_owned(),
            fontdb: Arc::new(fonts),
            ..Options::default()
        };
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
