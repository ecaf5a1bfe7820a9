//! Writes a model of every network with random values into a folder: `NAME.safetensors`, and beside it in
//! `NAME.check` pixels and the logits that Formant gives for them. `scripts/check-exports` compares other
//! programs with these.
//!
//! ```sh
//! cargo run -p formant-model --example samples -- FOLDER
//! ```

mod catalogue;

use formant_model::{Format, export};
use safetensors::tensor::{Dtype, TensorView, serialize};
use std::error::Error;
use std::path::PathBuf;

/// Images for each model.
const IMAGES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("name the folder to write to")?;
    let folder = PathBuf::from(folder);
    std::fs::create_dir_all(&folder)?;
    for sample in catalogue::samples()? {
        let card = &sample.file.card;
        let pixels = catalogue::pixels(card.input, IMAGES);
        let logits = catalogue::logits(&sample.file, &pixels)?;
        let logits: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        let shape = vec![IMAGES, card.input.channels, card.input.height, card.input.width];
        let check = serialize(
            [
                ("pixels", TensorView::new(Dtype::U8, shape, &pixels)?),
                ("logits", TensorView::new(Dtype::F32, vec![IMAGES, card.classes.len()], &logits)?),
            ],
            None,
        )?;
        let path = |ending: &str| folder.join(format!("{}.{ending}", sample.name));
        std::fs::write(path("safetensors"), export(&sample.file, Format::Safetensors)?)?;
        std::fs::write(path("check"), check)?;
        println!("{}", sample.name);
    }
    Ok(())
}
